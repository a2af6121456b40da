import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ceil_jax.training.losses import kendall_tau, pairwise_ranking_accuracy

M = 6
scores = st.lists(st.integers(-3, 3).map(float), min_size=M, max_size=M)


@settings(max_examples=40, deadline=None)
@given(scores, scores)
def test_against_loops_and_scipy(model, lm):
    ours = jnp.asarray(model), jnp.asarray(lm)
    accuracy = reference.pairwise_ranking_accuracy(model, lm)
    assert pairwise_ranking_accuracy(*ours) == pytest.approx(accuracy, abs=1e-6)
    if len(set(model)) > 1 and len(set(lm)) > 1:
        assert kendall_tau(*ours) == pytest.approx(kendalltau(model, lm).statistic, abs=1e-6)
    else:
        assert kendall_tau(*ours) == 0


def test_by_hand():
    lm = jnp.array([4.0, 3.0, 2.0, 1.0])
    assert kendall_tau(2 * lm, lm) == 1
    assert kendall_tau(-lm, lm) == -1
    # of six pairs, (0, 1) and (2, 3) are turned round
    swapped = jnp.array([3.0, 4.0, 1.0, 2.0])
    assert kendall_tau(swapped, lm) == pytest.approx((4 - 2) / 6)
    assert pairwise_ranking_accuracy(swapped, lm) == pytest.approx(4 / 6)
    assert pairwise_ranking_accuracy(jnp.zeros(4), lm) == 0.5
    assert pairwise_ranking_accuracy(lm, jnp.zeros(4)) == 0.5


def test_invalid_places_do_not_count():
    model, lm = jnp.array([[1.0, 9.0, 2.0, 0.0]]), jnp.array([[3.0, np.nan, 2.0, 1.0]])
    valid = jnp.array([[True, False, True, True]])
    assert jax.vmap(pairwise_ranking_accuracy)(model, lm, valid)[0] == pytest.approx(2 / 3)
    assert jax.vmap(kendall_tau)(model, lm, valid)[0] == pytest.approx((2 - 1) / 3)
