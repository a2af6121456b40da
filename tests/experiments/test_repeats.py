"""experiments/repeats.py compares recorded runs with their repetition."""

from dataclasses import replace

import numpy as np
import pytest
import repeats
from films import TASK
from harness import results_file

from ceil_jax.errors import UserError
from ceil_jax.pipeline.records import Record
from ceil_jax.store.cost import Cost
from ceil_jax.tasks.words import Overlap


def record(experiment, row, scores, task="films", seed=0, **other):
    values = np.array([[int(score)] for score in scores], float)
    asked = np.arange(len(values))
    return Record(
        name=f"run-{experiment}{row}{task}{seed}",
        experiment=experiment,
        row=row,
        column=task,
        task=task,
        method="ceil",
        lm="a-lm",
        metric="accuracy",
        device="2 cores",
        date="2026-11-25",
        bank=60,
        seed=seed,
        value=100 * values.mean(),
        low=0.0,
        high=100.0,
        config={"shots": 4, "encoder": "an-encoder"},
        texts=f"texts-{task}{len(values)}",
        queries=len(values),
        cost=Cost(1.0, 10),
        statistics=values,
        overlap=Overlap(asked, asked < 0, asked < 0),
        **other,
    )


def test_values_changes_and_differences_of_both(tmp_path, capsys):
    file = tmp_path / "results.jsonl"
    runs = [
        record("one", "EPR", "1100"),
        record("one", "CEIL", "1110"),
        record("one", "CEIL", "1111", seed=1),
        record("two", "EPR", "1010"),
        record("two", "CEIL", "1110"),
        record("two", "CEIL", "0001", seed=1),
        record("two", "TST", "0000"),
    ]
    results_file.keep(file, runs)
    repeats.main(["one", "two", "--results", str(file)])
    printed = capsys.readouterr().out
    assert "| EPR | films | 4 | 50.0 → 50.0 | 50.0 → 50.0 | 2 |" in printed
    assert "| CEIL | films | 4 | 75.0 → 75.0, 100.0 → 25.0 | 87.5 → 50.0 | 0, 3 |" in printed
    assert "TST" not in printed and "mean of" not in printed
    (difference,) = [line for line in printed.splitlines() if line.startswith("| CEIL | films | +37.5 (")]
    # the two seeds of CEIL less the one of EPR: 87.5 and 50.0 - 50.0, and the mean of the four
    assert [cell.split()[0] for cell in difference.split(" | ")[2:]] == ["+37.5", "+0.0", "+18.8"]


def test_means_over_tasks_stand_below(tmp_path, capsys):
    file = tmp_path / "results.jsonl"
    runs = [record("one", "EPR", "1100", task) for task in ("films", "shows")]
    runs += [record("one", "CEIL", "1110", "films"), record("one", "CEIL", "0000", "shows")]
    again = [replace(run, experiment="two") for run in runs]
    again[-1] = replace(again[-1], statistics=np.ones((4, 1)))
    results_file.keep(file, [*runs, *again])
    repeats.main(["one", "two", "--results", str(file)])
    (mean,) = [line for line in capsys.readouterr().out.splitlines() if "mean of 2" in line]
    assert [cell.split()[0] for cell in mean.split(" | ")[2:]] == ["-12.5", "+37.5", "+12.5"]


@pytest.mark.parametrize("other", [{"lm": "another-lm"}, {"config": {"shots": 8, "encoder": "an-encoder"}}])
def test_rows_of_another_lm_or_number_of_examples_are_not_subtracted(other):
    runs = [record("one", "EPR", "1100"), record("one", "CEIL", "1110")]
    runs += [replace(run, name=f"{run.name}-other", **other) for run in runs]
    runs[2] = replace(runs[2], statistics=np.zeros((4, 1)))
    found = repeats.repeated([*runs, *(replace(run, experiment="two") for run in runs)], "one", "two")
    assert len(found) == 4
    *_, less = repeats.tables(found, "EPR")
    assert [(row, task, first.value) for row, task, first, *_ in less.rows] == [
        ("CEIL", "films", 25.0),
        ("CEIL", "films", 75.0),
    ]


def test_the_shared_queries_of_a_smaller_draw_are_compared(monkeypatch):
    task = replace(TASK, validation=TASK.train[:6])
    kept = {6: [0, 1, 2, 3, 4, 5], 3: [1, 3, 4]}

    def load(name, data_dir, limit):
        assert name == "films"
        return replace(task, validation=[task.validation[place] for place in kept[limit]])

    monkeypatch.setattr(repeats, "load_task", load)
    small, large = record("one", "EPR", "101"), record("two", "EPR", "011000")
    (one,) = repeats.repeated([small, large], "one", "two")
    assert one.first.queries == one.again.queries == 3 and one.changed == [1]
    assert (one.first.value, one.again.value) == (pytest.approx(200 / 3), pytest.approx(100 / 3))


def test_what_cannot_be_compared_is_said(tmp_path):
    runs = [record("one", "EPR", "10"), record("two", "EPR", "10", seed=1)]
    with pytest.raises(UserError, match="one and two have no row, task, LM"):
        repeats.repeated(runs, "one", "two")
    with pytest.raises(UserError, match="three"):
        repeats.repeated(runs, "one", "three")
    with pytest.raises(UserError, match="no such file"):
        repeats.main(["one", "two", "--results", str(tmp_path / "none")])
    other = replace(record("two", "EPR", "10"), texts="texts-others")
    with pytest.raises(UserError, match="different queries of films"):
        repeats.repeated([runs[0], other], "one", "two")


def test_programs_in_place_of_questions(tmp_path, monkeypatch, capsys):
    file = tmp_path / "results.jsonl"
    runs = [
        record(name, row, scores)
        for name in ("one", "two")
        for row, scores in (("EPR", "0000"), ("CEIL", "1110"))
    ]
    results_file.keep(file, runs)
    # three queries of one program, which are right together, and one of another
    queries = [replace(TASK.train[i], output=f"loc(m{i})" if i < 3 else "all(m0)") for i in range(4)]
    monkeypatch.setattr(repeats, "load_task", lambda *_, limit: replace(TASK, validation=queries[:limit]))
    repeats.main(["one", "two", "--results", str(file), "--by-program", "--tasks", "films"])
    assert "+75.0 (+0.0 to +100.0)" in capsys.readouterr().out
    monkeypatch.setattr(repeats, "load_task", lambda *_, limit: replace(TASK, validation=queries[:2] * 2))
    with pytest.raises(UserError, match="films: the queries of the data are not those of the records"):
        repeats.main(["one", "two", "--results", str(file), "--by-program"])
