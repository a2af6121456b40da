"""The file of published records, and its tables."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import results
from films import TASK
from harness import programs
from harness.results_file import RESULTS, keep, line_of, read_results, record_of
from results import published

from ceil_jax.cli.main import command
from ceil_jax.errors import UserError
from ceil_jax.metrics.bootstrap import bootstrap_interval, mean, over_seeds, paired


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
    return kept(tmp_path / "results.jsonl", LINES)


def kept(file, lines):
    keep(file, map(record_of, lines))
    return file


def test_a_place_has_one_line_for_each_run_the_latest(tmp_path):
    file = tmp_path / "results.jsonl"
    first, other = (
        record_of(line("CEIL", column, [1], config="a")) for column in ("n = 50", "n = 100")
    )
    keep(file, [first, other])
    keep(file, [replace(first, value=3.0), replace(first, experiment="table6")])
    assert read_results(file) == [
        replace(first, value=3.0),
        other,
        replace(first, experiment="table6"),
    ]


def test_scripts_side_by_side_lose_no_line(tmp_path):
    file = tmp_path / "results.jsonl"
    one = record_of(LINES[0])
    with ThreadPoolExecutor(4) as scripts:
        list(scripts.map(lambda i: keep(file, [replace(one, name=f"run-{i}")]), range(20)))
    assert {one.name for one in read_results(file)} == {f"run-{i}" for i in range(20)}


def test_the_projects_own_results_are_read_without_loss():
    records = read_results(RESULTS)
    for text, found in zip(RESULTS.read_text().splitlines(), records, strict=True):
        assert json.dumps(line_of(found), ensure_ascii=False) == text
    # none is in a place twice, and the rows of a column answered the same queries
    titles = [title for title, _ in results.tables(records, minus=["EPR"])]
    assert all(any(title.startswith(record.experiment) for title in titles) for record in records)


def test_a_line_says_which_recipe_trained_its_encoder(tmp_path):
    settings = {"ceil": {"size": 3, "initial": "epr"}, "epr": {"epochs": 4}, "tst": {"epochs": 3}}
    ceil = record_of(LINES[2])
    ceil = replace(ceil, config={**ceil.config, **settings})
    recipes = [
        line_of(replace(ceil, **changed)).get("recipe")
        for changed in (
            {},
            {"method": "epr_map"},
            {"method": "dpp"},
            {"trained_by": (("films", "an LM"),)},
        )
    ]
    both = {name: settings[name] for name in ("ceil", "epr")}
    assert recipes == [both, {"epr": settings["epr"]}, None, None]
    keep(tmp_path / "results.jsonl", [ceil])
    assert line_of(read_results(tmp_path / "results.jsonl")[0])["recipe"] == both


@pytest.mark.parametrize("values", [[[0], [1], [1]], [[0.25], [0.5]], [[1, 2, 3], [4, 5, 6]]])
def test_statistics_are_kept_without_loss(values, tmp_path):
    file = kept(
        tmp_path / "results.jsonl", [line("CEIL", "films", [0] * len(values), statistics=values)]
    )
    np.testing.assert_array_equal(read_results(file)[0].statistics, values)
    assert ('"statistics": "011"' in file.read_text()) == (len(values) == 3)


TORN = {"question_in_bank": "1"}
WRONG = ({"statistics": "12x"}, {"statistics": "101"}, {"trained_by": 7}, {"overlap": TORN})


@pytest.mark.parametrize(
    "content",
    [
        *(json.dumps(LINES[0] | change).encode() for change in WRONG),
        b"[1]",
        b"{torn",
        b"\xff\xfe",
        b"{}",
    ],
)
def test_a_line_that_is_no_result_is_named_and_nothing_is_lost(file, content):
    before = file.read_bytes() + content + b"\n"
    file.write_bytes(before)
    for reading in (lambda: read_results(file), lambda: keep(file, [record_of(LINES[0])])):
        with pytest.raises(
            UserError, match=rf"results.jsonl, line {len(LINES) + 1} is not a result: "
        ):
            reading()
    assert file.read_bytes() == before


def test_values_means_differences_and_costs(file):
    text = published(read_results(file), minus=["EPR", "nothing"])
    assert "# table2 (small-lm, 8 examples a prompt, encoder an-encoder)" in text
    assert "| EPR | 37.5 ± 17.7 | 37.5 | 37.5 (" in text
    assert "| CEIL | 62.5 ± 17.7 | 62.5 | 62.5 (" in text
    scores = np.array([one["statistics"] for one in LINES[:4]])
    epr = over_seeds(scores[:2], mean)
    ceil = over_seeds(scores[2:], mean)
    differences = bootstrap_interval(*paired(ceil, epr)).percent()
    less = text[text.index("## Less EPR") : text.index("## Cost of the first seed")]
    expected = f"| CEIL | +25.0 ({differences.low:+.1f} to {differences.high:+.1f}, touches zero)"
    assert f"{expected} | +25.0 (" in less
    assert "| EPR |" not in less
    assert "nothing" not in text
    assert "| CEIL | 1,234 | 6 | 0.00 |" in text
    assert "Queries: 4 of films, 2 of shows. 2 cores, 2026-11-22." in text


def test_tables_of_their_own_for_other_settings_and_experiments(file):
    elsewhere = [["films", "small-lm"], ["shows", "small-lm"]]
    kept(
        file,
        [
            line("CEIL", "films", [1, 1, 1, 1], 0, shots=4),
            line("CEIL", "films", [1], experiment="ideas"),
            line("both", "films", [1, 1, 1, 1], 0, trained_by=elsewhere),
        ],
    )
    text = published(read_results(file))
    assert "| both | 100.0 |" in text
    assert text.count("\n# ") == 2
    assert published(read_results(file), ["ideas"]).startswith("# ideas")


def test_what_cannot_be_compared_is_said(file, tmp_path):
    kept(file, [line("CEIL", "films", [1, 1, 1, 1], 0, bank=5)])
    with pytest.raises(UserError, match="CEIL on films is there twice, with other settings"):
        published(read_results(file))
    kept(tmp_path / "b.jsonl", [LINES[4], line("CEIL", "shows", [1, 0], 0, texts="others")])
    with pytest.raises(UserError, match="CEIL and EPR saw different queries of shows"):
        published(read_results(tmp_path / "b.jsonl"), minus=["EPR"])
    kept(tmp_path / "c.jsonl", [LINES[0], line("EPR", "films", [1, 0, 0, 0], 1, texts="others")])
    with pytest.raises(UserError, match="seeds of EPR on films saw different queries"):
        published(read_results(tmp_path / "c.jsonl"))


def test_the_command(file, tmp_path, capsys):
    def run(*arguments):
        return command("results", lambda _, rest: results.main(rest), list(map(str, arguments)))

    assert run(file, "--experiment", "table2", "--minus", "EPR") == 0
    assert "## Less EPR" in capsys.readouterr().out
    (tmp_path / "empty").touch()
    for wrong, told in {
        (file, "--experiment", "tabel2"): "did you mean 'table2'",
        ("none.jsonl",): "none.jsonl: no such file; name one that --record wrote",
        (tmp_path / "empty",): "empty: no results in it",
    }.items():
        assert run(*wrong) == 2
        assert told in capsys.readouterr().err


def test_columns_that_are_no_tasks_have_a_table_a_task(tmp_path):
    places = [(task, k) for task in ("films", "shows") for k in (1, 2)]
    lines = [
        line("CEIL", f"K = {k}", [1, 0], 0, task=t, shots=k, config=f"{t} {k}") for t, k in places
    ]
    text = published(read_results(kept(tmp_path / "results.jsonl", lines)))
    assert text.count("\n# ") == 1
    assert text.startswith("# table2 on films (small-lm, encoder an-encoder)")
    assert "|  | K = 1 | K = 2 |" in text
    assert "mean" not in text
    assert "Queries: 2." in text


def test_rows_are_compared_with_an_untrained_row_and_with_a_column(tmp_path):
    answered = {
        ("dense top-k", "untrained"): [0, 0],
        ("EPR", "100"): [1, 0],
        ("EPR", "400"): [1, 1],
    }
    lines = [
        line(row, column, values, task="films", texts="t")
        for (row, column), values in answered.items()
    ]
    text = published(
        read_results(kept(tmp_path / "results.jsonl", lines)), minus=["dense top-k", "100"]
    )
    assert "## Less dense top-k\n\n|  | untrained | 100 | 400 |" in text
    top_k, _, column = text.partition("## Less 100")
    assert "| EPR |  | +50.0 (" in top_k
    assert "| +100.0 (" in top_k
    assert "| EPR |  |  | +50.0 (" in column


def test_queries_that_stand_in_the_bank_have_tables_of_their_own(tmp_path):
    shared = {"question_in_bank": "1100", "output_in_bank": "1111", "question": [0, 0, 1, 2]}
    runs = {"EPR": [1, 1, 0, 0], "CEIL": [1, 1, 1, 0]}
    lines = [line(row, "films", values, 0, overlap=shared) for row, values in runs.items()]
    file = kept(tmp_path / "results.jsonl", lines)
    text = published(read_results(file), minus=["EPR"])
    assert "## films: question in the bank (2)" in text
    assert "output in the bank" not in text
    assert "| CEIL | 100.0 (20.7 to 100.0) | +0.0 (+0.0 to +0.0) |" in text
    # one question is asked twice and right both times: Wilson's interval for 1 of 1 (test of
    # `metric_interval`)
    assert "| CEIL | 50.0 (0.0 to 100.0) | +50.0 (+0.0 to +100.0, touches zero) |" in text
    # three questions are resampled, one of them with both of its copies
    assert read_results(file)[0].overlap.question.tolist() == [0, 0, 1, 2]


PROGRAMS = {"question_in_bank": "0000", "output_in_bank": "0000", "question": [0, 0, 0, 1]}
"""Three queries of one program, which are right or wrong together, and one of another."""


def test_queries_of_one_program_are_resampled_together_and_weighed_as_one(tmp_path):
    runs = {"EPR": [0, 0, 0, 0], "CEIL": [1, 1, 1, 0]}
    lines = [line(row, "films", values, 0, overlap=PROGRAMS) for row, values in runs.items()]
    text = published(read_results(kept(tmp_path / "results.jsonl", lines)), minus=["EPR"])
    by_query, of_differences, _ = text.split("every program weighs the same")
    assert "| CEIL | +75.0 (+0.0 to +100.0, touches zero) |" in by_query
    assert "| CEIL | +50.0 (+0.0 to +100.0, touches zero) |" in of_differences
    assert "| CEIL | 50.0 (0.0 to 100.0) | +50.0 (+0.0 to +100.0, touches zero) |" in text


def test_the_mean_with_every_program_alike_is_over_all_tasks(tmp_path):
    runs = {"EPR": [0, 0, 0, 0], "CEIL": [1, 1, 1, 0]}
    lines = [line(row, "films", values, 0, overlap=PROGRAMS) for row, values in runs.items()]
    lines += [line("EPR", "shows", [0, 0, 1, 0], 0), line("CEIL", "shows", [1, 1, 1, 0], 0)]
    text = published(read_results(kept(tmp_path / "results.jsonl", lines)), minus=["EPR"])
    [means] = re.findall(r"the same: Less EPR\n(?:\n.*){3}\| (\S+) \(\S+ to \S+\) \|$", text, re.M)
    assert means == f"{(50 + 50) / 2:+.1f}"


def test_a_mean_is_printed_without_the_task_that_carries_most_of_it(tmp_path):
    scores = {"films": [1, 1, 1, 1], "shows": [1, 0, 0, 0], "plays": [1, 0, 0, 0]}
    lines = [line("CEIL", task, values, 0) for task, values in scores.items()]
    lines += [line("EPR", task, [0, 0, 0, 0], 0) for task in scores]
    text = published(read_results(kept(tmp_path / "results.jsonl", lines)), minus=["EPR"])
    row = next(
        one for one in text[text.index("Less EPR") :].splitlines() if one.startswith("| CEIL")
    )
    *_, mean, without = row.strip("| ").split(" | ")
    assert mean.startswith("+50.0 (")
    assert without.startswith("+25.0 (")
    assert without.endswith("without films")


def test_no_task_carries_a_mean_of_nothing(tmp_path):
    lines = [line(row, task, [1, 0], 0) for row in ("EPR", "CEIL") for task in ("films", "shows")]
    text = published(read_results(kept(tmp_path / "results.jsonl", lines)), minus=["EPR"])
    assert "| CEIL | +0.0 (+0.0 to +0.0) | +0.0 (+0.0 to +0.0) | +0.0 (+0.0 to +0.0) |" in text


def test_a_run_and_its_repetition_are_cut_to_the_queries_of_both(tmp_path, monkeypatch):
    drawn = {4: ["a", "b", "c", "d"], 2: ["b", "d"]}

    def load(name, data_dir, limit):
        return SimpleNamespace(validation=[SimpleNamespace(id=one) for one in drawn[limit]])

    monkeypatch.setattr(results, "load_task", load)
    shared = [{name: bits[:n] for name, bits in PROGRAMS.items()} for n in (2, 4)]
    scores = {("one", "EPR"): [1, 0], ("one", "CEIL"): [1, 1], ("two", "EPR"): [0, 0, 1, 1]}
    scores |= {("two", "CEIL"): [0, 1, 0, 0], ("two", "TST"): [0, 0, 0, 0]}
    lines = [
        line(row, "films", values, 0, experiment=name, texts=name, overlap=shared[len(values) // 4])
        for (name, row), values in scores.items()
    ]
    records = read_results(kept(tmp_path / "results.jsonl", lines))
    found = {
        title.partition(" (")[0]: {row: one for (row, _), one in table.runs.items()}
        for title, table in results.tables(results.together(records, "one", "two"))
    }
    assert list(found) == ["one, queries of both", "two, queries of both", "one and two"]
    assert {row: one.values for row, one in found["two, queries of both"].items()} == {
        "EPR": (50,),  # b was wrong and d right
        "CEIL": (50,),
    }
    assert found["one and two"]["CEIL"].values == (100, 50)
    assert found["one and two"]["CEIL"].minus(found["one and two"]["EPR"]).mean == 25
    with pytest.raises(UserError, match="'three'"):
        results.together(records, "one", "three")
    with pytest.raises(UserError, match="have no row, task"):
        results.together(
            [one for one in records if one.row != "TST"][:1] + records[-1:], "one", "two"
        )


def test_added_runs_are_resampled_by_the_programs_of_their_data(tmp_path, monkeypatch):
    queries = [replace(TASK.validation[i], output=f"loc(m{i > 2},a{i > 2})") for i in range(4)]
    task = replace(
        TASK, train=[replace(one, output="f(a)") for one in TASK.train], validation=queries
    )
    monkeypatch.setattr(programs, "load_task", lambda *_, **__: task)
    programs._of_task.cache_clear()
    bits = {"question_in_bank": "0000", "output_in_bank": "0000"}
    new = kept(tmp_path / "new.jsonl", [line("EPR", "films", [1, 1, 1, 0], 0, overlap=bits)])
    results.main([str(tmp_path / "all.jsonl"), "--add", str(new)])
    [one] = read_results(tmp_path / "all.jsonl")
    assert one.overlap.question.tolist() == [0, 0, 0, 1]
    assert (one.low, one.high) == (0, 100)
    programs._of_task.cache_clear()
    kept(new, [line("EPR", "films", [1, 1, 1, 0], 0, overlap=bits | {"output_in_bank": "1000"})])
    with pytest.raises(
        UserError, match="films: the queries of the data are not those of the records"
    ):
        results.main([str(tmp_path / "all.jsonl"), "--add", str(new)])
