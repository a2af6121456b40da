"""Rows with their stages: put together once, and planned when a plan is first asked for."""

from dataclasses import replace

import pytest
from films import SMALL, films
from refusing import refused

from ceil_jax.pipeline import evaluate as evaluation
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.evaluate import evaluate, evaluate_rows, lineup_of
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import comparison_of
from ceil_jax.report.dry_run import planned

NAMES = ("majority", "random", "dpp")
TASK = films(30, 6)


@pytest.fixture
def session(tmp_path):
    return open_run(replace(SMALL, out=tmp_path / "runs"), TASK)


def lineup_named(session):
    return lineup_of(*session, [session.setup.row(name) for name in NAMES])


def test_the_stages_of_a_row_are_put_together_once_for_a_dry_run_and_an_evaluation(
    session, monkeypatch
):
    calls = []
    metric = row_stages.metric

    def counted(setup, row):
        calls.append(row.name)
        return metric(setup, row)

    monkeypatch.setattr(row_stages, "metric", counted)
    lineup = lineup_named(session)
    planned(lineup)
    comparison = comparison_of(evaluate_rows(lineup))
    assert calls == [*NAMES]
    assert [row.record.method for row in comparison.rows] == [*NAMES]


def test_nothing_is_planned_before_it_is_asked_for_and_then_once(session, monkeypatch):
    plans = []

    def counted(run, targets):
        plans.append(plan(run, targets))
        return plans[-1]

    monkeypatch.setattr(evaluation, "plan", counted)
    lineup = lineup_named(session)
    assert plans == []
    assert {*lineup.plan} == {*session.run.missing(lineup.metrics)}
    assert lineup.plan is plans[0]
    evaluate_rows(lineup)
    assert len(plans) == 1
    assert lineup_named(session).plan == {}


def test_a_row_alone_has_the_record_that_it_has_among_others(session):
    [*records] = evaluate_rows(lineup_named(session)).records
    run, setup = session
    assert [evaluate(run, setup, setup.row(name)).name for name in NAMES] == [
        record.name for record in records
    ]


def test_queries_without_what_the_metric_needs_are_refused_before_any_work(tmp_path):
    task = replace(TASK, metric="sql_execution")
    config = replace(SMALL, out=tmp_path / "runs")
    with refused("database"):
        lineup_named(open_run(config, task))
    assert not config.out.exists()
