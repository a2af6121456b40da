"""CEIL's head: what it is told, how it is fitted, what it chooses."""

from dataclasses import replace

import numpy as np
import pytest
from test_pipeline import SMALL, TASK

from ceil_jax import build_retriever, load_encoder
from ceil_jax.errors import UserError
from ceil_jax.head import FEATURES, PairFeatures, fit_head
from ceil_jax.methods import METHODS
from ceil_jax.pipeline import Pipeline
from ceil_jax.tasks.base import Example
from ceil_jax.train import split_held_out
from ceil_jax.tuning import TRADE_OFFS

BANK = [
    Example("0", "a dull film", "bad"),
    Example("1", "a dull and long film", "bad"),
    Example("2", "great fun", "good"),
    Example("3", "great fun for all", "good"),
]
OUTPUTS = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
QUERY = Example("q", "dull", "good")


def column(features, name):
    return features[..., FEATURES.index(name)]


def features(queries=(QUERY,), shortlist=((0, 1, 2, 3),), cosines=((0.9, 0.8, 0.1, 0.0),)):
    return PairFeatures(BANK, OUTPUTS)(list(queries), np.array(shortlist), np.array(cosines))


def test_what_a_query_and_an_example_have_in_common():
    found = features()
    assert found.shape == (1, 4, len(FEATURES))
    assert column(found, "relevance").tolist() == [[0.95, 0.9, 0.55, 0.5]]
    words = column(found, "shared words")[0]
    assert words[0] == 1 and 0 < words[1] < 1 and words[2] == words[3] == 0
    # its neighbours are bad, so bad is likely
    likely = column(found, "likely output")[0]
    assert likely[0] == likely[1] > 0 > likely[2] == likely[3]
    assert column(found, "length of output")[0].tolist() == np.log1p([3, 3, 4, 4]).tolist()
    assert column(found, "length of input")[0].tolist() == np.log1p([11, 20, 9, 17]).tolist()


def test_the_answer_of_a_query_is_not_looked_at():
    assert (features() == features([replace(QUERY, output="bad")])).all()


def test_empty_places_say_nothing():
    short = features(shortlist=[[2, 0, -1, -1]], cosines=[[0.9, 0.2, 0, 0]])
    alone = PairFeatures(BANK, OUTPUTS)([QUERY], np.array([[2, 0]]), np.array([[0.9, 0.2]]))
    assert np.allclose(short[:, :2], alone)


def test_the_fit_finds_what_scores_are_made_of():
    rng = np.random.default_rng(0)
    given = rng.normal(size=(200, 12, 3)) * [1, 100, 0]
    subsets = np.stack([[rng.permutation(12)[:3] for _ in range(40)] for _ in range(200)])
    log_dets = rng.normal(size=(200, 40))
    rows = np.arange(200)[:, None, None]
    scores = given[rows, subsets].sum(2) @ [0.5, -0.005, 1] + 0.25 * log_dets
    # neither what a query has at all, nor how far apart its scores are, matters
    found = fit_head(
        given, subsets, log_dets, scores * rng.uniform(1, 1.2, (200, 1)) + rng.normal(size=(200, 1))
    )
    assert found / found[0] == pytest.approx([1, -0.01, 0], rel=0.1)
    # a λ means what it means for the encoder
    assert (given @ found).std(1).mean() == pytest.approx(given[..., 0].std(1).mean())


def test_with_relevance_alone_it_is_dpp_map():
    encoder = load_encoder("tiny")
    settings = {"encoder": encoder, "shortlist": 20, "trade_off": 0.05}
    bank, queries = TASK.train, TASK.validation[:5]
    ours = build_retriever("head", bank, head=np.array([1.0, 0, 0, 0, 0]), **settings).retrieve(queries, 4)
    theirs = build_retriever("dpp", bank, **settings).retrieve(queries, 4)
    assert [[pick.id for pick in picks] for picks in ours] == [
        [pick.id for pick in picks] for picks in theirs
    ]
    gains, relevances = (
        [[[getattr(pick, name) for pick in picks] for picks in found] for found in (ours, theirs)]
        for name in ("gain", "relevance")
    )
    assert np.allclose(*gains, atol=1e-3)
    # but for the best one's
    assert np.allclose(*(np.array(one) - np.max(one, axis=1, keepdims=True) for one in relevances), atol=1e-6)


def test_a_head_must_be_given():
    with pytest.raises(UserError, match="give it a head"):
        build_retriever("head", BANK, encoder=load_encoder("tiny"))


def test_it_is_fitted_on_held_out_queries_alone(tmp_path, monkeypatch):
    pipeline = Pipeline(replace(SMALL, out=tmp_path), TASK)
    seen = []
    monkeypatch.setattr("ceil_jax.training.fit_head", lambda *parts: seen.append(parts) or fit_head(*parts))
    assert 0 <= pipeline.evaluate("ceil_head").value <= 1
    [(_, subsets, _, scores)] = seen
    scored = pipeline.ceil_scores
    _, held_out = split_held_out(len(scored.instances), SMALL.seed)
    assert (scores == pipeline.signal(scored.rows)[held_out]).all()
    assert (subsets == scored.proposal.subsets[held_out]).all()
    # fitted once
    pipeline.retrieve("ceil_head", TASK.validation[:2])
    assert len(seen) == 1


def test_its_trade_off_is_tuned_for_its_own_sets(tmp_path):
    config = replace(SMALL, out=tmp_path, ceil=replace(SMALL.ceil, trade_off="tuned"))
    pipeline = Pipeline(config, TASK)
    pipeline.evaluate("ceil_head")
    chosen = pipeline.trade_off_of(METHODS["ceil_head"])
    assert chosen in TRADE_OFFS and pipeline._trade_offs["head"] == chosen
    assert pipeline.costs["scoring λ of head"].tokens > 0
    assert "scoring λ of head" in pipeline.needed("ceil_head") - pipeline.needed("ceil")
