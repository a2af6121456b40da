import json
from dataclasses import replace

import numpy as np
import pytest
import tune_tasks
from films import film

from ceil_jax import Task, Template
from ceil_jax.tasks import registry

FILMS = [film("train", i) for i in range(140)]
TINY = ["--lm", "tiny", "--encoder", "tiny", "--pool", "60", "--bank-limit", "80", "--ks", "2", "8"]


@pytest.fixture
def options(tmp_path, monkeypatch):
    task = Task("films", FILMS[:80], FILMS[80:], Template("{input} It is {output}"), "accuracy")
    monkeypatch.setattr(tune_tasks, "load_task", lambda name, *_, **__: replace(task, name=name))
    return [*TINY, *f"--tasks films --out {tmp_path}/runs --record {tmp_path}/r.jsonl".split()]


def test_its_tasks_exist():
    assert set(tune_tasks.TASKS) <= set(registry.TASKS)


def test_a_task_is_recorded_once_and_seeds_cost_nothing(options, tmp_path, capsys, monkeypatch):
    tune_tasks.main(options)
    [record] = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert len(record["seeds"]) == 3
    assert record["regret"] >= 0
    assert all(0 < one["tokens"] <= 500_000 for one in record["seeds"])
    best = max(one["value"] for one in record["table"].values())
    winners = [record["table"][one["winner"]]["value"] for one in record["seeds"]]
    assert record["regret"] == pytest.approx(np.mean([best - value for value in winners]))
    shown = capsys.readouterr().out
    monkeypatch.setattr(tune_tasks, "run", None)
    tune_tasks.main(options)
    assert capsys.readouterr().out == shown


def test_a_budget_that_is_too_small_is_said(options, capsys):
    tune_tasks.main([*options, "--budget", "100"])
    assert "films: --budget 100: the first round takes" in capsys.readouterr().out
