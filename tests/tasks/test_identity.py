"""Texts that are the same, and texts that are not, by hand."""

import sys
import unicodedata

import pytest
from refusing import refused

from ceil_jax.tasks.checks import separated
from ceil_jax.tasks.example import Example, Task, Template, column_template
from ceil_jax.tasks.identity import look_alikes, question_key, same_text
from ceil_jax.tasks.load import load_file

UNSEEN = [
    "\u00ad",
    "\u034f",
    "\u061c",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u200f",
    "\u202a",
    "\u202c",
    "\u202e",
    "\u2060",
    "\u2061",
    "\u2064",
    "\u2066",
    "\u2069",
    "\u206f",
    "\u3164",
    "\ufe0e",
    "\ufe0f",
    "\ufeff",
    "\uffa0",
    "\U000e0061",
    "\U000e0100",
]


@pytest.mark.parametrize("mark", UNSEEN, ids=lambda mark: f"U+{ord(mark):04X}")
def test_characters_that_are_ignored_tell_no_texts_apart(mark):
    assert question_key(f"{mark}Is {mark} it{mark}?") == question_key("Is it?")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cafe\u0301", "café"),
        ("\u212b", "Å"),  # the sign of the ångström
        ("\u1112\u1161\u11ab", "한"),
        ("q\u0307\u0323", "q\u0323\u0307"),  # marks in another order
        ("a\u00a0b\u3000c\r\n", "a b c"),
        ("\u2067שלום\u2069", "שלום"),
        ("❤\ufe0f", "❤"),
        ("می\u200cخواهم", "میخواهم"),
    ],
)
def test_one_text_in_two_spellings(text, same):
    assert question_key(text) == question_key(same)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("grep -v", "grep -V"),
        ("résumé", "resume"),
        ("Ａ", "A"),  # wide letters
        ("x²", "x2"),
        ("ﬁ", "fi"),
        ("what?", "what"),
        ("a-b", "a\u2010b"),
        ("👍🏽", "👍"),  # the colour is seen
        ("\u0130", "i"),
    ],
)
def test_what_may_change_a_meaning_tells_texts_apart(text, other):
    assert question_key(text) != question_key(other)


def test_no_letter_digit_or_visible_sign_is_ignored():
    """Hangul's fillers are letters to Unicode, and take no place all the same."""
    gone = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000
        and not chr(code).isspace()
        and question_key(f"a{chr(code)}b") == "ab"
    ]
    kinds = {unicodedata.category(character) for character in gone}
    assert kinds == {"Cf", "Mn", "Lo", "Cn"}
    letters = [character for character in gone if unicodedata.category(character) == "Lo"]
    assert letters == ["\u115f", "\u1160", "\u3164", "\uffa0"]
    # those of Unicode 16: 4,174 code points, of which one is white space to nobody
    assert len(gone) == 4174


def test_names_are_found_in_another_spelling_after_their_own():
    names = ["question", "re\u0301ponse", "réponse"]
    assert same_text("réponse", names) == "réponse"
    assert same_text("réponse\u200e", names) == "re\u0301ponse"
    assert same_text("Réponse", names) is None
    assert same_text("x", {7: "y", None: "z"}) is None
    assert look_alikes(["a", "b", "a\u2060", "b", " b"]) == {
        "a": ["a", "a\u2060"],
        "b": ["b", " b"],
    }


def test_a_template_names_fields_in_another_spelling():
    example = Example("1", "q", "a", fields={"re\u0301gion": "Midi"})
    assert Template("{région}: {input} {output}").query(example) == "Midi: q"
    shape = column_template(
        "{re\u0301gion} {texte} {réponse}", "", "texte", "re\u0301ponse", ["région"]
    )
    assert shape.pattern == "{région} {input} {output}"
    with refused("names 'pays', which example '1' lacks"):
        Template("{pays} {output}").query(example)


def test_columns_of_a_file_by_names_that_the_user_typed(tmp_path):
    nfd = unicodedata.normalize("NFD", "réponse,région")
    file = tmp_path / "r.csv"
    rows = "".join(f"\ufeffq {i},r{i},x\n" for i in range(9))
    file.write_text(f"\u200equestion,{nfd}\n{rows}", encoding="utf-8")
    task = load_file(
        file, input="question", output="réponse", template="{région} {question} {réponse}"
    )
    assert task.template.example(task.train[0]).startswith("x \ufeffq")
    assert task.train[0].output in {f"r{i}" for i in range(9)}
    file.write_text(f"question,réponse,{unicodedata.normalize('NFD', 'réponse')}\na,b,c\n", "utf-8")
    with refused(r"two columns have one name: 'question', 'r\\xe9ponse', 're\\u0301ponse'"):
        load_file(file, input="question", output="réponse")


def test_labels_that_are_one_text_are_one_label(tmp_path, caplog):
    labels = ["good", "good\u200e", "good", "bad"]
    file = tmp_path / "r.csv"
    file.write_text(
        "text,label\n" + "".join(f"film {i},{labels[i % 4]}\n" for i in range(40)), encoding="utf-8"
    )
    for metric in ("accuracy", "exact_match"):
        caplog.clear()
        task = load_file(file, input="text", output="label", metric=metric)
        assert {row.output for row in (*task.train, *task.validation)} == {"good", "bad"}
        assert "labels that look the same: 'good', 'good\\u200e'; the most frequent" in caplog.text
    task = load_file(file, input="text", output="label", choices=["go\u2060od", "bad"])
    assert {row.output for row in task.train} == {"go\u2060od", "bad"}
    with refused("choices are .*expected different texts"):
        load_file(file, input="text", output="label", choices=["good", "good\u200e", "bad"])


def test_rows_keep_their_text_to_the_letter(tmp_path):
    family = "👨\u200d👩\u200d👧 ❤\ufe0f می\u200cخواهم cafe\u0301"
    file = tmp_path / "r.csv"
    file.write_text("text,label\n" + "".join(f"{i} {family},a{i}\n" for i in range(9)), "utf-8")
    task = load_file(file, input="text", output="label")
    assert all(row.input.endswith(family) for row in (*task.train, *task.validation))


def test_a_query_in_another_spelling_takes_its_row_out_of_the_bank():
    def row(id, text):
        return Example(id, text, "x")

    bank = [row("1", "où est le café?"), row("2", "two"), row("3", "t\u200bwo"), row("4", "four")]
    query = row("q", unicodedata.normalize("NFD", "où est le café?") + "\u200f")
    task = separated(Task("t", bank, [query], Template("{input} {output}"), "exact_match"))
    assert [example.id for example in task.train] == ["2", "4"]
    assert task.validation[0].input == query.input
