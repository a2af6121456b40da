"""Columns that were not named: what is proposed, by hand."""

from pathlib import Path

import pytest

from ceil_jax.cli.main import main
from ceil_jax.cli.propose import columns, propose

MOODS = ("dull", "bright")
LABELLED = [
    {"no": str(i), "review": f"a {MOODS[i % 2]} film number {i}", "verdict": ("bad", "good")[i % 2]}
    for i in range(40)
]
TWO = [
    {"said": f"do it {i} times", "intent": f"intent {i % 5}", "sent by": "ab"[i % 2]}
    for i in range(40)
]
ANSWERED = [{"answer": f"year {i}", "question": f"in which year was it {i}"} for i in range(30)]


@pytest.mark.parametrize(
    ("rows", "input", "output", "flags"),
    [
        (LABELLED, (), "", "--input review --output verdict --metric accuracy"),
        (LABELLED, (), "no", "--input review --output no"),
        (LABELLED, ("no", "review"), "", "--input no review --output verdict --metric accuracy"),
        (TWO, (), "", "--input said --output intent --metric accuracy (or --output 'sent by')"),
        (TWO, (), "sent by", "--input said --output 'sent by' --metric accuracy"),
        (ANSWERED, (), "", "--input question --output answer"),
        ([{"a": i, "b": i, "": f"no {i}", "empty": None} for i in range(30)], (), "", ""),
    ],
)
def test_flags_by_hand(rows, input, output, flags):
    assert propose(columns(rows), input, output) == flags


def test_a_file_whose_columns_were_not_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [",".join(LABELLED[0]), *(",".join(row.values()) for row in LABELLED)]
    Path("reviews.csv").write_text("\n".join(lines) + "\n")
    for command in ("tune", "compare"):
        assert main([command, "--data", "reviews.csv", "--lm", "tiny", "--encoder", "tiny"]) == 2
        assert capsys.readouterr().err == (
            "ceil-jax: reviews.csv: 40 rows with no (numbers, 40 distinct), review (5 words, 40 "
            "distinct), verdict (1 word, 2 distinct): name the columns, such as --input review "
            "--output verdict --metric accuracy\n"
        )
    assert not Path("runs").exists()
