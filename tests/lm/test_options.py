"""A label is read from the first or the last line of an answer; everything else is none."""

import doctest

import pytest

from ceil_jax.lm import options
from ceil_jax.lm.options import option_in

TEAMS = ("billing", "mobile app", "hr", "data", "shipping")


def test_the_examples_in_the_documentation():
    assert doctest.testmod(options) == (0, 3)


@pytest.mark.parametrize(
    "text",
    [
        "billing",
        " Billing.\n",
        '"billing"',
        "“Billing”",
        "**Billing**",
        "*billing*!",
        "[billing]",
        '{"label": "billing"}',
        "Label: billing.",
        "**Label:** billing",
        "The answer is: 'Billing'.",
        "Team: billing\nReason: an invoice, not a parcel.",
        "Billing\n\nThe ticket is about shipping costs.",
        "It is about shipping costs.\n\nBilling",
        "It could be shipping or data. Final answer: billing",
    ],
)
def test_a_label_with_marks_around_it(text):
    assert option_in(text, TEAMS) == "billing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "I think this is a general question. How can I help you?",
        "This belongs to billing.",
        "billing or hr",
        "billing, shipping",
        "billing\nshipping",
        "not billing",
        "I am sure:\nbilling\nas you asked.",
        "{",
        "[" * 5000,
        "Label: " * 5000,
    ],
    ids=lambda text: text[:20],
)
def test_everything_else_is_none(text):
    assert option_in(text, TEAMS) is None


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        ("Not spam.", ("spam", "not spam"), "not spam"),
        ("This is spam", ("spam", "not spam"), None),
        ("intent: cancel", ("intent: cancel", "cancel"), "intent: cancel"),
        ("us", ("US", "us"), "us"),
        ("Us", ("US", "us"), None),
        ("The label is: -1", ("-1", "1"), "-1"),
        ("C++.", ("C", "C++", "C#"), "C++"),
        ("<5", ("<5", "5-10"), "<5"),
        ("4", ("1", "4"), "4"),
        ("4/5", ("1", "4"), None),
        ("(b)", ("A", "B"), "B"),
        ("SEHR GUT", ("gut", "sehr gut"), "sehr gut"),
        ("**", ("**", "other"), "**"),
        ("What then:", ("**", "other"), None),
    ],
)
def test_labels_of_all_kinds(text, options, option):
    assert option_in(text, options) == option
