import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from ceil_jax.dpp.kernel import (
    block_log_dets,
    bounded_trade_off,
    conditional_kernel,
    log_det,
    relevance,
    similarity,
    similarity_from_features,
)
from ceil_jax.dpp.lengths import unit

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(9, 5)).astype(np.float32)
QUERY = RNG.normal(size=5).astype(np.float32)


def test_similarity():
    ours = similarity_from_features(jnp.asarray(FEATURES))
    np.testing.assert_allclose(ours, reference.similarity(FEATURES), atol=1e-5)


@pytest.mark.parametrize("make", [float, np.float32, np.asarray, jnp.asarray])
def test_similarity_of_dot_products_keeps_its_kind_of_number(make):
    found = similarity(make(0.5), 2.0)
    assert found == (1 + 0.5 / 2) / 2
    assert type(found) is type(make(0.5) / 2.0)


def test_relevance_has_maximum_zero():
    r = relevance(jnp.asarray(QUERY), jnp.asarray(FEATURES))
    np.testing.assert_allclose(r, reference.relevance(QUERY, FEATURES), atol=1e-6)
    assert r.max() == 0


def test_relevance_takes_its_maximum_over_valid_items():
    valid = np.ones(9, bool)
    valid[int(np.argmax(reference.relevance(QUERY, FEATURES)))] = False
    r = relevance(jnp.asarray(QUERY), jnp.asarray(FEATURES), valid=jnp.asarray(valid))
    assert r[valid].max() == 0
    nobody = relevance(jnp.asarray(QUERY), jnp.asarray(FEATURES), valid=jnp.zeros(9, bool))
    assert np.isfinite(nobody).all()


def test_relevance_of_unit_items_is_the_same_without_scaling_them():
    query = jnp.asarray(QUERY) * np.float32(1e30)
    items = unit(jnp.asarray(FEATURES)).at[3].set(0)
    found = relevance(query, items, unit_items=True)
    np.testing.assert_allclose(found, relevance(query, items), atol=1e-6)


@pytest.mark.parametrize("trade_off", [0.05, 1.0])
def test_conditional_kernel(trade_off):
    r = reference.relevance(QUERY, FEATURES)
    S = reference.similarity(FEATURES)
    ours = conditional_kernel(jnp.asarray(r, jnp.float32), jnp.asarray(S, jnp.float32), trade_off)
    np.testing.assert_allclose(ours, reference.conditional_kernel(r, S, trade_off), rtol=2e-5)


LENGTHS = [1e-36, 1e-20, 1e-8, 1e-3, 1.0, 1e15, 1e20, 1e38]


@pytest.mark.parametrize("length", LENGTHS)
def test_vectors_of_any_length(length):
    lengths = np.where(np.arange(9) % 2, length, 1)[:, None].astype(np.float32)
    vectors = jnp.asarray(FEATURES / np.abs(FEATURES).max()) * lengths
    np.testing.assert_allclose(
        similarity_from_features(vectors), reference.similarity(FEATURES), atol=1e-5
    )
    found = relevance(jnp.asarray(QUERY / np.abs(QUERY).max()) * np.float32(length), vectors)
    np.testing.assert_allclose(found, reference.relevance(QUERY, FEATURES), atol=1e-5)
    gradient = jax.grad(lambda x: similarity_from_features(x)[0, 2])(vectors)
    assert np.isfinite(gradient).all()


def test_a_vector_of_zeros_is_orthogonal_to_all():
    S = similarity_from_features(jnp.zeros((2, 3)).at[1, 0].set(1e20))
    assert S.tolist() == [[0.5, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize("trade_off", [1e-30, 1e-36, 1e-40, 1e-60, 1e-310, 1e-320])
def test_a_trade_off_that_float32_cannot_hold_leaves_the_most_relevant(trade_off):
    S = reference.similarity(FEATURES)
    r = reference.relevance(QUERY, FEATURES).astype(np.float32)
    L = conditional_kernel(jnp.asarray(r), jnp.asarray(S), trade_off)
    assert np.isfinite(L).all()
    assert np.flatnonzero(np.diagonal(L)).tolist() == [int(r.argmax())]
    assert bounded_trade_off(trade_off) == 1e-30
    assert jax.jit(bounded_trade_off)(trade_off) == np.float32(1e-30)


@pytest.mark.parametrize("trade_off", [0, -0.1, float("nan"), jnp.zeros(())])
def test_conditional_kernel_needs_a_trade_off_above_zero(trade_off):
    with pytest.raises(ValueError, match=r"trade_off is .*; λ has to be above 0"):
        conditional_kernel(jnp.zeros(9), jnp.eye(9), trade_off)


def test_conditional_kernel_of_a_traced_trade_off():
    S = similarity_from_features(jnp.asarray(FEATURES))
    ours = jax.jit(conditional_kernel)(jnp.full(9, -1.0), S, 0.5)
    np.testing.assert_allclose(ours, np.exp(-2) * S, rtol=1e-6)


def test_block_log_dets():
    subsets = np.array([[0, 3, 5, 7], [8, 2, -1, -1], [4, -1, -1, -1], [-1, -1, -1, -1]])
    S = reference.similarity(FEATURES)
    ours = jax.jit(block_log_dets)(jnp.asarray(FEATURES), jnp.asarray(subsets))
    np.testing.assert_allclose(
        ours, [reference.log_det(S, s) for s in subsets], rtol=1e-4, atol=1e-5
    )


def test_block_log_dets_gradient_is_the_finite_difference(x64):
    subsets = jnp.array([[0, 3, 5], [8, 2, -1]])
    features = jnp.asarray(FEATURES, jnp.float64)
    direction = jnp.asarray(RNG.normal(size=FEATURES.shape))

    @jax.jit
    def total(step):
        return block_log_dets(features + step * direction, subsets).sum()

    numeric = (total(1e-5) - total(-1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(total)(0.0), numeric, rtol=1e-6)


def test_blocks_out_of_the_whole_matrix_are_those_formed_one_by_one(x64):
    one_by_one = jnp.array([[0, 3, 5, 7], [8, 2, -1, -1]])
    out_of_whole = jnp.tile(one_by_one, (3, 1))
    assert one_by_one.size < len(FEATURES) < out_of_whole.size
    features = jnp.asarray(FEATURES, jnp.float64)

    @jax.jit
    def values_and_gradient(subsets):
        values, pulled_back = jax.vjp(lambda f: block_log_dets(f, subsets), features)
        return values, *pulled_back(jnp.ones_like(values))

    few, few_slopes = values_and_gradient(one_by_one)
    many, many_slopes = values_and_gradient(out_of_whole)
    np.testing.assert_allclose(many, np.tile(few, 3), rtol=1e-9)
    np.testing.assert_allclose(many_slopes, 3 * few_slopes, rtol=1e-6, atol=1e-9)


@jax.jit
def log_det_of_the_first_four(features):
    return block_log_dets(features, jnp.array([[0, 1, 2, 3]])).sum()


@pytest.mark.parametrize("distance", [0.0, 1e-7, 1e-4, 1e-2])
def test_a_duplicate_gives_a_finite_log_det_and_gradient(distance):
    features = FEATURES.copy()
    features[1] = features[0] + distance * features[2]
    value, gradient = jax.value_and_grad(log_det_of_the_first_four)(jnp.asarray(features))
    # at least log 2ε of the pair, less what the two others can add
    assert np.log(64 * np.finfo(np.float32).eps) - 10 < value < 0
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() < 1 / (64 * np.finfo(np.float32).eps)


def test_log_det_keeps_its_accuracy_when_rows_differ_in_scale():
    S = reference.similarity(RNG.normal(size=(9, 20)))
    scale = np.exp(np.linspace(-35, 35, 9))
    expected = np.linalg.slogdet(S)[1] + 2 * np.log(scale).sum()
    assert log_det(jnp.asarray(scale[:, None] * S * scale, jnp.float32)) == pytest.approx(
        expected, rel=1e-4
    )


def test_log_det_of_a_zero_row_is_finite():
    assert np.isfinite(log_det(jnp.diag(jnp.array([1.0, 0.0, 2.0]))))


def test_gradients_at_equal_items_and_zero_vectors_are_finite():
    of_relevance = jax.jit(jax.grad(lambda features: relevance(features[0], features).sum()))
    for features in (jnp.ones((4, 3)), jnp.zeros((4, 3))):
        assert np.isfinite(jax.grad(log_det_of_the_first_four)(features)).all()
        assert np.isfinite(of_relevance(features)).all()
