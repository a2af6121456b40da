"""A method evaluated: its answers, their metric and what they cost, on record."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.distributed.machine import device
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.answering import Measurement
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.methods import TRAININGS
from ceil_jax.pipeline.records import Record, Recorded, Texts, settings_of
from ceil_jax.pipeline.stage import Run
from ceil_jax.tasks import TASKS


def evaluate(run: Run, graph: Graph, name: str) -> Record:
    """Return the record of a row of METHODS on the task's queries; what is not on disk is
    computed."""
    metric = graph.metric(name)
    run.get(metric)
    chosen, task, settings = (
        getattr(metric.predictions, "chosen", None),
        graph.task,
        settings_of(graph.config),
    )
    if task.name not in TASKS:  # the papers' tasks have one way of asking
        settings |= {
            "template": task.template.pattern,
            "separator": task.template.separator,
            "stop": [*task.stop],
        }
    recorded = Recorded(
        task.name,
        name,
        metric.metric,
        graph.lm.key,
        settings,
        metric.predictions,
        metric,
        Texts(graph.queries, graph.bank),
        kept=remark(run, graph, name),
        trade_off=chosen and run.summary(chosen).get("trade_off"),
        device=device(),
    )
    return run.get(recorded)


def remark(run: Run, graph: Graph, name: str) -> str:
    """Return a remark on a method that does not use what training gave its encoders; else ""."""
    source = graph.method(name).encoder or "base"
    if source in TRAININGS:
        outcome = run.summary(graph.encoders(source))
        ending = outcome.get("ending")
        if outcome.get("taken") == "cosine":
            return "the untrained encoder"
        if ending and ending["kept"] == "start":
            start = graph.start(source)
            whose = "the untrained" if start == "base" else f"{TRAININGS[start].title}'s"
            return f"training kept {whose} encoder"
    return ""


def check(graph: Graph, names: Sequence[str]) -> list[Measurement]:
    """Return the stages of some rows of METHODS, so that an unknown name or a setting that cannot
    be is met before any work. Loads the LM, and the encoder if a row compares vectors.

    Raises:
        UserError: an unknown row, settings or models.
    """
    METRICS[graph.task.metric].check(graph.task.validation)
    targets = [graph.metric(name) for name in names]
    for target in targets:
        _ = target.key
    return targets
