import zlib

import numpy as np
import pytest
from big_bank import recall

from ceil_jax.errors import UserError
from ceil_jax.retrieval.faiss_index import ApproximateIndex
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.registry import build_retriever
from ceil_jax.tasks.example import Example


def clustered(seed, count):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(40, 16))
    return (centres[rng.integers(40, size=count)] + 0.3 * rng.normal(size=(count, 16))).astype(np.float32)


ITEMS, QUERIES = clustered(0, 4000), clustered(1, 50)
EXCLUDE = np.arange(50) - 1


def test_all_cells_are_exact():
    index = ApproximateIndex(ITEMS, cells=20, probes=20)
    scores, indices = index.top_k(QUERIES, 7, EXCLUDE)
    exact_scores, exact = top_k(QUERIES, ITEMS, 7, EXCLUDE)
    assert indices.dtype == np.int32
    assert indices.tolist() == exact.tolist()
    np.testing.assert_allclose(scores, exact_scores, rtol=1e-4)


def test_more_probes_find_more_and_few_find_most():
    _, exact = top_k(QUERIES, ITEMS, 10)
    found = [recall(ApproximateIndex(ITEMS, probes=p).top_k(QUERIES, 10)[1], exact) for p in (1, 4, 16)]
    assert found == sorted(found)
    assert found[0] < found[2]
    assert found[2] > 0.9


def test_the_query_itself_is_never_found():
    _, indices = ApproximateIndex(ITEMS).top_k(ITEMS[:30], 5, np.arange(30))
    assert not (indices == np.arange(30)[:, None]).any()
    assert (indices >= 0).all()


def test_fewer_items_than_asked_for():
    scores, indices = ApproximateIndex(ITEMS[:3]).top_k(QUERIES[:2], 5, np.array([1, -1]))
    assert (indices >= 0).sum(axis=1).tolist() == [2, 3]
    assert (scores[indices < 0] == -np.inf).all()
    assert ApproximateIndex(ITEMS[:3]).top_k(QUERIES[:0], 5)[1].shape == (0, 5)


def test_recall_is_a_share():
    # 3 of 2 + 2 neighbours; the empty place counts neither way
    assert recall(np.array([[1, 2, 3], [4, 5, -1]]), np.array([[3, 1, -1], [5, 6, -1]])) == 3 / 4


class Drawn:
    """Encodes a text as numbers drawn by it: no two are equally near."""

    def encode(self, texts):
        return np.array([np.random.default_rng(zlib.crc32(text.encode())).normal(size=8) for text in texts])


def test_a_retriever_by_flag(monkeypatch):
    asked = []
    top_k = ApproximateIndex.top_k
    monkeypatch.setattr(ApproximateIndex, "top_k", lambda *a, **k: asked.append(a) or top_k(*a, **k))
    bank = [Example(f"train-{i}", f"text {i}", "x") for i in range(200)]
    options = {"encoder": Drawn(), "shortlist": 20}
    for name in ("dense", "dpp"):
        exact = build_retriever(name, bank, **options).retrieve(bank[:8], 3)
        near = build_retriever(name, bank, index="approximate", **options).retrieve(bank[:8], 3)
        assert asked
        asked.clear()
        assert [[pick.id for pick in picks] for picks in near] == [[pick.id for pick in row] for row in exact]
    with pytest.raises(UserError, match="several vectors an example are compared: take --index exact"):
        build_retriever("skill_distinct", bank, index="approximate", rewrite=lambda t: t, **options)
    with pytest.raises(UserError, match="unknown index 'aproximate'; did you mean 'approximate'"):
        build_retriever("dense", bank, index="aproximate", **options)
