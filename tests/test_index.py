import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from ceil_jax.index import GROUP, top_k

Q, N, D, K = 7, 300, 4, 5


def whole_numbers(seed, n=N):
    """Small integers: dot products are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, size=(Q, D)).astype(np.float32), rng.integers(-2, 3, size=(n, D)).astype(
        np.float32
    )


def agrees(found, expected, k):
    scores, indices = found
    assert scores.shape == indices.shape == (len(expected), k)
    assert scores.dtype == np.float32
    assert indices.dtype == np.int32
    for row_scores, row_indices, row in zip(scores, indices, expected, strict=True):
        row = row + [(-np.inf, -1)] * (k - len(row))
        assert row_indices.tolist() == [index for _, index in row]
        np.testing.assert_allclose(row_scores, [score for score, _ in row], rtol=1e-5, atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_ties_go_to_the_lowest_index_across_blocks(seed, excluding):
    queries, items = whole_numbers(seed)
    exclude = np.random.default_rng(seed).integers(-1, N, size=Q) if excluding else None
    found = top_k(queries, items, K, exclude, item_block=128)
    agrees(found, reference.top_k(queries, items, K, exclude), K)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6))
def test_blocks_large_enough_to_select_groups_first(seed):
    n = 4 * K * GROUP + 100
    queries, items = whole_numbers(seed, n)
    agrees(top_k(queries, items, K), reference.top_k(queries, items, K), K)


def test_real_numbers_and_a_memory_map(tmp_path):
    rng = np.random.default_rng(0)
    queries, items = rng.normal(size=(Q, D)).astype(np.float32), rng.normal(size=(N, D)).astype(np.float32)
    np.save(tmp_path / "items.npy", items)
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    agrees(top_k(queries, mapped, K, item_block=128), reference.top_k(queries, items, K), K)


def test_items_as_their_own_queries():
    rng = np.random.default_rng(1)
    items = rng.normal(size=(Q, D)).astype(np.float32)
    _, indices = top_k(items, items, 3, exclude=np.arange(Q))
    assert (indices != np.arange(Q)[:, None]).all()


def test_more_asked_for_than_there_are():
    queries, items = whole_numbers(2, 3)
    exclude = np.array([0, -1, 1, 2, 5, -1, 0])
    agrees(top_k(queries, items, K, exclude), reference.top_k(queries, items, K, exclude), K)


def test_an_empty_bank_and_no_queries():
    queries, items = whole_numbers(3)
    agrees(top_k(queries, items[:0], 2), [[]] * Q, 2)
    agrees(top_k(queries[:0], items, 2), [], 2)


def test_k_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        top_k(*whole_numbers(4), 0)
