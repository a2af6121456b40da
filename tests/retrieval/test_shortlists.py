"""MAP and MMR over shortlists, against the functions for one query and against slow versions."""

import jax.numpy as jnp
import numpy as np
import pytest
import reference

from ceil_jax.dpp.budgeted import NEXT_TO_NOTHING
from ceil_jax.dpp.greedy import CLOSED_BELOW, greedy_map_from_features
from ceil_jax.dpp.kernel import relevance
from ceil_jax.retrieval import shortlists as shortlists_module
from ceil_jax.retrieval.shortlists import (
    budgeted_map_shortlists,
    greedy_map_shortlists,
    mmr_shortlists,
)

N, D, K = 12, 16, 6


def unit_rows(seed, count):
    rows = np.random.default_rng(seed).normal(size=(count, D)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("queries", [1, 7])
def test_shortlists(queries):
    bank, asked = unit_rows(11, 40), unit_rows(12, queries)
    shortlists = np.stack([np.random.default_rng(i).permutation(40)[:N] for i in range(queries)]).astype(
        np.int32
    )
    shortlists[0, 3:] = -1
    ours = greedy_map_shortlists(asked, bank, shortlists, K, 0.1)
    for i, shortlist in enumerate(shortlists):
        features = jnp.asarray(bank[shortlist])
        valid = jnp.asarray(shortlist >= 0)
        r = relevance(jnp.asarray(asked[i]), features, valid=valid)
        alone = greedy_map_from_features(features, r, K, 0.1, valid)
        np.testing.assert_array_equal(ours.items[i], np.where(alone.items >= 0, shortlist[alone.items], -1))
        np.testing.assert_allclose(ours.gains[i], alone.gains, rtol=1e-4, atol=1e-5)
    assert (ours.items[0, 3:] == -1).all()


def budgeted_map(queries, items, shortlists, k, trade_off):
    costs, budgets = np.full_like(shortlists, 2), np.full(len(queries), 2 * k - 3)
    return budgeted_map_shortlists(queries, items, shortlists, costs, budgets, k, trade_off)


@pytest.mark.parametrize("choose", [greedy_map_shortlists, mmr_shortlists, budgeted_map])
def test_of_a_bank_only_shortlisted_rows_travel(choose, monkeypatch, tmp_path):
    """The choice is the same to the last bit as from the whole bank."""
    bank, asked = unit_rows(13, 2000), unit_rows(14, 4)
    shortlists = np.stack([np.random.default_rng(i).permutation(2000)[:N] for i in range(4)]).astype(np.int32)
    shortlists[0, 3:], shortlists[1], shortlists[2, 0] = -1, -1, 1999
    np.save(tmp_path / "bank.npy", bank)
    map_batches, sent, whole = shortlists_module.map_batches, [], []

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


@pytest.mark.parametrize("k", [N, 4])
@pytest.mark.parametrize("trade_off", [0.1, 0.005])
def test_shortlists_under_budgets_of_their_own(trade_off, k):
    bank, asked = unit_rows(11, 40), unit_rows(12, 7)
    lengths = np.random.default_rng(11).integers(1, 12, 40)
    shortlists = np.stack([np.random.default_rng(i).permutation(40)[:N] for i in range(7)]).astype(np.int32)
    shortlists[0, 3:] = -1
    shortlists[1] = -1
    costs = lengths[shortlists]
    budgets = np.array([20, 20, 0, 6, 15, 30, 500])
    ours = budgeted_map_shortlists(asked, bank, shortlists, costs, budgets, k, trade_off)
    assert (ours.items[1:3] == -1).all()
    epsilon = CLOSED_BELOW * np.finfo(np.float32).eps
    for i, shortlist in enumerate(shortlists):
        valid = shortlist >= 0
        features = bank[shortlist[valid]]
        if not valid.any():
            continue
        r = np.asarray(relevance(jnp.asarray(asked[i]), jnp.asarray(features)), np.float64)
        S = reference.similarity(features)
        if k < valid.sum():
            zero = reference.greedy_map(S, r / trade_off, k + 1)[1][k] - NEXT_TO_NOTHING
        else:
            zero = r.min() / trade_off + np.log(epsilon)
        expected, gains = reference.budgeted_map(S, r / trade_off - zero, costs[i][valid], budgets[i], k)
        found = len(expected)
        assert ours.items[i, :found].tolist() == shortlist[valid][expected].tolist()
        assert (ours.items[i, found:] == -1).all()
        # on the scale of `greedy_map_shortlists`: log det of the kernel whose greatest relevance is zero
        np.testing.assert_allclose(ours.gains[i, :found], np.array(gains) + zero, rtol=1e-4, atol=1e-3)


def test_shortlists_with_room_for_all_of_the_map_set():
    bank, asked = unit_rows(13, 40), unit_rows(14, 7)
    shortlists = np.tile(np.arange(40, dtype=np.int32), (7, 1))
    costs = np.full_like(shortlists, 3)
    ours = budgeted_map_shortlists(asked, bank, shortlists, costs, np.full(7, 3 * K), K, 0.05)
    plain = greedy_map_shortlists(asked, bank, shortlists, K, 0.05)
    # of one length, the order per token is the order by gain
    np.testing.assert_array_equal(ours.items, plain.items)
    np.testing.assert_allclose(ours.gains, plain.gains, rtol=1e-4, atol=1e-3)


def test_items_that_are_all_the_same_to_a_query_still_fill_its_prompt():
    bank = np.eye(8, dtype=np.float32)
    query = np.zeros((1, 8), np.float32)
    query[0, 7] = 1
    costs = np.array([[5, 3, 3, 2, 9, 9, 9]])
    ours = budgeted_map_shortlists(
        query, bank, np.arange(7, dtype=np.int32)[None], costs, np.array([8]), 5, 1e-3
    )
    assert set(ours.items[0].tolist()) == {1, 2, 3, -1}
