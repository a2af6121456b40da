"""The MAP sets that λ is chosen by, and whether λ is so small that the determinant cannot matter."""

import numpy as np
import pytest

from ceil_jax.dpp.kernel import similarity
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.training.trade_offs import TRADE_OFFS, log_det_share, map_sets, trade_off_note


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def case(seed, queries=6, bank=30, shortlist=12, dim=8):
    rng = np.random.default_rng(seed)
    items = unit(rng.normal(size=(bank, dim)))
    asked = unit(rng.normal(size=(queries, dim)))
    nearest = np.argsort(-(asked @ items.T), axis=1)[:, :shortlist].astype(np.int32)
    return asked, items, nearest


@pytest.mark.parametrize("fit", ["greedy", "similarity"])
def test_map_sets_are_cut_to_the_budget_as_prompts_are(fit):
    asked, items, nearest = case(3)
    nearest[0, 8:] = -1
    rng = np.random.default_rng(3)
    costs = rng.integers(1, 9, size=nearest.shape)
    remaining = rng.integers(0, 30, size=len(asked))
    sets = map_sets(asked, items, nearest, 5, fit, costs, remaining)
    lengths = set()
    for number, trade_off in enumerate(TRADE_OFFS):
        chosen = greedy_map_shortlists(asked, items, nearest, 5, trade_off).items
        for query, row in enumerate(chosen):
            order = [nearest[query].tolist().index(item) for item in row if item >= 0]
            if fit == "similarity":
                order = sorted(order)
            while costs[query, order].sum() > remaining[query]:
                order = order[:-1]
            expected = sorted(order) + [-1] * (5 - len(order))
            assert sets.subsets[query, number].tolist() == expected
            lengths.add(len(order))
    assert len(lengths) > 2, "some sets are cut"


def test_the_share_is_that_of_all_sets():
    """Against every set of two, with numpy's own determinant."""
    asked, items, nearest = case(0)
    log_dets = []
    relevances = []
    for query, row in zip(asked, nearest, strict=True):
        pairs = [(i, j) for i in row for j in row if i < j]
        matrices = [similarity(items[[*pair]] @ items[[*pair]].T) for pair in pairs]
        log_dets.append(np.std(np.log(np.linalg.det(matrices))))
        relevances.append(np.std([similarity(items[[*pair]] @ query).sum() for pair in pairs]))
    expected = np.mean(log_dets) / np.mean(relevances)
    assert log_det_share(asked, items, nearest, 2) == pytest.approx(expected, rel=0.1)


def test_empty_positions_do_not_count():
    asked, items, nearest = case(1)
    padded = np.pad(nearest, ((0, 0), (0, 5)), constant_values=-1)
    whole = log_det_share(asked, items, nearest, 3)
    assert log_det_share(asked, items, padded, 3) == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("size", [1, 0])
def test_sets_of_one_have_no_share(size):
    assert log_det_share(*case(2), size) == 0


def test_equally_relevant_examples_leave_all_to_the_determinant():
    items = unit(np.eye(4)[1:] + 0.3 * np.random.default_rng(0).normal(size=(3, 4)) * [0, 1, 1, 1])
    asked = np.eye(4, dtype=np.float32)[:1]
    assert log_det_share(asked, items, np.array([[0, 1, 2]], np.int32), 2) > 1e4


def test_the_note_is_for_a_share_below_a_twentieth():
    assert trade_off_note(0.001, 49.0).startswith("λ = 0.001: the set is the nearest examples (")
    assert trade_off_note(0.001, 51.0) == ""
    assert trade_off_note(0.05, 17.0) == ""
