"""When outputs are labels, whatever the metric."""

import pytest

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.labels import labels_of


def bank(outputs, choices=()):
    return [Example(str(i), f"text {i}", output, choices) for i, output in enumerate(outputs)]


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (["yes", "no"] * 5, ("no", "yes")),
        (["yes", "no"] * 4, ()),  # four rows each
        ([str(i % 12) for i in range(1200)], tuple(sorted(map(str, range(12))))),
        (["same"] * 50, ()),  # nothing to tell apart
        ([f"answer {i}" for i in range(50)], ()),
        ([str(i % 300) for i in range(3000)], ()),  # ten rows each, but too many
        (["refund\nwithin 30 days", "call\nthe shop"] * 20, None),  # several lines, all the same
        (["rare", *["often", "seldom"] * 20], ("often", "rare", "seldom")),
    ],
)
def test_few_outputs_of_many_rows_are_labels(outputs, labels):
    expected = tuple(sorted(set(outputs))) if labels is None else labels
    assert labels_of(bank(outputs)) == expected


def test_options_say_it_themselves():
    assert labels_of(bank(["a", "b"], ("a", "b", "c"))) == ("a", "b")
    assert labels_of(bank(["a", "a"], ("a", "b"))) == ("a",)
    differing = [Example("1", "q", "a", ("a", "b")), Example("2", "r", "c", ("c", "d"))]
    assert labels_of(differing * 10) == ()
    assert labels_of([]) == ()
