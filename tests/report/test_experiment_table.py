"""Tables of published runs, from their lines alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from ceil_jax.cli.main import main
from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import bootstrap_interval, mean, over_seeds, paired
from ceil_jax.pipeline import results_file
from ceil_jax.pipeline.results_file import read_results, record_of
from ceil_jax.report.experiment_table import published


def line(row, column, scores, seed=None, **other):
    values = np.array(scores, float)
    return {
        "experiment": "table2",
        "row": row,
        "column": column,
        "task": column,
        "method": "ceil",
        "trained_by": [],
        "bank": 60,
        "low": 0.0,
        "high": 100.0,
        "lm": "small-lm",
        "encoder": "an-encoder",
        "shots": 8,
        "seed": seed,
        "n": len(values),
        "metric": "accuracy",
        "value": round(100 * values.mean(), 3),
        "tokens": 1234,
        "seconds": 5.6,
        "device": "2 cores",
        "date": "2026-11-22",
        "config": f"{row} {column} {seed} {len(other)}",
        "texts": column,
        "statistics": values[:, None].tolist(),
        **other,
    }


def keep(file, lines):
    results_file.keep(file, [record_of(one) for one in lines])


LINES = [
    line("EPR", "films", [1, 0, 0, 0], 0),
    line("EPR", "films", [1, 1, 0, 0], 1),
    line("CEIL", "films", [1, 1, 1, 0], 0),
    line("CEIL", "films", [1, 1, 0, 0], 1),
    line("EPR", "shows", [0.25, 0.5], 0),
    line("CEIL", "shows", [0.75, 0.5], 0),
]


@pytest.fixture
def file(tmp_path):
    keep(tmp_path / "results.jsonl", LINES)
    return tmp_path / "results.jsonl"


def test_values_means_differences_and_costs(file):
    text = published(file, minus=["EPR", "nothing"])
    assert "# table2 (small-lm, 8 examples a prompt, encoder an-encoder)" in text
    assert "| EPR | 37.5 ± 17.7 | 37.5 | 37.5 (" in text
    assert "| CEIL | 62.5 ± 17.7 | 62.5 | 62.5 (" in text
    epr, ceil = (
        over_seeds(np.array([one["statistics"] for one in LINES[seeds]]), mean)
        for seeds in (slice(2), slice(2, 4))
    )
    differences = bootstrap_interval(*paired(ceil, epr)).percent()
    less = text[text.index("## Less EPR") : text.index("## Cost of the first seed")]
    assert f"| CEIL | +25.0 ({differences.low:+.1f} to {differences.high:+.1f}) | +25.0 (" in less
    assert "| EPR |" not in less and "nothing" not in text
    assert "| CEIL | 1,234, 6, 0.00 | 1,234, 6, 0.00 |" in text
    assert "Queries: 4 of films, 2 of shows. 2 cores, 2026-11-22." in text


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"task": None}, "expected a text as 'task'"),
        ({"tokens": "many"}, "expected a number as 'tokens'"),
        ({"seed": "first"}, "expected a whole number or null as 'seed'"),
        ({"statistics": "12x"}, "expected a number or several for each of 4 queries as 'statistics'"),
        ({"statistics": "101"}, "expected a number or several for each of 4 queries as 'statistics'"),
        ({"statistics": [1, 0, 1, 1]}, "expected a number or several for each of 4 queries as 'statistics'"),
        ({"texts": 7}, "expected a text as 'texts'"),
    ],
)
def test_a_line_that_is_no_result_is_named(file, wrong, expected, capsys):
    text = json.dumps({**LINES[0], **wrong})
    file.write_text(file.read_text() + text + "\n")
    assert main(["results", str(file)]) == 2
    assert f"results.jsonl, line {len(LINES) + 1}: {expected}; correct the line" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"[1]\n", b"{torn\n", b"\xff\xfe\n", b'"text"\n'])
def test_what_is_no_object_is_named(tmp_path, content, capsys):
    (tmp_path / "r.jsonl").write_bytes(content)
    assert main(["results", str(tmp_path / "r.jsonl")]) == 2
    assert "r.jsonl, line 1: expected a JSON object; correct the line" in capsys.readouterr().err
    (tmp_path / "r.jsonl").write_bytes(b"")
    assert main(["results", str(tmp_path / "r.jsonl")]) == 2
    assert "r.jsonl: no results in it" in capsys.readouterr().err


def test_tables_of_their_own_for_other_settings_and_experiments(file):
    keep(
        file,
        [line("CEIL", "films", [1, 1, 1, 1], 0, shots=4), line("CEIL", "films", [1], experiment="ideas")],
    )
    keep(
        file,
        [line("both", "films", [1, 1, 1, 1], 0, trained_by=[["films", "small-lm"], ["shows", "small-lm"]])],
    )
    assert "| both | 1,234, 6, 0.00 + training elsewhere |" in published(file)
    assert published(file).count("\n# ") == 2
    assert published(file, ["ideas"]).startswith("# ideas")
    with pytest.raises(UserError, match="unknown experiment 'idea'; did you mean 'ideas'"):
        published(file, ["idea"])


def test_lines_from_before_there_were_statistics(tmp_path):
    old = [{key: value for key, value in one.items() if key != "statistics"} for one in LINES]
    keep(tmp_path / "old.jsonl", old)
    text = published(tmp_path / "old.jsonl", minus=["EPR"])
    assert "| EPR | 37.5 ± 17.7 | 37.5 |" in text and "Less" not in text and "mean" not in text


def test_what_cannot_be_compared_is_said(file, tmp_path):
    keep(file, [line("CEIL", "films", [1, 1, 1, 1], 0, bank=5)])
    with pytest.raises(UserError, match="CEIL on films is there twice, with other settings"):
        published(file)
    keep(tmp_path / "b.jsonl", [LINES[4], line("CEIL", "shows", [1, 0], 0, texts="others")])
    with pytest.raises(UserError, match="CEIL and EPR saw different queries of shows"):
        published(tmp_path / "b.jsonl", minus=["EPR"])
    keep(tmp_path / "c.jsonl", [LINES[0], line("EPR", "films", [1, 0, 0, 0], 1, texts="others")])
    with pytest.raises(UserError, match="seeds of EPR on films saw different queries"):
        published(tmp_path / "c.jsonl")


def test_the_command(file, capsys):
    assert main(["results", str(file), "--experiment", "table2", "--minus", "EPR"]) == 0
    assert "## Less EPR" in capsys.readouterr().out
    assert main(["results", str(file), "--experiment", "tabel2"]) == 2
    assert "did you mean 'table2'" in capsys.readouterr().err
    assert main(["results", "none.jsonl"]) == 2
    assert "none.jsonl: no such file; name one that --record wrote" in capsys.readouterr().err


def test_columns_that_are_no_tasks_have_a_table_a_task(tmp_path):
    file = tmp_path / "results.jsonl"
    keep(
        file,
        [
            line("CEIL", f"K = {k}", [1, 0], 0, task=task, shots=k, config=f"{task} {k}")
            for task in ("films", "shows")
            for k in (1, 2)
        ],
    )
    text = published(file)
    assert text.count("\n# ") == 1 and text.startswith("# table2 on films (small-lm, encoder an-encoder)")
    assert "|  | K = 1 | K = 2 |" in text and "mean" not in text and "Queries: 2." in text


def test_the_projects_own_results_are_tables():
    own = Path(__file__).parents[2] / "experiments" / "results.jsonl"
    text = published(own, minus=["EPR"])
    assert all(f"# {record.experiment}" in text for record in read_results(own))


def test_queries_that_stand_in_the_bank_have_tables_of_their_own(tmp_path):
    file = tmp_path / "results.jsonl"
    shared = {"question_in_bank": "1100", "output_in_bank": "1111", "question": [0, 0, 1, 2]}
    runs = {"EPR": [1, 1, 0, 0], "CEIL": [1, 1, 1, 0]}
    keep(file, [line(row, "films", values, 0, overlap=shared) for row, values in runs.items()])
    text = published(file, minus=["EPR"])
    assert "## films: question in the bank (2)" in text and "output in the bank" not in text
    assert "| CEIL | 100.0 (20.7 to 100.0) | +0.0 (+0.0 to +0.0) |" in text
    # one question is asked twice and right both times: Wilson's interval for 1 of 1 (test of `metric_interval`)
    assert "| CEIL | 50.0 (0.0 to 100.0) | +50.0 (+0.0 to +100.0) |" in text
    # three questions are resampled, one of them with both of its copies
    assert read_results(file)[0].overlap.question.tolist() == [0, 0, 1, 2]
    keep(tmp_path / "bad.jsonl", [])
    bad = json.dumps(json.loads(file.read_text().splitlines()[0]) | {"overlap": {"question_in_bank": "1"}})
    (tmp_path / "bad.jsonl").write_text(bad + "\n")
    with pytest.raises(UserError, match="expected what 4 queries share with the bank as 'overlap'"):
        published(tmp_path / "bad.jsonl")
