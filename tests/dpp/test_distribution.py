import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy.stats import chisquare

from ceil_jax.dpp.distribution import (
    log_elementary_symmetric,
    log_normalizer,
    sample_dpp,
    sample_k_dpp,
    subset_log_det,
    subset_log_probs,
)
from ceil_jax.dpp.kernel import block_log_dets, conditional_kernel, similarity_from_features

RNG = np.random.default_rng(1)
FEATURES = RNG.normal(size=(6, 4))
RELEVANCE = np.array([0.0, -0.1, -0.05, -0.2, -0.15, -0.3])
S = reference.similarity(FEATURES)
L = reference.conditional_kernel(RELEVANCE, S, 0.1)
DRAWS = 4000
log_dets = jax.jit(jax.vmap(subset_log_det, in_axes=(None, 0)))


def padded(subsets, k):
    return np.array([[*s, *[-1] * (k - len(s))] for s in subsets])


def test_subset_log_det():
    subsets = padded([(0, 2, 5), (4, 1), (3,), ()], 3)
    ours = log_dets(jnp.asarray(L, jnp.float32), jnp.asarray(subsets))
    np.testing.assert_allclose(ours, [reference.log_det(L, s) for s in subsets], rtol=1e-4)


def test_order_and_place_of_the_empty_places_do_not_matter():
    subsets = jnp.array([[5, 0, 2, -1], [-1, 2, 5, 0], [0, -1, 2, 5]])
    values = log_dets(jnp.asarray(L, jnp.float32), subsets)
    np.testing.assert_allclose(values, [reference.log_det(L, (0, 2, 5))] * 3, rtol=1e-4)


def test_normalizer_is_the_sum_over_all_subsets(x64):
    kernel = jnp.asarray(L)
    every = jnp.asarray(padded(reference.subsets(6), 6))
    normalizer = float(jax.jit(log_normalizer)(kernel))
    assert np.logaddexp.reduce(log_dets(kernel, every)) == pytest.approx(normalizer, rel=1e-10)
    assert normalizer == pytest.approx(np.linalg.slogdet(np.eye(6) + L)[1], rel=1e-10)


@pytest.mark.parametrize(
    "function", [log_normalizer, lambda kernel: subset_log_det(kernel, jnp.array([1, 3, 4]))]
)
def test_gradients_are_finite_differences(x64, function):
    direction = RNG.normal(size=(6, 6))
    direction = jnp.asarray(direction + direction.T)

    @jax.jit
    def along(step):
        return function(jnp.asarray(L) + step * direction)

    numeric = (along(1e-6) - along(-1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(along)(0.0), numeric, rtol=1e-5)


@pytest.mark.parametrize("trade_off", [0.1, 0.01])
def test_closed_form_is_the_log_det_of_the_conditional_kernel(trade_off):
    subsets = padded([(0, 2, 5), (4, 1), (3,), ()], 3)

    @jax.jit
    def log_probs(relevance, features, subsets):
        blocks = block_log_dets(features, subsets)
        return subset_log_probs(relevance, blocks, subsets, trade_off)

    ours = log_probs(*(jnp.asarray(part, jnp.float32) for part in (RELEVANCE, FEATURES)), subsets)
    kernel = reference.conditional_kernel(RELEVANCE, S, trade_off)
    np.testing.assert_allclose(ours, [reference.log_det(kernel, s) for s in subsets], rtol=1e-4)


def test_closed_form_survives_a_trade_off_that_the_kernel_does_not():
    r = jnp.linspace(0.0, -0.5, 6)
    subsets = jnp.array([[0, 1], [0, 5]])
    ours = subset_log_probs(r, jnp.zeros(2), subsets, 0.001)
    np.testing.assert_allclose(ours, [-100, -500], rtol=1e-6)


def test_elementary_symmetric_polynomials():
    values = np.array([2.0, 0.0, 3.0, 5.0])
    ours = np.exp(log_elementary_symmetric(jnp.log(jnp.asarray(values, jnp.float32)), 3))
    by_hand = [[1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 0, 0], [1, 5, 6, 0], [1, 10, 31, 30]]
    np.testing.assert_allclose(ours, by_hand, rtol=1e-5)


def frequencies_agree(draws, probabilities):
    """Chi-square of the counts of sets against probabilities; sets expected less than 5 times go
    together."""
    sets, counts = np.unique(np.sort(draws, axis=1), axis=0, return_counts=True)
    seen = {tuple(int(i) for i in row if i >= 0): c for row, c in zip(sets, counts, strict=True)}
    assert set(seen) <= set(probabilities)
    observed = np.array([seen.get(s, 0) for s in probabilities], float)
    expected = np.array(list(probabilities.values())) * len(draws)
    rare = expected < 5
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("k", [1, 3])
def test_k_dpp_frequencies(k):
    keys = jax.random.split(jax.random.key(k), DRAWS)
    draws = jax.vmap(lambda key: sample_k_dpp(key, jnp.asarray(L, jnp.float32), k))(keys)
    assert frequencies_agree(draws, reference.subset_probabilities(L, k))


def test_dpp_frequencies():
    keys = jax.random.split(jax.random.key(0), DRAWS)
    kernel = jnp.asarray(4 * L, jnp.float32)
    draws = jax.vmap(lambda key: sample_dpp(key, kernel))(keys)
    assert frequencies_agree(draws, reference.subset_probabilities(4 * L))


def test_the_test_of_frequencies_can_fail():
    keys = jax.random.split(jax.random.key(3), DRAWS)
    draws = jax.vmap(lambda key: sample_k_dpp(key, jnp.asarray(S, jnp.float32), 3))(keys)
    assert not frequencies_agree(draws, reference.subset_probabilities(L, 3))


def test_k_dpp_does_not_depend_on_the_scale_of_the_kernel():
    keys = jax.random.split(jax.random.key(4), 50)
    draw = jax.vmap(sample_k_dpp, in_axes=(0, None, None))
    draws = [
        draw(keys, jnp.asarray(scale * L, jnp.float32), 3) for scale in (1.0, 2.0**60, 2.0**-60)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


def test_rank_deficient_kernel_gives_as_many_items_as_its_rank():
    features = RNG.normal(size=(8, 2)).astype(np.float32)
    kernel = jnp.asarray(features @ features.T)
    draws = jax.vmap(lambda key: sample_k_dpp(key, kernel, 4))(
        jax.random.split(jax.random.key(5), 200)
    )
    assert ((draws >= 0).sum(axis=1) == 2).all()
    assert (draws[:, 2:] == -1).all()
    assert (draws[:, 0] != draws[:, 1]).all()


@pytest.mark.parametrize("trade_off", [0.001, 0.01, 1.0])
def test_draws_never_repeat_an_item_and_duplicates_are_not_drawn_together(trade_off):
    features = RNG.normal(size=(20, 16)).astype(np.float32)
    features[10:] = features[:10]
    r = jnp.asarray(RNG.uniform(-0.3, 0, size=20), jnp.float32)
    kernel = conditional_kernel(r, similarity_from_features(jnp.asarray(features)), trade_off)
    keys = jax.random.split(jax.random.key(6), 200)
    draws = np.asarray(jax.vmap(lambda key: sample_k_dpp(key, kernel, 8))(keys))
    assert (draws[:, 0] >= 0).all()
    if trade_off == 1:
        assert (draws >= 0).all()
    for draw in draws:
        items = draw[draw >= 0] % 10
        assert len(set(items)) == len(items)


def test_more_items_asked_for_than_there_are():
    draw = sample_k_dpp(jax.random.key(7), jnp.eye(3), 5)
    assert sorted(draw.tolist()) == [-1, -1, 0, 1, 2]
