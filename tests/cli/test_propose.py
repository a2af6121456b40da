"""Columns that were not named: what is proposed, by hand, and that nobody's silence is a yes."""

import sys
from pathlib import Path

import pytest

from ceil_jax.cli.data_flags import OwnData
from ceil_jax.cli.main import main
from ceil_jax.cli.propose import columns, settled
from ceil_jax.errors import UserError

ROWS = [f"{i},a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(40)]


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("\n".join(["no,review,verdict", *ROWS]) + "\n")
    return Path("reviews.csv")


def test_columns_by_hand():
    rows = [{"no": i, "text": f"one two {i}", "label": "ab"[i % 2], "empty": None, "": i} for i in range(10)]
    no, text, label = columns(rows)
    assert (no.words, no.distinct, no.labels) == (0, 10, False)
    assert (text.words, text.distinct, text.labels) == (3, 10, False)
    assert (label.words, label.distinct, label.labels) == (1, 2, True)


def test_without_an_answer_the_proposal_is_the_message(reviews, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    for command in ("tune", "compare"):
        assert main([command, "--data", "reviews.csv", "--lm", "tiny", "--encoder", "tiny"]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert (
            "40 rows with no (numbers, 40 distinct), review (5 words, 40 distinct), verdict (1 word," in line
        )
        proposed = f"ceil-jax {command} --data reviews.csv --input review --output verdict --metric accuracy"
        assert proposed in line and "--yes" in line
    assert not Path("runs").exists()


def test_what_was_named_stays(reviews):
    assert settled("tune", OwnData(reviews, input=("no",), output="verdict")).metric == "exact_match"
    own = settled("tune", OwnData(reviews, output="no", yes=True))
    assert (own.input, own.output, own.metric, own.yes) == (("review",), "no", "exact_match", False)
    own = settled("tune", OwnData(reviews, input=("review",), yes=True))
    assert (own.input, own.output, own.metric) == (("review",), "verdict", "accuracy")


def test_answers_without_labels_are_the_shorter_text(tmp_path):
    file = tmp_path / "qa.csv"
    file.write_text("answer,question\n" + "".join(f"year {i},in which year was it {i}\n" for i in range(30)))
    own = settled("tune", OwnData(file, yes=True))
    assert (own.input, own.output, own.metric) == (("question",), "answer", "exact_match")
    file.write_text("a,b\n" + "".join(f"{i},{i}\n" for i in range(30)))
    with pytest.raises(UserError, match="no column of texts among a"):
        settled("tune", OwnData(file, yes=True))


@pytest.mark.parametrize(("answer", "goes_on"), [("y\n", True), ("\n", False)])
def test_at_a_terminal_it_asks(reviews, monkeypatch, answer, goes_on):
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: answer, raising=False)
    if goes_on:
        assert settled("tune", OwnData(reviews)).output == "verdict"
    else:
        with pytest.raises(UserError, match="add --yes"):
            settled("tune", OwnData(reviews))


def test_with_yes_it_goes_on(reviews, capsys):
    arguments = ["compare", "--data", "reviews.csv", "--yes", "--lm", "tiny", "--method", "majority", "bm25"]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "reviews: accuracy in percent on 4 held-out queries" in shown.out
    assert "proposed: ceil-jax compare --data reviews.csv --input review" in shown.err
