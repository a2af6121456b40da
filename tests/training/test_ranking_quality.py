import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from ceil_jax.training.losses import kendall_tau

M = 6
scores = st.lists(st.integers(-3, 3).map(float), min_size=M, max_size=M)


@settings(max_examples=40, deadline=None)
@given(scores, scores)
def test_against_scipy(model, lm):
    ours = kendall_tau(jnp.asarray(model), jnp.asarray(lm))
    ties = len(set(model)) == 1 or len(set(lm)) == 1
    assert ours == (0 if ties else pytest.approx(kendalltau(model, lm).statistic, abs=1e-6))


def test_by_hand():
    lm = jnp.array([4.0, 3.0, 2.0, 1.0])
    assert kendall_tau(2 * lm, lm) == 1
    assert kendall_tau(-lm, lm) == -1
    # of six pairs, (0, 1) and (2, 3) are turned round
    assert kendall_tau(jnp.array([3.0, 4.0, 1.0, 2.0]), lm) == pytest.approx((4 - 2) / 6)
