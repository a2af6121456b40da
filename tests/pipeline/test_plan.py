"""Plans: a dry run says what is on disk, and how many tokens the rest takes."""

from dataclasses import replace

import pytest
from films import SMALL, TASK, metric_of

from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.plan import Plan, plan
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.speed import Machine
from ceil_jax.store.kept import Work, closure
from ceil_jax.tasks.load import load_task

NAMES = ("zero", "topk", "dpp", "epr", "ceil")
TASKS = [
    TASK,
    load_task("movie_reviews", limit=12, bank_limit=60),
    replace(
        TASK,
        name="written",
        train=[replace(one, choices=(), output=one.input.upper()) for one in TASK.train],
        validation=[replace(one, choices=(), output=one.input.upper()) for one in TASK.validation],
        metric="exact_match",
    ),
]
"""Answers of films and of film reviews are chosen, the others are written."""


def planned(config, task):
    """The plan of a dry run, whose LM only counts, and its rows."""
    _, setup = open_run(config, task, CountingModels())
    targets = [metric_of(setup, name) for name in NAMES]
    return plan(Run(config.out, setup.models), targets), targets


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_dry_run_tells_the_tokens_and_then_what_is_on_disk(tmp_path, task, moved_for_trained):
    config = replace(SMALL, out=tmp_path / "runs", trade_off="tuned")
    before, rows = planned(config, task)
    assert {*before} == {one for one in closure(rows) if not one.in_memory}
    assert not config.out.exists()
    run, setup = open_run(config, task)
    targets = [metric_of(setup, name) for name in NAMES]
    run.get(targets[1])
    after_one, _ = planned(config, task)
    assert {*before} - {*after_one} == {one for one in closure([targets[1]]) if not one.in_memory}
    for target in targets:
        run.get(target)
    done, _ = planned(config, task)
    assert done == {}
    assert done.tokens == 0
    read = {
        stage: (work.read + work.written, run.own_cost(stage).tokens)
        for stage, work in before.items()
    }
    read = {stage: tokens for stage, tokens in read.items() if any(tokens)}
    for stage, (expected, tokens) in read.items():
        # the test LM never ends an answer by itself, as the plan expects of one
        if stage.kind != "predictions" or task.train[0].choices:
            assert expected == pytest.approx(tokens, rel=0.25), stage.what
    assert len({stage.kind for stage in read}) == 2


def test_seconds_by_hand():
    machine = Machine("m", lm=100.0, encode=10.0, train=1.0)
    work = Work(read=2, written=1, parameters=50, encoded=30, trained=4, steps=9)
    # (2 + 4 · 1) · 50 / 100 + 30 / 10 + 4 / 1
    assert machine.seconds(work) == 3 + 3 + 4
    assert Plan().seconds(machine) == Plan().tokens == 0
