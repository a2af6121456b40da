"""experiments/kite.py: the greedy choice against its formula."""

import kite
import numpy as np
import pytest

from ceil_jax.dpp.lengths import unit_rows


@pytest.mark.parametrize("weight", [0.0, 0.3])
@pytest.mark.parametrize("width", [None, 0.8])
def test_examples_are_chosen_by_the_gain_of_the_objective(weight, width):
    rng = np.random.default_rng(0)
    examples = unit_rows(rng.normal(size=(9, 4)))
    query = unit_rows(rng.normal(size=(1, 4)))[0]
    noise = 0.1

    def kernel(one, other):
        cosines = one @ other.T
        return cosines if width is None else np.exp((cosines - 1) / width**2)

    def objective(chosen):
        own = examples[chosen]
        inside = kernel(own, own) + noise * np.eye(len(chosen))
        toward = kernel(own, query[None])[:, 0]
        certain = toward @ np.linalg.solve(inside, toward)
        return certain + weight * np.linalg.slogdet(inside / noise)[1]

    chosen = []
    for _ in range(4):
        left = [i for i in range(len(examples)) if i not in chosen]
        chosen.append(max(left, key=lambda i: objective([*chosen, i])))
    found = kite.kite(query, examples, noise, weight, count=4, width=width)
    assert np.asarray(found).tolist() == chosen


def test_a_copy_is_not_taken_twice_before_what_is_new():
    examples = unit_rows(np.array([[1.0, 0.0], [1.0, 0.01], [0.6, 0.8]]))
    query = unit_rows(np.array([[1.0, 0.3]]))[0]
    assert np.asarray(kite.kite(query, examples, 0.01, 0.0, count=2)).tolist() == [1, 2]
