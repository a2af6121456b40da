"""Whether a trained encoder is used: the answers to the queries that its training held out."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from films import SMALL, TASK
from harness.results_file import line_of

from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.evaluate import scored
from ceil_jax.pipeline.export import selector_of
from ceil_jax.pipeline.methods import Guard
from ceil_jax.pipeline.run import Run
from ceil_jax.report.closeup import _view
from ceil_jax.report.compare import compare
from ceil_jax.report.dry_run import Plan
from ceil_jax.report.stand_ins import CountingModels

HELD_OUT = np.arange(100, 150)


def guard(right, initial="epr"):
    """A guard; `right` says how many of 50 queries each method answers correctly."""
    asked = []

    def answered(judged, method, positions):
        asked.append(method)
        assert positions is HELD_OUT
        return Sample((np.arange(50) < right[method]).astype(float)[:, None], mean)

    starts = {"epr": ("base",), "tst": ("base",), "ceil": tuple(dict.fromkeys((initial, "base")))}
    return Guard(starts.get, lambda source: HELD_OUT, answered), asked


@pytest.mark.parametrize(
    ("source", "right", "used"),
    [
        ("ceil", {"ceil": 20, "epr_map": 22, "dpp": 20}, "ceil"),  # 2 of 2: one time in four by chance
        ("ceil", {"ceil": 20, "epr_map": 23, "dpp": 20}, "epr"),  # 3 of 3: one time in eight
        ("ceil", {"ceil": 20, "epr_map": 35, "dpp": 20}, "epr"),
        ("ceil", {"ceil": 10, "epr_map": 20, "dpp": 35}, "base"),
        ("ceil", {"ceil": 35, "epr_map": 10, "dpp": 10}, "ceil"),
        ("epr", {"epr": 20, "topk": 21}, "epr"),
        ("epr", {"epr": 20, "topk": 40}, "base"),
        ("tst", {"tst": 20, "topk": 40}, "base"),
        ("base", {}, "base"),
    ],
)
def test_an_earlier_encoder_is_used_where_it_is_better_beyond_noise(source, right, used):
    found, asked = guard(right)
    assert [found.used(source), found.used(source)] == [used, used]
    assert sorted(asked) == sorted(right), "each method answers once"


def test_an_encoder_that_was_not_in_training_is_not_asked():
    found, asked = guard({"ceil": 20, "dpp": 20}, initial="base")
    assert found.used("ceil") == "ceil" and asked == ["ceil", "dpp"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A guarded run and its table."""
    run = open_run(replace(SMALL, guard=True, out=tmp_path_factory.mktemp("runs")), TASK)
    return run, compare(run, ["topk", "epr", "ceil"])


def test_it_asks_the_queries_that_training_held_out(guarded):
    run, table = guarded
    for source in ("epr", "ceil"):
        learnt = set(run.trainer.learnt_from("epr"))
        positions = run.trainer.held_out(source)
        assert len(positions) > 1 and not learnt & set(positions)
        for method in ("topk", "epr") if source == "epr" else ("dpp", "epr_map", "ceil"):
            cost = run.costs[f"guarding {source.upper()}: {method}"]
            assert cost.tokens > 0
    rows = {row.method: row.record for row in table.rows}
    unguarded = compare(open_run(replace(run.config, guard=False), TASK), ["topk", "epr", "ceil"])
    plain = {row.method: row.record for row in unguarded.rows}
    assert rows["topk"].preparing.tokens == plain["topk"].preparing.tokens
    for name in ("epr", "ceil"):
        asked = sum(c.tokens for what, c in run.costs.items() if what.startswith(f"guarding {name.upper()}"))
        assert rows[name].preparing.tokens == plain[name].preparing.tokens + asked
        assert rows[name].name != plain[name].name, "they are records of two settings"


@pytest.mark.parametrize(
    ("best", "used", "said"), [("dpp", "base", "the untrained"), ("epr_map", "epr", "EPR's")]
)
def test_a_method_takes_what_the_guard_takes(guarded, monkeypatch, best, used, said):
    def answered(judged, name, asked):
        return Sample(np.full((len(asked), 1), float(name == best)), mean)

    run = open_run(guarded[0].config, TASK)
    monkeypatch.setattr(run.guard, "_answered", answered)
    assert run.used("ceil").encoder == used and run.used("ceil_topk").encoder == used
    queries = TASK.validation
    assert run.retrieve("ceil", queries) == run.retrieve(best, queries)
    assert run.kept("ceil") == f"the guard took {said} encoder"
    selector = selector_of(run, "ceil")
    assert ("the encoder is as loaded" in selector.card.training_data) == (used == "base")


def test_what_falls_back_is_recorded_and_drawn_as_it_was_used(tmp_path, monkeypatch):
    def answered(self, judged, name, asked):
        return Sample(np.full((len(asked), 1), float(name == "dpp")), mean)

    monkeypatch.setattr(Run, "_on_training_queries", answered)
    ceil = replace(SMALL.ceil, trade_off=0.02)
    run = open_run(replace(SMALL, guard=True, trade_off=0.1, ceil=ceil, out=tmp_path), TASK)
    rows = {row.method: row.record for row in compare(run, ["dpp", "ceil"]).rows}
    assert rows["ceil"].trade_off == rows["dpp"].trade_off == 0.1
    assert line_of(rows["ceil"])["recipe"]["guard"] is True and "recipe" not in line_of(rows["dpp"])
    kernels = []
    for last in ("dpp", "ceil"):
        table = SimpleNamespace(rows=[SimpleNamespace(method=method) for method in ("topk", last)])
        kernels.append(_view(run, table, TASK.validation[0]).kernel)
    np.testing.assert_array_equal(*kernels)


def test_ceil_is_judged_by_queries_that_its_start_has_not_learnt_from(guarded):
    config = guarded[0].config
    trainer = open_run(replace(config, ceil=replace(SMALL.ceil, instances=12)), TASK).trainer
    held_out = trainer.held_out("ceil")
    assert len(held_out) and not set(held_out) & set(trainer.learnt_from("epr"))


def test_answers_are_compared_by_the_metric_of_all_of_them():
    """Which for BLEU is no mean over queries."""
    task = replace(TASK, metric="char_bleu")
    queries = [replace(query, output=query.input, choices=()) for query in TASK.validation[:4]]
    rows = [
        {"prediction": text} for text in (queries[0].output, "a bright film", queries[0].output * 4, "a film")
    ]
    scores, answers = scored(task, queries, rows)
    whole = metric_named("char_bleu").corpus([row["prediction"] for row in rows], queries)
    assert float(answers.statistic(answers.values.sum(axis=0), 4)) == pytest.approx(whole)
    assert scores.mean() != pytest.approx(whole)


def test_encoders_of_another_run_are_used_as_they_are(guarded):
    run, _ = guarded
    assert open_run(run.config, TASK, trainer=run.trainer).guard is None


def test_a_dry_run_counts_it(tmp_path):
    config, plan = replace(SMALL, guard=True, out=tmp_path), Plan()
    plan.open(config, TASK, CountingModels()).answers("ceil")
    asked = {work.what: work for work in plan.stages.values() if work.what.startswith("guarding")}
    assert set(asked) == {"guarding CEIL: ceil", "guarding CEIL: epr_map", "guarding CEIL: dpp"}
    assert all(work.read > 0 for work in asked.values())
