import jax.numpy as jnp
import numpy as np
import pytest

from ceil_jax.skills.similarity import base, consistency, distinctiveness

SIMILARITIES = {
    "skill_base": base,
    "skill_consistency": consistency,
    "skill_distinct": distinctiveness,
}


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


BRUTE_FORCE = {
    "skill_base": lambda x, a: cosine(x[0], a[0]),
    "skill_consistency": lambda x, a: cosine(sum(x) / len(x), sum(a) / len(a)),
    "skill_distinct": lambda x, a: max(cosine(e, f) for e in x for f in a),
}


def skills(count, m=3, d=8, seed=0):
    return np.random.default_rng([count, seed]).normal(size=(count, m, d)).astype(np.float32)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_against_all_pairs(name):
    queries = skills(5)
    items = skills(70)
    expected = [[BRUTE_FORCE[name](x, a) for a in items] for x in queries]
    np.testing.assert_allclose(SIMILARITIES[name](queries, items), expected, atol=1e-5)


def test_a_zero_vector_is_near_nothing():
    x = jnp.array([[[1.0, 0.0]]])
    nothing = jnp.zeros((1, 1, 2))
    assert [float(score(x, nothing)[0, 0]) for score in SIMILARITIES.values()] == [0, 0, 0]
