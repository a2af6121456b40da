"""MAP and MMR over shortlists, against the functions for one query and against slow versions."""

import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.dpp.greedy import greedy_map_from_features
from ceil_jax.dpp.kernel import relevance
from ceil_jax.retrieval import shortlists as shortlists_module
from ceil_jax.retrieval.shortlists import greedy_map_shortlists, mmr_shortlists

N = 12
D = 16
K = 6


def unit_rows(seed, count):
    rows = np.random.default_rng(seed).normal(size=(count, D)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def drawn(queries, bank):
    rows = [np.random.default_rng(i).permutation(bank)[:N] for i in range(queries)]
    return np.stack(rows).astype(np.int32)


@pytest.mark.parametrize("queries", [1, 7])
def test_shortlists(queries):
    bank = unit_rows(11, 40)
    asked = unit_rows(12, queries)
    shortlists = drawn(queries, 40)
    shortlists[0, 3:] = -1
    ours = greedy_map_shortlists(asked, bank, shortlists, K, 0.1)
    for i, shortlist in enumerate(shortlists):
        features = jnp.asarray(bank[shortlist])
        valid = jnp.asarray(shortlist >= 0)
        r = relevance(jnp.asarray(asked[i]), features, valid=valid)
        alone = greedy_map_from_features(features, r, K, 0.1, valid)
        np.testing.assert_array_equal(
            ours.items[i], np.where(alone.items >= 0, shortlist[alone.items], -1)
        )
        np.testing.assert_allclose(ours.gains[i], alone.gains, rtol=1e-4, atol=1e-5)
    assert (ours.items[0, 3:] == -1).all()


@pytest.mark.parametrize("choose", [greedy_map_shortlists, mmr_shortlists])
def test_of_a_bank_only_shortlisted_rows_travel(choose, monkeypatch, tmp_path):
    """The choice is the same to the last bit as from the whole bank."""
    bank = unit_rows(13, 2000)
    asked = unit_rows(14, 4)
    shortlists = drawn(4, 2000)
    shortlists[0, 3:] = -1
    shortlists[1] = -1
    shortlists[2, 0] = 1999
    np.save(tmp_path / "bank.npy", bank)
    map_batches = shortlists_module.map_batches
    sent = []
    whole = []

    def watched(function, rows, shared, **options):
        sent.append(len(shared[0]))
        queries, _, *more = rows
        whole[:] = map_batches(function, (queries, shortlists, *more), (bank, shared[1]), **options)
        return map_batches(function, rows, shared, **options)

    monkeypatch.setattr(shortlists_module, "map_batches", watched)
    for items in (bank, jnp.asarray(bank), np.load(tmp_path / "bank.npy", mmap_mode="r")):
        ours = choose(asked, items, shortlists, K, 0.1)
        np.testing.assert_array_equal(ours.items, whole[0])
        np.testing.assert_array_equal(ours.gains, whole[1])
        assert ours.items.dtype == np.int32
    assert (ours.items[2:] >= 0).any()
    # 3 + 12 + 12 different rows
    assert sent == [32] * 3
