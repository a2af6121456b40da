import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ceil_jax.retrieval import blas_search, index
from ceil_jax.retrieval.index import GROUP, top_k

Q = 7
N = 300
D = 4
K = 5


@pytest.fixture(autouse=True, params=["on the devices", "by BLAS"])
def way(request, monkeypatch):
    """With one CPU device, as here, the search goes through numpy; with others it is compiled."""
    monkeypatch.setattr(index, "_one_cpu", lambda: request.param == "by BLAS")
    # several blocks, each with more items than candidates are put aside
    monkeypatch.setattr(index, "ITEM_BLOCK", 128)
    monkeypatch.setattr(blas_search, "BLAS_SCORES", 128 * Q)
    return request.param


def whole_numbers(seed, n=N):
    """Small integers: dot products are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    queries, items = (rng.integers(-2, 3, size=(rows, D)) for rows in (Q, n))
    return queries.astype(np.float32), items.astype(np.float32)


def agrees(found, expected, k):
    scores, indices = found
    assert scores.shape == indices.shape == (len(expected), k)
    assert scores.dtype == np.float32
    assert indices.dtype == np.int32
    for row_scores, row_indices, row in zip(scores, indices, expected, strict=True):
        row = row + [(-np.inf, -1)] * (k - len(row))
        assert row_indices.tolist() == [index for _, index in row]
        np.testing.assert_allclose(row_scores, [score for score, _ in row], rtol=1e-5, atol=1e-6)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6))
def test_ties_go_to_the_lowest_index_across_blocks(seed):
    queries, items = whole_numbers(seed)
    agrees(top_k(queries, items, K), reference.top_k(queries, items, K), K)


GROUPED = 4 * K * GROUP
"""Items of a block from which on groups are selected first."""


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(index, "ITEM_BLOCK", GROUPED)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6), st.integers(1, 2 * GROUPED))
def test_blocks_large_enough_to_select_groups_first(large, seed, n):
    queries, items = whole_numbers(seed, 2 * GROUPED)
    agrees(top_k(queries, items[:n], K), reference.top_k(queries, items[:n], K), K)


@pytest.mark.parametrize("direction", [1, -1])
def test_every_item_better_or_worse_than_all_before(large, direction):
    queries = np.ones((Q, D), np.float32)
    items = (
        direction * np.arange(2 * GROUPED, dtype=np.float32)[:, None] * np.ones((1, D), np.float32)
    )
    agrees(top_k(queries, items, K), reference.top_k(queries, items, K), K)


def test_all_scores_equal(large):
    queries = np.ones((Q, D), np.float32)
    items = np.ones((GROUPED + 1, D), np.float32)
    _, indices = top_k(queries, items, K)
    assert indices.tolist() == [[0, 1, 2, 3, 4]] * Q


def test_what_fills_the_last_block_up_is_no_item(large):
    """The last item is the best of the first query, and its block is filled up with copies of
    it."""
    queries, items = whole_numbers(5, GROUPED + GROUP + 1)
    items[-1] = 10 * queries[0]
    agrees(top_k(queries, items, K), reference.top_k(queries, items, K), K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_items_anywhere_in_memory(dtype):
    """Blocks that JAX can take as they are, and others that must be copied."""
    queries, items = whole_numbers(6)
    for first in range(3):
        memory = np.zeros(items.size + first, dtype)
        moved = memory[first:].reshape(items.shape)
        moved[:] = items
        agrees(top_k(queries, moved, K), reference.top_k(queries, items, K), K)


def test_real_numbers_and_a_memory_map(tmp_path):
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(Q, D)).astype(np.float32)
    items = rng.normal(size=(N, D)).astype(np.float32)
    np.save(tmp_path / "items.npy", items)
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    agrees(top_k(queries, mapped, K), reference.top_k(queries, items, K), K)


def test_more_asked_for_than_there_are():
    queries, items = whole_numbers(2, 3)
    agrees(top_k(queries, items, K), reference.top_k(queries, items, K), K)


def test_an_empty_bank_and_no_queries():
    queries, items = whole_numbers(3)
    agrees(top_k(queries, items[:0], 2), [[]] * Q, 2)
    agrees(top_k(queries[:0], items, 2), [], 2)


def test_k_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        top_k(*whole_numbers(4), 0)


def test_one_cpu_device_leaves_the_product_to_blas(way, monkeypatch):
    asked = []
    by_blas = index.top_k_by_blas
    monkeypatch.setattr(
        index, "top_k_by_blas", lambda *given: asked.append(given) or by_blas(*given)
    )
    queries, items = whole_numbers(7)
    top_k(queries, items, K)
    assert len(asked) == (way == "by BLAS")
