"""A method of a run as a selector, which applications import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.pipeline.encoders import Encoded
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.methods import METHODS, TRAININGS, method_named
from ceil_jax.pipeline.stage import Run
from ceil_jax.selector import Card, CeilSelector
from ceil_jax.selector.folder import check_target
from ceil_jax.tasks.example import Task, Template

NEAREST = 1e-9
"""λ of a selector that takes the nearest examples: relevance that differs in its last digit
outweighs diversity."""


def export_method(run: Run, graph: Graph, name: str, folder: Path, license: str = "") -> str:
    """Write a method (see `selector_of`) as a selector into a folder, and return what to tell the
    user.

    A selector that is there already is replaced. The license is that of the examples, as an SPDX
    name, for the card.

    Raises:
        UserError: the folder holds something else, or the method is of another kind. Both are said
            before anything is trained.
    """
    check_target(folder)
    selector = selector_of(run, graph, name)
    selector.card = replace(selector.card, license=license)
    selector.save_pretrained(folder)
    measured = ", ".join(f"{metric} {value:.1f}" for metric, value in selector.card.metrics.items())
    measured = measured or "not evaluated: `ceil-jax compare` with the same flags measures it"
    return (
        f"{folder}: {selector.card.title}, {len(selector):,} examples; {measured}\n"
        f'in Python: CeilSelector.from_pretrained({str(folder)!r}).select("a query", '
        f"k={graph.config.shots})"
    )


def selector_of(run: Run, graph: Graph, name: str = "ceil") -> CeilSelector:
    """Return a row of METHODS that ends in DPP-MAP, or takes the nearest, trained if need be, as a
    selector.

    Raises:
        UserError: any other method, or --text skill.
    """
    method, task, config = method_named(name), graph.task, graph.config
    if not method.exports:
        known = ", ".join(n for n, m in METHODS.items() if m.exports)
        raise UserError(
            f"{name} neither ends in DPP-MAP nor takes the nearest; a selector is made of one of "
            f"{known}"
        )
    if config.text != "input":
        raise UserError(
            "a selector embeds inputs as they are, not skills: train with --text input for it"
        )
    chosen, source = graph.chosen(name), method.encoder or "base"
    used = graph.encoders(source)
    encoders = run.get(used)
    lasting = _lasting(run, graph, source)
    return CeilSelector.from_examples(
        task.train,
        encoder=encoders.context,
        query_encoder=encoders.query,
        vectors=run.get(Encoded(used, graph.bank_texts(method.encoder), "context")),
        trade_off=run.value(chosen.trade_off) if method.needs.ends_in_map else NEAREST,
        near_duplicate=None,  # what was evaluated passes over nothing
        shortlist=config.shortlist,
        template=of_plain_queries(task),
        context=config.context if method.trains else "input",
        count_tokens=lambda texts: run.lm(graph.lm).count_tokens(texts),
        card=Card(
            title=f"{method.label} on {task.name}",
            training_data=_training_data(run, graph, lasting),
            language_model=config.lm if any(TRAININGS[n].lm_tokens for n in lasting) else "",
            metrics=_measured(run, graph, name),
        ),
    )


def of_plain_queries(task: Task) -> Template:
    """Return the task's template; a field in it that is every example's input stands for a plain
    query too."""
    template, rows = task.template, task.train
    if template.input in template.names:
        return template
    same = (n for n in template.names[:-1] if all(row.fields.get(n) == row.input for row in rows))
    return replace(template, input=next(same, template.input))


def _measured(run: Run, graph: Graph, name: str) -> dict[str, float]:
    """The metrics, in percent, of a method that has been evaluated; none if it has not."""
    if not any(run.root.glob("metric-*/done.json")):
        return {}  # so that an encoder that needs no training needs no LM either
    stage = graph.metric(name)
    if not run.summary(stage):
        return {}
    found = run.get(stage)
    values = {graph.task.metric: found.value, **found.more}
    settings = (
        f"percent of {len(graph.queries):,} held-out queries, {graph.config.shots} "
        f"examples, {graph.lm.key}"
    )
    return {f"{metric} ({settings})": 100 * value for metric, value in values.items()}


def _lasting(run: Run, graph: Graph, source: str) -> list[str]:
    """The trainings whose outcome is in the encoders of `source`, first ones first: not one that
    kept the encoder it started from, nor a free method that took the untrained one."""
    names: list[str] = []
    while source != "base":
        outcome = run.summary(graph.encoders(source)) or {}
        kept_start = (outcome.get("ending") or {}).get("kept") == "start"
        if not kept_start and outcome.get("taken") != "cosine":
            names.insert(0, source)
        source = graph.start(source)
    return names


def _training_data(run: Run, graph: Graph, names: Sequence[str]) -> str:
    """A line for the model card on some trainings."""
    steps = []
    for name in names:
        settings, training = graph.settings(name), TRAININGS[name]
        outcome = run.summary(graph.encoders(name)) or {}
        if "taken" in outcome:
            title = TRAININGS[outcome["taken"]].title
            steps.append(f"{title}: the outputs of {outcome['bank']:,} examples")
            continue
        count = min(getattr(settings, "instances", len(graph.bank)), len(graph.bank))
        learnt = f"{getattr(settings, 'candidates', 'all')} examples"
        if training.sets:
            learnt = f"{settings.subsets} sets of {settings.size}"
        by = "" if training.lm_tokens else " by their outputs"
        steps.append(f"{training.title}: {count} queries × {learnt}{by}")
    if not steps:
        return "none: the untrained encoder"
    return f"from {graph.config.encoder} on {graph.task.name}; {'; then '.join(steps)}"
