import numpy as np

from ceil_jax.lm.voting import different_orders, most_frequent


def test_the_most_frequent_and_of_equals_the_first():
    assert most_frequent(["b", "a", "c", "a"]) == "a"
    assert most_frequent(["c", "a", "a", "c"]) == "c"
    assert most_frequent([""]) == ""


def test_orders_differ_and_begin_as_they_are():
    found = different_orders(5, 20, np.random.default_rng(0))
    assert found[0] == (0, 1, 2, 3, 4)
    assert len(set(found)) == 20 and all(sorted(order) == [0, 1, 2, 3, 4] for order in found)
    assert different_orders(5, 7, np.random.default_rng(0)) == found[:7]
    # there are six orders of three places, and one of none
    assert len(set(different_orders(3, 10, np.random.default_rng(0)))) == 6
    assert different_orders(0, 4, np.random.default_rng(0)) == [()]
