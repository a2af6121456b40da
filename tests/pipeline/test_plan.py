"""Plans: a dry run says what is on disk, and how many tokens the rest takes."""

from dataclasses import replace

import pytest
from films import SMALL, TASK

from ceil_jax.pipeline.graph import open_run
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.plan import Machine, Plan, plan
from ceil_jax.pipeline.stage import Run, Work, closure
from ceil_jax.tasks.load import load_task

NAMES = ("zero", "topk", "dpp", "epr", "ceil")
GIVEN = load_task("scan.simple", limit=12, bank_limit=60)
"""Answers that are written; films has choices."""


def planned(config, task):
    """The plan of a dry run, whose LM only counts."""
    _, graph = open_run(config, task, CountingModels())
    run = Run(config.out, graph.models)
    return plan(run, [graph.metric(name) for name in NAMES], task.name)


@pytest.mark.parametrize("task", [TASK, GIVEN], ids=lambda task: task.name)
def test_a_dry_run_tells_the_tokens_and_then_what_is_on_disk(tmp_path, task, moved_for_trained):
    config = replace(SMALL, out=tmp_path / "runs", guard=True)
    before = planned(config, task)
    assert len(before.missing) == len(before.steps) and not config.out.exists()
    run, graph = open_run(config, task)
    targets = [graph.metric(name) for name in NAMES]
    run.get(targets[1])
    after_one = planned(config, task)
    assert {key for key, step in after_one.steps.items() if step.work is None} == {
        one.key for one in closure([targets[1]]) if not one.in_memory
    }
    for target in targets:
        run.get(target)
    done = planned(config, task)
    assert done.missing == [] and done.tokens == 0
    assert set(before.steps) == set(done.steps) and "0 would run" in done.text()
    # the test LM never ends an answer by itself, as the plan expects of one
    for key, (stage, work) in before.steps.items() if task is TASK else ():
        read = run.own_cost(stage).tokens
        if read:
            assert work.read + work.written == pytest.approx(read, rel=0.25), (key, stage.what)


def test_more_answers_are_written_and_prompts_read_once(tmp_path):
    voted = replace(SMALL, out=tmp_path, answers=4)
    one, four = (
        sum((s.work.written for s in planned(config, GIVEN).missing if s.stage.kind == "predictions"), 0.0)
        for config in (replace(voted, answers=1), voted)
    )
    assert four == pytest.approx(4 * one, rel=0.05)


def test_seconds_by_hand():
    machine = Machine("m", lm=100.0, encode=10.0, train=1.0)
    work = Work(read=2, written=1, parameters=50, encoded=30, trained=4, steps=9)
    # (2 + 4 · 1) · 50 / 100 + 30 / 10 + 4 / 1
    assert machine.seconds(work) == 3 + 3 + 4
    assert Plan().text().startswith("0 stages on disk, 0 would run: about 0 LM tokens")
