import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ceil_jax.training.losses import (
    SetScores,
    ceil_loss,
    epr_contrastive_loss,
    info_nce_loss,
    kendall_tau,
    logistic_pairwise_loss,
    pairwise_margin_loss,
)

M = 7
RNG = np.random.default_rng(0)
# quarters: exact in float32, with ties among the LM's scores
log_probs = st.lists(st.integers(-40, 40).map(lambda i: i / 4), min_size=M, max_size=M)
lm_scores = st.lists(st.integers(-6, 0).map(lambda i: i / 4), min_size=M, max_size=M)
reductions = pytest.mark.parametrize("reduction", ["pairs", "gap_mean"])


def both(*lists):
    return [jnp.asarray(values, jnp.float32) for values in lists]


def lossy(loss):
    """The loss as a function of log-probabilities and LM scores; all sets count, or those of the
    mask."""

    @partial(jax.jit, static_argnames=("reduction", "beta"))
    def of(model, lm, mask=None, **options):
        return loss(
            SetScores(model, lm, jnp.ones(lm.shape, bool) if mask is None else mask), **options
        )

    return of


pairwise_margin, info_nce, logistic = map(
    lossy, (pairwise_margin_loss, info_nce_loss, logistic_pairwise_loss)
)
contrastive = jax.jit(epr_contrastive_loss, static_argnames="in_batch")
tau = jax.jit(kendall_tau)


@reductions
@settings(max_examples=40, deadline=None)
@given(log_probs, lm_scores)
def test_pairwise_margin_loss_is_the_double_loop(reduction, model, lm):
    ours = pairwise_margin(*both(model, lm), reduction=reduction)
    assert ours == pytest.approx(
        reference.pairwise_margin_loss(model, lm, reduction), rel=1e-4, abs=1e-5
    )


def test_pairwise_margin_loss_by_hand():
    # c = 4, γ = 1/3; best is place 1, then 0, then 2
    model, lm = both([1.0, 0.0, 4.0], [-2.0, -1.0, -3.0])
    pairs = {(1, 0): 1 / 4 + 1 / 3, (1, 2): 4 / 4 + 2 / 3, (0, 2): 3 / 4 + 1 / 3}
    assert pairwise_margin(model, lm) == pytest.approx(sum(pairs.values()) / 3)
    gap_mean = (pairs[1, 0] + pairs[0, 2]) / 2 + pairs[1, 2]
    assert pairwise_margin(model, lm, reduction="gap_mean") == pytest.approx(gap_mean)


@reductions
@pytest.mark.parametrize("lm", [[-1.0] * M, [np.nan] * M])
def test_equal_scores_give_no_loss_and_no_gradient(reduction, lm):
    model, lm = both(RNG.normal(size=M), lm)
    value, gradient = jax.value_and_grad(pairwise_margin)(model, lm, reduction=reduction)
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros(M))


@reductions
def test_equal_log_probs_have_a_finite_loss_and_gradient(reduction):
    model, lm = both([2.0] * M, range(M))
    value, gradient = jax.value_and_grad(pairwise_margin)(model, lm, reduction=reduction)
    expected = reference.pairwise_margin_loss([2.0] * M, list(range(M)), reduction)
    assert value == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(gradient).all()
    assert (np.diff(gradient) < 0).all()  # the LM's favourite, the last, is pushed up most


@pytest.mark.parametrize("spread", [0, 1e-6, 1e-3, 1e-2])
def test_the_gradient_is_bounded_where_log_probs_are_nearly_equal(spread):
    m = 20
    model, lm = both(-50 + spread * RNG.uniform(size=m), range(m))
    gradient = jax.grad(pairwise_margin)(model, lm)
    assert 1 < np.abs(gradient).sum() <= 2 / 0.1


@reductions
def test_invalid_subsets_do_not_count(reduction):
    model, lm = both([1.0, np.nan, 0.0, -np.inf, 4.0], [-2.0, 5.0, -1.0, np.nan, -3.0])
    valid = jnp.array([True, False, True, False, True])
    value, gradient = jax.value_and_grad(pairwise_margin)(model, lm, valid, reduction=reduction)
    expected = reference.pairwise_margin_loss([1.0, 0.0, 4.0], [-2.0, -1.0, -3.0], reduction)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(gradient[jnp.array([1, 3])], [0, 0])
    assert np.isfinite(gradient).all()
    assert pairwise_margin(model, lm, jnp.zeros(5, bool), reduction=reduction) == 0


@reductions
def test_gradient_is_the_finite_difference_at_constant_range(x64, reduction):
    model = jnp.asarray(RNG.normal(size=M))
    lm = jnp.asarray(RNG.normal(size=M))
    inner = jnp.argsort(model)[1:-1]  # moving these leaves the range as it is
    direction = jnp.zeros(M).at[inner].set(jnp.asarray(RNG.normal(size=M - 2)))

    def along(step):
        return pairwise_margin(model + step * direction, lm, reduction=reduction)

    numeric = (along(1e-6) - along(-1e-6)) / 2e-6
    assert jax.grad(along)(0.0) == pytest.approx(float(numeric), rel=1e-6)


def test_the_range_has_no_gradient(x64):
    model = jnp.array([0.0, 1.0])
    lm = jnp.array([1.0, 0.0])
    # hinge = (1 − 0) / c + γ with c = 1: ±1/c; through c it would be 0
    np.testing.assert_allclose(jax.grad(pairwise_margin)(model, lm), [-1, 1])


def test_unknown_reduction():
    loss = inspect.unwrap(pairwise_margin_loss)  # without the check of types, as users call it
    with pytest.raises(ValueError, match="gap_mean"):
        loss(SetScores(*both([0.0], [0.0]), jnp.array([True])), reduction="mean")


@settings(max_examples=20, deadline=None)
@given(log_probs, lm_scores)
def test_info_nce_loss(model, lm):
    ours = info_nce(*both(model, lm))
    assert ours == pytest.approx(
        reference.info_nce_loss(model, int(np.argmax(lm))), rel=1e-5, abs=1e-6
    )


def test_info_nce_loss_of_no_sets_is_0_and_a_set_without_a_score_is_none():
    model, unscored, scored = both([-1.0, -2.0, -3.0], [0.3, 0.2, np.nan], [0.3, 0.2, 9.0])
    value, slope = jax.value_and_grad(info_nce)(model, scored, jnp.zeros(3, bool))
    assert value == 0
    assert not np.any(slope)
    two_of_three = jnp.array([True, True, False])
    assert info_nce(model, unscored) == info_nce(model, scored, two_of_three)


def test_info_nce_loss_leaves_out_invalid_places():
    model, lm = both([1.0, 2.0, 3.0], [-3.0, -2.0, -1.0])
    valid = jnp.array([True, True, False])
    value, gradient = jax.value_and_grad(info_nce)(model, lm, valid)
    assert value == pytest.approx(np.log(1 + np.exp(1.0 - 2.0)), rel=1e-6)
    assert gradient[2] == 0


B = 4
D = 3


def batch(seed):
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(B, D)) for _ in range(3))
    ids = rng.integers(0, 4, size=(2, B))
    return *both(*vectors), *map(jnp.asarray, ids)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_epr_contrastive_loss_is_the_double_loop(seed):
    inputs = batch(seed)
    expected = reference.epr_contrastive_loss(*(np.asarray(x) for x in inputs))
    assert contrastive(*inputs) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_a_positive_drawn_twice_is_no_negative():
    queries = jnp.eye(2)
    positives = jnp.ones((2, 2))
    negatives = jnp.zeros((2, 2))
    loss = contrastive(queries, positives, negatives, jnp.array([7, 7]), jnp.array([1, 7]))
    assert loss == pytest.approx(np.log(1 + np.exp(0.0 - 1.0)), rel=1e-6)
    gradient = jax.grad(contrastive)(*batch(0))
    assert np.isfinite(gradient).all()


def test_without_in_batch_negatives_a_query_has_its_own_hard_negative_alone():
    queries, positives, negatives, positive_ids, _ = batch(3)
    other_ids = positive_ids + 100
    loss = contrastive(queries, positives, negatives, positive_ids, other_ids, in_batch=False)
    gaps = np.sum(np.asarray(queries) * np.asarray(negatives - positives), axis=1)
    assert loss == pytest.approx(np.mean(np.log(1 + np.exp(gaps))), rel=1e-5)
    # a hard negative of the positive's own group is none
    alone = contrastive(queries, positives, negatives, positive_ids, positive_ids, in_batch=False)
    assert alone == pytest.approx(0, abs=1e-6)


def test_logistic_pairwise_loss_by_hand():
    # best is place 1, then 0; 2 and 3 are tied; place 4 does not count
    model, lm = both([1.0, 0.0, 4.0, 2.0, 9.0], [-2.0, -1.0, -3.0, -3.0, 0.0])
    valid = jnp.arange(5) < 4
    gaps = [0 - 1, 0 - 4, 0 - 2, 1 - 4, 1 - 2]
    for beta in (1.0, 0.5):
        expected = -np.mean([np.log(1 / (1 + np.exp(-beta * gap))) for gap in gaps])
        assert logistic(model, lm, valid, beta=beta) == pytest.approx(expected)
        named = ceil_loss("logistic", [f"beta={beta}"])(SetScores(model, lm, valid))
        assert named == pytest.approx(expected)


def test_the_logistic_loss_of_equal_scores_has_no_gradient():
    value, gradient = jax.value_and_grad(logistic)(*both(RNG.normal(size=M), [-1.0] * M))
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros(M))


few = st.lists(st.integers(-3, 3).map(float), min_size=M, max_size=M)


@settings(max_examples=40, deadline=None)
@given(few, few)
def test_kendall_tau_is_scipys_and_0_where_all_is_tied(model, lm):
    ties = len(set(model)) == 1 or len(set(lm)) == 1
    expected = 0 if ties else pytest.approx(kendalltau(model, lm).statistic, abs=1e-6)
    assert tau(*both(model, lm)) == expected


def test_kendall_tau_by_hand():
    lm = jnp.array([4.0, 3.0, 2.0, 1.0])
    assert (tau(2 * lm, lm), tau(-lm, lm)) == (1, -1)
    # of six pairs, (0, 1) and (2, 3) are turned round
    assert tau(jnp.array([3.0, 4.0, 1.0, 2.0]), lm) == pytest.approx((4 - 2) / 6)
