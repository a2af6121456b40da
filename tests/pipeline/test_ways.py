"""How an LM answers: by choosing, by writing, or by writing one of the options; and what is said
of answers that can hardly be right."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK, One

from ceil_jax.lm.answers import Answer
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline import row_stages as rows_module
from ceil_jax.pipeline import ways
from ceil_jax.pipeline.answering import prompts_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.ways import (
    NO_OPTION,
    Choosing,
    Reply,
    Writing,
    WritingAnOption,
    ask,
    way_of_answering,
)
from ceil_jax.report.compare import compare
from ceil_jax.tasks.example import Example

FEW = replace(TASK, validation=TASK.validation[:6])
FREE = replace(
    FEW,
    train=[replace(row, choices=()) for row in TASK.train],
    validation=[replace(row, choices=()) for row in FEW.validation],
    metric="exact_match",
)


class Chat(TinyLM):
    """Writes what it is given, in turn, and cannot score."""

    name = "chat"
    can_score = False
    ends_itself = True

    def __init__(self, *answers):
        super().__init__()
        self.given = [Answer(one) if isinstance(one, str) else one for one in answers]

    def write(self, prompts, limit, stop, temperature, seeds):
        return [self.given[row % len(self.given)] for row in range(len(prompts))]


def opened(tmp_path, lm, task=FEW):
    return open_run(replace(SMALL, out=tmp_path), task, One(lm))


def test_the_examples_in_the_documentation():
    assert doctest.testmod(ways) == (0, 1)


class Held(Chat):
    """Is held to labels by its server, as it says."""

    can_label = True

    def write_labels(self, prompts, labels, limit):
        return [Answer(options[0]) for options in labels[:-1]] + [Answer('{"label": "go', "length")]


def test_labels_that_the_lm_is_held_to_are_asked_for_once(tmp_path):
    run, setup = opened(tmp_path, Held())
    stage = rows_module.predictions(setup, setup.row("topk"))
    rows = run.get(stage)
    first = FEW.validation[0].choices[0]
    assert [row["prediction"] for row in rows] == [first] * 5 + ['{"label": "go']
    assert rows[-1]["trouble"] == "length"
    # what was read is kept under a key of its own
    lm = run.lm(setup.lm)
    prompts = [
        built.prompt for built in prompts_of(run, stage, FEW.validation, run.get(stage.choice))
    ]
    way = way_of_answering(lm, setup.answering, (), FEW.validation)
    assert lm.missing(way.requests(prompts, FEW.validation)) == 0
    unheld = replace(way, held=False).requests(prompts, FEW.validation)
    assert lm.missing(unheld) == 6


def test_a_label_of_two_lines_is_one_when_the_lm_is_held_to_it():
    query = Example("q", "a film", "good\nfilm", ("good\nfilm", "bad"))
    [first, _] = WritingAnOption(8, (), held=True).replies(Held(), ["a", "b"], [query, query])
    assert first == ("good\nfilm", "")


def test_the_way_follows_from_the_choices_and_from_what_the_lm_can(tmp_path):
    def way(lm, task):
        setup = opened(tmp_path, lm, task).setup
        return way_of_answering(lm, setup.answering, ("\n",), task.validation)

    assert isinstance(way(TinyLM(), FEW), Choosing)
    assert type(way(TinyLM(), FREE)) is Writing
    assert type(way(Chat(""), FREE)) is Writing
    written = way(Chat(""), FEW)
    # a chat's label may stand in its last line; an LM that writes on is stopped
    assert isinstance(written, WritingAnOption)
    assert written.stop == ()
    chat = Chat("")
    chat.ends_itself = False
    assert way(chat, FEW).stop == ("\n",)


def test_what_a_label_may_take_is_the_longest_one_and_a_few_tokens_around_it(tmp_path):
    lm = Chat("")
    setup = opened(tmp_path, lm).setup
    queries = [replace(FEW.validation[0], choices=("good", "very very good")), FEW.validation[1]]
    way = way_of_answering(lm, setup.answering, (), queries)
    short = 1
    long = 3
    assert np.diff(way.most_tokens(lm, queries)).tolist() == [short - long]
    assert way.most_tokens(lm, queries)[0] < setup.answering.max_new_tokens
    assert replace(way, max_new_tokens=2).most_tokens(lm, queries).tolist() == [2, 2]


def test_labels_are_matched_and_what_matches_none_is_wrong_and_said(tmp_path):
    answers = (
        "Good.",
        "The film is dull.\n\nLabel: **bad**",
        "good or bad",
        "What a question!",
        Answer("It is", "length"),
        Answer("", "refused"),
    )
    run, setup = opened(tmp_path, Chat(*answers))
    rows = run.get(rows_module.predictions(setup, setup.row("topk")))
    assert [row["prediction"] for row in rows] == [
        "good",
        "bad",
        "good or bad",
        "What a question!",
        "It is",
        "",
    ]
    assert [row.get("trouble", "") for row in rows] == [
        "",
        "",
        NO_OPTION,
        NO_OPTION,
        "length",
        "refused",
    ]
    table = compare(run, setup, ["topk"])
    [page] = [table.write_report(tmp_path / "report").read_text()]
    for said in (
        "none of the labels in their first or last line, and so counted as wrong: 2 of 6 (dense top-k). "
        "Such as: “good or bad”, “What a question!”.",
        "cut by the limit of 128 tokens (--max-new-tokens): 1 of 6 (dense top-k).",
        "refused by the model or filtered by the server: 1 of 6 (dense top-k).",
    ):
        assert said in table.text()
        assert said in page


@pytest.mark.parametrize(
    ("written", "prediction"),
    [
        (" good", "good"),
        ("\n    return x\n", "    return x"),
        ("good\n\n", "good"),
        ("```sql\nSELECT a\nFROM b\n```", "SELECT a\nFROM b"),
    ],
)
def test_a_written_answer_keeps_its_indentation_and_loses_its_edges(tmp_path, written, prediction):
    lm = Chat(written)
    setup = opened(tmp_path, lm, FREE).setup
    [reply] = ask(lm, setup.answering, (), ["prompt"], FREE.validation[:1])
    assert reply == Reply(prediction)


def test_what_is_left_out_stands_under_the_table(tmp_path):
    run, setup = opened(tmp_path, TinyLM())
    table = compare(run, setup, ["topk"], remarks=["Left out: EPR: why.", ""])
    assert "Left out: EPR: why." in table.text()
    assert table.data()["note"].startswith("Left out")
