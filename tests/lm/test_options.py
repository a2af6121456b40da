"""Written answers are matched to labels; each case has the label that a reader would take."""

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
        "`billing`",
        "[billing]",
        "<billing>",
        "(billing)",
        "billing\u200e",
        "\u2068Bil\u00adling.\u2069",
        "- billing",
        "> billing",
        "### Billing",
        "ＢＩＬＬＩＮＧ",
        "```\nbilling\n```",
        '```json\n{"label": "billing"}\n```',
        '{"label": "billing", "confidence": 0.93}',
        '{"reasoning": "An invoice, not shipping.", "answer": "Billing"}',
        '{"team": "billing"}',
        '["billing"]',
        '{"billing": true, "hr": false}',
        "<label>billing</label>",
        "<label>billing</label><reason>it has nothing to do with hr</reason>",
        "Label: billing.",
        "**Label:** billing",
        "Label: **billing**",
        "Team: billing\nReason: an invoice, not a parcel.",
        "The answer is billing.",
        "The answer is: 'Billing'.",
        "I would send this to billing.",
        "This ticket belongs to the billing team.",
        "Billing - the customer asks about an invoice for shipping.",
        "Billing (the shipping costs are wrong)",
        "Billing: a question about shipping costs.",
        "Billing. The shipping costs are wrong.",
        "Billing\n\nThe ticket is about shipping costs.",
        "It is about shipping costs.\n\nBilling",
        "It could be shipping or data. Final answer: billing",
        "Of shipping, data and billing, the best category is billing.",
        "It is billing, not shipping.",
        "It is billing rather than shipping.",
        "Shipping isn't the matter; billing.",
        "The category is billing, because the charge was taken twice.",
        "→ billing",
    ],
)
def test_a_label_is_found_in_what_stands_around_it(text):
    assert option_in(text, TEAMS) == "billing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I think this is a general question. How can I help you?",
        "billing or hr",
        "billing, shipping",
        "billing/shipping",
        "not billing",
        "It isn't billing.",
        "The database is down.",
        "three",
        "accounts",
        "{",
        "[" * 5000,
    ],
)
def test_none_or_several_are_none(text):
    assert option_in(text, TEAMS) is None


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        # labels in another spelling of Unicode's
        ("re\u0301ponse", ("réponse", "question"), "réponse"),
        ("❤", ("❤\ufe0f", "👍"), "❤\ufe0f"),
        # labels within each other
        ("not spam", ("spam", "not spam"), "not spam"),
        ("Not spam.", ("spam", "not spam"), "not spam"),
        ("This is not spam.", ("spam", "not spam"), "not spam"),
        ("This mail is spam.", ("spam", "not spam"), "spam"),
        ("This is not spam", ("spam", "ham"), None),
        ("very positive", ("positive", "very positive"), "very positive"),
        ("I find it very positive overall", ("positive", "very positive"), "very positive"),
        ("Java", ("Java", "JavaScript"), "Java"),
        ("It is JavaScript", ("Java", "JavaScript"), "JavaScript"),
        ("entailment", ("entailment", "not_entailment"), "entailment"),
        ("Not entailment", ("entailment", "not_entailment"), "not_entailment"),
        # blanks, hyphens and underscores
        ("Mobile-App", TEAMS, "mobile app"),
        ("the mobile_app team", TEAMS, "mobile app"),
        ("mobile  app", TEAMS, "mobile app"),
        # numbers
        ("4", ("1", "2", "3", "4", "5"), "4"),
        ("4.", ("1", "2", "3", "4", "5"), "4"),
        ("4.0", ("1", "2", "3", "4", "5"), "4"),
        ("4/5", ("1", "2", "3", "4", "5"), "4"),
        ("4 out of 5 stars", ("1", "2", "3", "4", "5"), "4"),
        ("Rating: 4", ("1", "2", "3", "4", "5"), "4"),
        ("4.5", ("1", "2", "3", "4", "5"), None),
        ("14", ("1", "2", "3", "4", "5"), None),
        ("between 3 and 4", ("1", "2", "3", "4", "5"), None),
        ("-1", ("-1", "0", "1"), "-1"),
        ("The label is -1.", ("-1", "0", "1"), "-1"),
        ('{"label": 1, "confidence": 0.5}', ("0", "1"), "1"),
        # letters, case and signs that are part of the label
        ("The answer is A.", ("A", "B"), "A"),
        ("A", ("A", "B"), "A"),
        ("(b)", ("A", "B"), "B"),
        ("A good question", ("A", "B"), None),
        ("B) 5 apples", ("A", "B"), "B"),
        ("C++", ("C", "C++", "C#"), "C++"),
        ("C#", ("C", "C++", "C#"), "C#"),
        ("C", ("C", "C++", "C#"), "C"),
        ("us", ("US", "us"), "us"),
        ("US", ("US", "us"), "US"),
        ("<5", ("<5", "5-10"), "<5"),
        # truth values
        ("true", ("True", "False"), "True"),
        ('{"answer": false}', ("True", "False"), "False"),
        ("Yes, it does.", ("Yes", "No"), "Yes"),
        ("Yes, there is no doubt.", ("yes", "no"), "yes"),
        ("no, yes", ("yes", "no"), None),
        ("billing, hr and data", TEAMS, None),
        ("non-positive", ("positive", "negative"), None),
        ("No, it does not.", ("Yes", "No"), "No"),
        # other scripts
        ("答案是：正面。", ("正面", "负面"), "正面"),
        ("Sehr gut.", ("gut", "sehr gut"), "sehr gut"),
    ],
)
def test_labels_of_all_kinds(text, options, option):
    assert option_in(text, options) == option


@pytest.mark.parametrize("options", [("A", "B"), ("positive", "negative"), ("1", "2")])
@pytest.mark.parametrize(
    "text",
    [
        "{} or {}",
        "either {} or {}",
        "Both {} and {}.",
        "{} and {} are both right",
        "{}. {}",
        "{}, {}",
        "{}, possibly {}",
        "{} (or {})",
        "{} | {}",
        "{}\n{}",
        "- {}\n- {}",
        "The answer is {} or {}",
        "Answer: {}, {}",
        '{{"answer": "{} or {}"}}',
        "Neither {} nor {}",
        "Is it {} or {}?",
        "not {}",
        "The answer is not {}.",
        "It cannot be {}.",
        "I would not call this {}",
        "far from {}",
    ],
)
def test_a_list_or_a_denial_means_none(text, options):
    assert option_in(text.format(*options), options) is None
    assert option_in(text.format(*options[::-1]), options) is None


@pytest.mark.parametrize("options", [("A", "B"), ("positive", "negative"), ("1", "2")])
@pytest.mark.parametrize(
    "text",
    [
        "{1}.",
        "**{1}**",
        "Label: {1}",
        "The answer is {1}",
        "{1}, not {0}",
        "not {0} but {1}",
        "{1} is correct",
        "{1} rather than {0}",
        "{0} is wrong, so {1}",
        "The answer is {1} because {0} is wrong",
    ],
)
def test_what_is_denied_or_compared_leaves_the_answer(text, options):
    assert option_in(text.format(*options), options) == options[1]


@pytest.mark.parametrize("option", ["a.b", "[x]", "x|y", "**", "…", "a\\b", "(", "None"])
def test_an_option_to_the_letter_is_itself(option):
    assert option_in(option, (option, "other")) == option
    assert option_in("other", (option, "other")) == "other"


def test_markdown_writes_a_backslash_before_an_underscore():
    assert option_in(r"**card\_arrival**", ["card_arrival", "card_lost"]) == "card_arrival"
