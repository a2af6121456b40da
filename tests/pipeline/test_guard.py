"""Whether a trained encoder is used: the answers to the queries that its training held out."""

from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, TASK

from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.export import selector_of
from ceil_jax.pipeline.methods import Guard
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


def test_encoders_of_another_run_are_used_as_they_are(guarded):
    run, _ = guarded
    assert open_run(run.config, TASK, trainer=run.trainer).guard is None


def test_a_dry_run_counts_it(tmp_path):
    config, plan = replace(SMALL, guard=True, out=tmp_path), Plan()
    plan.open(config, TASK, CountingModels()).answers("ceil")
    asked = {work.what: work for work in plan.stages.values() if work.what.startswith("guarding")}
    assert set(asked) == {"guarding CEIL: ceil", "guarding CEIL: epr_map", "guarding CEIL: dpp"}
    assert all(work.read > 0 for work in asked.values())
