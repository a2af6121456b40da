"""A trained method from outside the package: the code of docs/extending.md in every place that a
user meets."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from films import SMALL, TASK, choose
from refusing import refused

from ceil_jax import CeilSelector, Example, register_retriever
from ceil_jax.metrics import METRICS, register_metric
from ceil_jax.pipeline.export import export_method
from ceil_jax.pipeline.graph import open_run
from ceil_jax.pipeline.plan import plan
from ceil_jax.report.compare import compare
from ceil_jax.report.write import write_page, write_report
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.tuning.candidates import prepared, searched
from ceil_jax.tuning.config import TuneConfig

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
[PLUGIN] = [code for code in CODE if "register_method(" in code]
FEW = replace(TASK, validation=TASK.validation[:4])


@pytest.fixture
def registered(registrations_undone):
    exec(compile(PLUGIN, "my_method", "exec"), {"__name__": "my_method"})


def test_it_is_one_file_under_sixty_lines():
    assert len(PLUGIN.splitlines()) < 60


def test_it_works_wherever_the_packages_own_do(registered, tmp_path, moved_for_trained):
    config = replace(SMALL, out=tmp_path / "runs", epr=replace(SMALL.epr, instances=12))
    run, graph = open_run(config, FEW)

    planned = plan(run, [graph.metric("relative")])
    [training] = [work for stage, work in planned.items() if stage.what == "training relative EPR"]
    # 60 of the 100 queries are there, a quarter is held out: 6 epochs of 45 in batches of 16
    assert training.steps == 17 and training.trained > 0 and planned.tokens > 0

    table = compare(run, graph, ["topk", "relative"])
    assert [row.label for row in table.rows] == ["dense top-k", "relative EPR"]
    assert [(one.better, one.worse) for one in table.differences] == [
        ("relative EPR", "dense top-k")
    ]
    assert table.rows[1].record.preparing.tokens > 0 and table.rows[1].record.seed == 0
    assert "relative EPR" in write_report(tmp_path / "report", table).read_text()
    assert "relative EPR" in write_page([config.out], tmp_path / "all.html").read_text()
    assert run.missing([graph.metric("relative")]) == []

    assert "relative EPR on films" in export_method(run, graph, "relative", tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert "relative EPR: 60 queries × 10 examples" in selector.card.training_data
    for query, picks in zip(
        FEW.validation, choose(run, graph, "relative", FEW.validation), strict=True
    ):
        chosen = [example.id for example in selector.select(query, k=3)]
        assert chosen == [pick.id for pick in reversed(picks)]

    search = TuneConfig(methods=("topk", "relative"))
    assert searched(search, config, FEW) == ("topk", "relative")
    [candidate] = prepared(("topk", "relative"), search, 8)
    assert candidate.method == "relative" and candidate.prepared


def test_a_retriever_and_a_metric_from_outside_are_checked(registrations_undone, tmp_path):
    first, second = (Retrieved(TASK.train[i].id, i, 1.0, 1.0) for i in range(2))
    for number, (picks, said) in enumerate(
        {
            (first, first): "expected at most 3 different `Retrieved`",
            (first._replace(position=-1),): "for query 1",
            (first._replace(id=second.id),): "by position and id",
            tuple(range(3)): "returned .0, 1, 2. for query 1",
            tuple(Retrieved(TASK.train[i].id, i, 1.0, 1.0) for i in range(4)): "at most 3",
        }.items()
    ):
        name = f"mine{number}"
        given = SimpleNamespace(
            retrieve=lambda queries, k, picks=picks: [list(picks)] * len(queries)
        )
        register_retriever(name, lambda bank, _, given=given: given)
        run, graph = open_run(replace(SMALL, out=tmp_path), FEW)
        with refused(f"retriever '{name}' returned .*{said}|{said}"):
            run.get(graph.chosen(name))
    register_retriever("none", lambda bank, _: SimpleNamespace(retrieve=lambda queries, k: None))
    run, graph = open_run(replace(SMALL, out=tmp_path), FEW)
    with refused("retriever 'none' returned None; expected at most 3"):
        run.get(graph.chosen("none"))
    for number, value in enumerate((None, float("nan"), 100.0, -1.0)):
        register_metric(f"odd{number}", lambda prediction, example, value=value: value)
        with refused("the metric of the answer 'x' to query 'v' is .*; expected 0 to 1"):
            METRICS[f"odd{number}"].corpus(["x"], [Example("v", "q", "y")])
