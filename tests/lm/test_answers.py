"""An LM's answer, and why it ended: stop strings, JSON, fences, limits."""

import doctest

import pytest

from ceil_jax.lm import answers
from ceil_jax.lm.answers import Answer, ended_at_stop, note_on, stored_answer
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.readings import Readings
from ceil_jax.lm.tiny import TinyLM


def test_the_examples_in_the_documentation():
    assert doctest.testmod(answers) == (0, 2)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer("good\nbad"), Answer("good")),
        (Answer("good\nbad", "length"), Answer("good")),
        (Answer("good", "length"), Answer("good", "length")),
        (Answer("good\n", "refused"), Answer("good", "refused")),
        # JSON over several lines is one answer
        (Answer('{\n "a": [1,\n 2]\n}'), Answer('{\n "a": [1,\n 2]\n}')),
        (Answer("[\n 1\n]\nMore."), Answer("[\n 1\n]")),
        (Answer(' {"a": 1}\nMore.', "length"), Answer(' {"a": 1}')),
        (Answer('{\n "a": [1,', "length"), Answer('{\n "a": [1,', "length")),
        # which brackets alone are not
        (Answer("[IN:GET [SL:X y ] ]\nq"), Answer("[IN:GET [SL:X y ] ]")),
        (Answer("{not json\nq"), Answer("{not json")),
        (Answer("a\nb", "stop", ("fence",)), Answer("a\nb", "stop", ("fence",))),
    ],
)
def test_an_answer_ends_at_its_stop_string(answer, expected):
    assert ended_at_stop(answer, ["\n"]) == expected


class Scripted(TinyLM):
    """Continues a prompt with the rest of a text, up to a stop string or its limit in characters,
    as a local LM does."""

    def __init__(self, text):
        super().__init__()
        self.text = text
        self.prompts = []

    def write(self, prompts, limit, stop, temperature, seeds):
        self.prompts += prompts
        return [self._continued(prompt, limit, stop) for prompt in prompts]

    def _continued(self, prompt, limit, stop):
        rest = self.text.removeprefix(prompt.partition("Q")[2])
        ends = [rest.find(end) + len(end) for end in stop if end in rest]
        if ends and min(ends) <= limit:
            return Answer(rest[: min(ends)])
        return Answer(rest[:limit], "stop" if len(rest) <= limit else "length")


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("```sql\nSELECT a\nFROM b\n```\n\nNext", ["\n"], "SELECT a\nFROM b"),
        ("```sql\nSELECT a\n\nFROM b\n```\n\nNext", ["\n\n"], "SELECT a\n\nFROM b"),
        ("\n~~~\n    x = 1\n~~~\n", ["\n\n"], "    x = 1"),
        ("```\nSELECT a\n```", [], "SELECT a"),
        ("``` SELECT", ["\n"], ""),
        ("SELECT a\n```\nx\n```", ["\n"], "SELECT a"),
    ],
)
def test_a_fence_of_a_local_lm_is_removed_with_all_lines_kept(text, stop, expected):
    lm = Scripted(text)
    [answer] = lm.answers(["Q"], 200, stop)
    assert (answer.text, answer.ended) == (expected, "stop")


def test_a_fence_that_the_limit_cuts_is_cut_and_one_of_the_prompt_stays():
    [answer] = Scripted("```\n" + "x" * 99).answers(["Q"], 50, ["\n"])
    assert answer == Answer("x" * 50, "length", ("fence",))
    [answer] = Scripted("```\ny\n```\n\n").answers(["a\n```\nx\n```\n\nQ"], 50, ["\n\n"])
    assert answer == Answer("```\ny\n```")


def test_why_an_answer_ended_is_kept_with_its_reading(tmp_path):
    first = Scripted("a long answer")
    expected = [Answer("a long", "length")]
    assert CachedLM(first, Readings(tmp_path)).answers(["Q"], 6) == expected
    second = Scripted("another")
    assert CachedLM(second, Readings(tmp_path)).answers(["Q"], 6) == expected
    assert (first.prompts, second.prompts) == (["Q"], [])


@pytest.mark.parametrize(
    "answer", [Answer("a"), Answer("a", "length"), Answer("", "stop", ("reasoning", "fence"))]
)
def test_an_answer_is_stored_whole(answer):
    assert stored_answer(answer.stored()) == answer
    assert Answer("a").stored() == "a"  # as texts were stored before
    with pytest.raises(ValueError, match="is not an answer"):
        stored_answer(["a", "odd", []])


def test_the_note_counts_each_kind():
    given = [
        Answer("good"),
        Answer("a", "length"),
        Answer("", "length", ("reasoning",)),
        Answer("", "refused"),
        Answer(" "),
        Answer("x", "stop", ("fence",)),
    ]
    assert note_on(given, 8) == (
        "Of 6 answers of the LM: 1 with reasoning, which was removed; 1 in a code fence, which was "
        "removed; 2 cut by the limit of 8 "
        "tokens, reasoning included (--max-new-tokens or max_new_tokens=… raises it); 1 refused by "
        "the model or filtered by the server; 1 empty."
    )
    assert note_on(given[:1], 8) == ""
