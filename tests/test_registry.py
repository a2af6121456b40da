import pytest

from ceil_jax.errors import UserError
from ceil_jax.registry import Registry


def test_a_second_registration_is_refused_unless_it_replaces():
    metrics = Registry("metric", "register_metric adds one.")
    metrics.register("b", 1)
    metrics.register("a", 2)
    for value in (1, 3):
        with pytest.raises(
            UserError, match=r"a metric 'b' is registered already; .* pass replace=True"
        ):
            metrics.register("b", value)
    metrics.register("b", 3, replace=True)
    metrics.register("c", 4, replace=True)
    assert list(metrics.items()) == [("b", 3), ("a", 2), ("c", 4)]


def test_an_unknown_name_is_a_message_and_adds_nothing():
    metrics = Registry("metric", "register_metric adds one.")
    metrics.register("accuracy", 1)
    with pytest.raises(
        UserError, match=r"unknown metric 'acuracy'; did you mean 'accuracy'.*adds one\.$"
    ):
        metrics["acuracy"]
    assert "acuracy" not in metrics
    assert metrics.get("acuracy") is None
    assert len(metrics) == 1
