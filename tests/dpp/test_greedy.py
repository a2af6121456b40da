import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from ceil_jax.dpp.distribution import log_normalizer, sample_dpp, sample_k_dpp, subset_log_det
from ceil_jax.dpp.greedy import greedy_map, greedy_map_from_features
from ceil_jax.dpp.kernel import conditional_kernel, similarity_from_features

N = 12
D = 16
K = 6


def problem(seed, n=N, d=D):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, rng.uniform(-0.4, 0, size=n).astype(np.float32)


def sound(result, k, n):
    """Check what holds for every result, and return the chosen items."""
    items = np.asarray(result.items)
    gains = np.asarray(result.gains)
    assert items.shape == gains.shape == (k,)
    found = int((items >= 0).sum())
    chosen = items[:found]
    assert (items[found:] == -1).all()
    assert (gains[found:] == -np.inf).all()
    assert np.isfinite(gains[:found]).all()
    assert len(set(chosen.tolist())) == found
    assert (chosen < n).all()
    return chosen


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.1, 0.01, 0.001]))
def test_agrees_with_exhaustive_greedy_in_float64(seed, trade_off):
    features, r = problem(seed)
    log_quality = r.astype(np.float64) / trade_off
    expected, gains = reference.greedy_map(reference.similarity(features), log_quality, K)
    ours = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), K, trade_off)
    assert sound(ours, K, N).tolist() == expected
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.1, 0.02]))
def test_from_a_kernel_agrees_with_from_features(seed, trade_off):
    features, r = map(jnp.asarray, problem(seed))
    kernel = conditional_kernel(r, similarity_from_features(features), trade_off)
    ours = greedy_map(kernel, K)
    other = greedy_map_from_features(features, r, K, trade_off)
    np.testing.assert_array_equal(ours.items, other.items)
    np.testing.assert_allclose(ours.gains, other.gains, rtol=1e-4, atol=1e-4)
    assert ours.gains.sum() == pytest.approx(reference.log_det(kernel, ours.items), rel=1e-4)


@pytest.mark.parametrize("n", [N, 5 * K])  # with the Gram matrix, and row by row
def test_vectors_of_any_length_and_both_ways_to_rows(n):
    features, r = problem(3, n)
    features = features * np.linspace(0.5, 2, n, dtype=np.float32)[:, None]
    expected, gains = reference.greedy_map(reference.similarity(features), r / 0.1, K)
    ours = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), K, 0.1)
    assert sound(ours, K, n).tolist() == expected
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [N, 5 * K])
@pytest.mark.parametrize("length", [1e-20, 1e-8, 1e20, 1e38])
def test_vectors_far_from_unit_length(n, length):
    features, r = problem(3, n)
    expected = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), K, 0.1)
    lengths = np.where(np.arange(n) % 2, length, 1).astype(np.float32)[:, None]
    ours = greedy_map_from_features(jnp.asarray(features * lengths), jnp.asarray(r), K, 0.1)
    assert ours.items.tolist() == expected.items.tolist()
    np.testing.assert_allclose(ours.gains, expected.gains, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("trade_off", [1e-12, 1e-30, 1e-36, 1e-40, 1e-60, 1e-310, 1e-320])
def test_the_smallest_trade_offs_give_the_most_relevant(trade_off):
    features, r = problem(3)
    ours = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), K, trade_off)
    assert ours.items.tolist() == np.argsort(-r)[:K].tolist()
    assert np.isfinite(ours.gains).all()


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([1.0, 0.01, 0.001]), st.sampled_from([0.0, 1e-5, 1e-3])
)
def test_duplicates_and_near_duplicates(seed, trade_off, distance):
    features, r = problem(seed)
    features[6:] = features[:6] + distance * features[6:]
    ours = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), N, trade_off)
    chosen = sound(ours, N, N)
    assert len(chosen) >= 6
    if distance <= 1e-5:
        assert len(chosen) == 6 == len(set(chosen % 6))
    S = reference.similarity(features)
    expected = np.sum(r[chosen].astype(np.float64)) / trade_off + reference.log_det(S, chosen)
    assert float(ours.gains[: len(chosen)].sum()) == pytest.approx(expected, rel=1e-4)


def test_of_exact_duplicates_the_first_is_chosen():
    # (1 + cos) / 2 is 0 between opposite vectors
    row = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], np.float32)
    for result in (
        greedy_map_from_features(jnp.asarray(row), jnp.zeros(4), 4, 0.1),
        greedy_map(similarity_from_features(jnp.asarray(row)), 4),
    ):
        assert result.items.tolist() == [0, 2, -1, -1]
        np.testing.assert_array_equal(result.gains, [0, 0, -np.inf, -np.inf])


@pytest.mark.parametrize("rank", [1, 3])
def test_rank_deficient_kernel_stops_at_its_rank(rank):
    features, _ = problem(4, d=rank)
    result = greedy_map(jnp.asarray(features @ features.T), 8)
    assert len(sound(result, 8, N)) == rank


@pytest.mark.parametrize("smallest", [1e-2, 1e-3, 1e-4, 1e-6, 1e-9])
def test_nearly_singular_kernels(smallest):
    """Spectra from 1 down to `smallest`: whatever is chosen, the gains add up to its log det."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(N, N)))[0]
        kernel = (basis * np.geomspace(1, smallest, N)) @ basis.T
        kernel = ((kernel + kernel.T) / 2).astype(np.float32)
        result = greedy_map(jnp.asarray(kernel), N)
        chosen = sound(result, N, N)
        expected = reference.log_det(kernel, chosen)
        assert float(result.gains[: len(chosen)].sum()) == pytest.approx(expected, rel=3e-4)


def test_fewer_items_than_places():
    features, r = problem(5, n=4)
    chosen = sound(greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), 7, 0.1), 7, 4)
    assert sorted(chosen) == [0, 1, 2, 3]


def test_invalid_items_are_never_chosen():
    features, r = problem(6)
    candidates = [1, 2, 5, 7, 8, 9, 11]
    valid = np.isin(np.arange(N), candidates)
    features[0] = np.nan
    r[3] = 100
    S = reference.similarity(np.nan_to_num(features, nan=1))
    expected, _ = reference.greedy_map(S, r / 0.1, 9, candidates)
    ours = greedy_map_from_features(
        jnp.asarray(features), jnp.asarray(r), 9, 0.1, jnp.asarray(valid)
    )
    assert sound(ours, 9, N).tolist() == expected
    kernel = similarity_from_features(jnp.asarray(np.nan_to_num(features, nan=1)))
    assert set(sound(greedy_map(kernel, 9, jnp.asarray(valid)), 9, N).tolist()) == set(candidates)
    assert len(sound(greedy_map(kernel, 3, jnp.zeros(N, bool)), 3, N)) == 0


def test_items_that_are_not_finite_do_not_reach_the_others():
    features, r = problem(7)
    features[3] = np.nan
    r[5] = np.nan
    ours = greedy_map_from_features(jnp.asarray(features), jnp.asarray(r), N, 0.1)
    assert set(sound(ours, N, N).tolist()) == set(range(N)) - {3, 5}


def test_a_kernel_that_underflowed_gives_what_is_left():
    features, r = problem(8)
    S = similarity_from_features(jnp.asarray(features))
    kernel = conditional_kernel(jnp.asarray(r - r.max()), S, 0.001)
    alive = np.flatnonzero(np.diagonal(kernel) > 0)
    assert 0 < len(alive) < N
    assert set(sound(greedy_map(kernel, N), N, N).tolist()) == set(alive.tolist())


def test_float64(x64):
    features, r = problem(10)
    expected, gains = reference.greedy_map(
        reference.similarity(features), r.astype(np.float64) / 0.001, K
    )
    ours = greedy_map_from_features(
        jnp.asarray(features, jnp.float64), jnp.asarray(r, jnp.float64), K, 0.001
    )
    assert ours.items.dtype == jnp.int32
    assert ours.items.tolist() == expected
    np.testing.assert_allclose(ours.gains, gains, rtol=1e-9)


def test_half_precision_is_computed_in_float32():
    features, r = problem(0)
    for kind in (jnp.float16, jnp.bfloat16):
        assert (
            greedy_map_from_features(
                jnp.asarray(features, kind), jnp.asarray(r, kind), K, 0.1
            ).items.min()
            >= 0
        )
        assert log_normalizer(jnp.eye(3, dtype=kind)) == pytest.approx(3 * np.log(2), rel=1e-5)
        assert subset_log_det(2 * jnp.eye(3, dtype=kind), jnp.array([0, 2])) == pytest.approx(
            np.log(4), rel=1e-5
        )
        assert sample_dpp(jax.random.key(0), 1e4 * jnp.eye(2, dtype=kind)).min() >= 0
    plain, long = (jnp.asarray(one) for one in (features, (400 * features).astype(np.float16)))
    assert jnp.allclose(similarity_from_features(long), similarity_from_features(plain), atol=1e-3)


def test_no_items_no_places_and_no_trade_off():
    key = jax.random.key(0)
    none = jnp.zeros((0, 0))
    assert greedy_map(jnp.eye(3), 0).items.shape == sample_k_dpp(key, jnp.eye(3), 0).shape == (0,)
    assert greedy_map(none, 2).items.tolist() == sample_k_dpp(key, none, 2).tolist() == [-1, -1]
    assert sample_dpp(key, none).shape == (0,)
    features, r = problem(0)
    for trade_off in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="λ has to be above 0"):
            greedy_map_from_features(features, r, K, trade_off)
