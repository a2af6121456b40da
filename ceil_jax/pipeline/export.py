"""The export of a row of a run for applications, as a selector or as a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import examples_text
from ceil_jax.methods.base import Learnt, Method
from ceil_jax.methods.registry import ROWS
from ceil_jax.methods.row import Row
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.heads import head_encoder
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.selector import Card, CeilSelector, classifier
from ceil_jax.selector.classifier import LabelClassifier
from ceil_jax.selector.folder import MANIFEST
from ceil_jax.selector.saved import check_target
from ceil_jax.store.locking import write
from ceil_jax.tasks.example import Task, Template

PROMPT = "prompt.txt"
"""The name of the file with the text of a fixed prompt."""


def export_row(run: Run, setup: Setup, row: Row, folder: Path, license: str = "") -> str:
    """Save the trained method of a row as a selector or a classifier, and return a message.

    See `selector_of` and `classifier_of`. The message is for the user.

    Args:
        run: computes the stages that are not on disk.
        setup: the task and its settings.
        row: the row.
        folder: the folder to write; what it holds of that kind is replaced.
        license: the license of the examples as an SPDX name, for the card.

    Raises:
        UserError: the folder holds other files, or the row can be neither. Both are checked before
            anything is trained.
    """
    if row.answers == "classifier":
        check_target(folder, classifier.MANIFEST)
        made = classifier_of(run, setup, row)
        made.save_pretrained(folder)
        return (
            f"{folder}: {row.label} on {setup.task.name}, {len(made.classes)} labels from "
            f"{len(setup.bank):,} examples; {_measured(_metrics(run, setup, row))}\n"
            f"in Python: LabelClassifier.from_pretrained({str(folder)!r}).predict(['a text']).labels"
        )
    check_target(folder, MANIFEST)
    selector = selector_of(run, setup, row)
    selector.card = replace(selector.card, license=license)
    save(selector, folder)
    limited = ""
    if len(selector) == setup.config.bank_limit:
        limited = f" (--bank-limit {len(selector)}; selector.add(rows) adds further ones)"
    return (
        f"{folder}: {selector.card.title}, {len(selector):,} examples{limited}; "
        f"{_measured(selector.card.metrics)}\n"
        f'in Python: CeilSelector.from_pretrained({str(folder)!r}).select("a query")'
        f".{'messages' if setup.prompt.form == 'turns' else 'prompt'}"
    )


def _measured(metrics: Mapping[str, float]) -> str:
    """The metrics of a row in words."""
    values = ", ".join(f"{metric} {value:.1f}" for metric, value in metrics.items())
    return values or "not evaluated: `ceil-jax compare` with the same flags measures it"


def classifier_of(run: Run, setup: Setup, row: Row) -> LabelClassifier:
    """Return the classifier of a row that answers with one. Missing parts are trained.

    Raises:
        UserError: the task's outputs are not labels, or --text is skill.
    """
    row_stages.check_applies(setup, row)
    _check_text(setup)
    head = StepsOf(setup).learnt(row.method).head
    assert head is not None, "a classifier is a head"
    encoder = head_encoder(run, head)
    assert encoder is not None, "a row that classifies has a head without an alternative"
    return LabelClassifier(encoder, setup.task.input_key)


def _check_text(setup: Setup) -> None:
    if setup.config.text != "input":
        raise UserError(
            "a selector embeds inputs as they are, not skills: train with --text input for it"
        )


def save(selector: CeilSelector, folder: Path) -> None:
    """Write a selector into a folder.

    If it has fixed examples, also write `prompt.txt`: the text that all prompts share, with a
    placeholder for the query.
    """
    selector.save_pretrained(folder)
    if not selector.fixed:
        (folder / PROMPT).unlink(missing_ok=True)
        return
    by_id = {example.id: example for example in selector.examples}
    layout = selector.layout
    beginning = layout.opening + examples_text(
        layout.template, [by_id[id] for id in selector.fixed]
    )
    write(folder / PROMPT, f"{beginning}{layout.template.open_query()}\n".encode())


def selector_of(run: Run, setup: Setup, row: Row) -> CeilSelector:
    """Return a row as a selector. Missing parts are trained.

    The row chooses by DPP-MAP, takes the nearest examples or has fixed ones.

    Raises:
        UserError: the row chooses in another way, or --text is skill.
    """
    task = setup.task
    config = setup.config
    if not row.exports:
        exportable = ", ".join(name for name, registered in ROWS.items() if registered.exports)
        raise UserError(
            f"{row.name} neither ends in DPP-MAP nor takes the nearest or fixed examples; a selector "
            f"is made of one of {exportable}"
        )
    _check_text(setup)
    choice = row_stages.choice(setup, row)
    trade_off = run.value(choice.trade_off) if row.needs.ends_in_map else None
    steps = StepsOf(setup)
    learnt = steps.learnt(row.method)
    encoder, query_encoder = encoders_of(run, learnt)
    used = [
        method
        for method in reversed(row.method.chain)
        if method.is_used(run.notes(steps.learnt(method).training))
    ]
    return CeilSelector.from_examples(
        task.train,
        encoder=encoder,
        query_encoder=query_encoder,
        vectors=run.get(steps.bank_vectors(learnt)),
        trade_off=trade_off,
        origin=0.0,  # what was evaluated took cosines as they are, and passed over nothing
        min_relevance=config.min_relevance,
        shortlist=config.shortlist,
        fixed=_fixed_ids(run, setup, row, learnt),
        input_key=task.input_key,
        output_key=task.output_key,
        template=of_plain_queries(task),
        system=setup.system,
        system_role=setup.prompt.system_role,
        order=config.order,
        k=config.shots,
        context=learnt.context,
        count_tokens=lambda texts: run.lm(setup.lm).count_tokens(texts),
        card=Card(
            title=f"{row.label} on {task.name}",
            training_data=_training_data(run, setup, used),
            language_model=config.lm if any(method.scored_by_lm for method in used) else "",
            metrics=_metrics(run, setup, row),
            k=config.shots,
            form=setup.prompt.form,
        ),
    )


def _fixed_ids(run: Run, setup: Setup, row: Row, learnt: Learnt) -> list[str]:
    """The ids of the examples that a row has in every prompt, in prompt order."""
    if row.needs.fixed == "none" or learnt.fixed is None:
        return []
    positions = run.get(learnt.fixed)
    return [setup.task.train[position].id for position in positions[::-1]]


def encoders_of(run: Run, learnt: Learnt) -> tuple[Any, Any]:
    """Return a method's encoder of the bank and its encoder of queries.

    A head with its encoders serves as both.
    """
    networks = run.get(learnt.networks)
    if learnt.head is not None and run.get(learnt.head) is not None:
        encoder = head_encoder(run, learnt.head)
        assert encoder is not None
        untrained = networks.query is encoder.base and networks.bank is encoder.base
        if not untrained:
            encoder = replace(encoder, networks=networks)
        return encoder, encoder
    return networks.bank, networks.query


def of_plain_queries(task: Task) -> Template:
    """Return the task's template for queries that are plain texts.

    If the template does not name the input, a field that equals the input in every example takes
    its place.
    """
    template = task.template
    if template.input in template.names:
        return template
    same = (
        name
        for name in template.names[:-1]
        if all(example.fields.get(name) == example.input for example in task.train)
    )
    return replace(template, input=next(same, template.input))


def _metrics(run: Run, setup: Setup, row: Row) -> dict[str, float]:
    """The metrics of a row in percent; empty if the row has not been evaluated."""
    if not any(run.root.glob("metric-*/done.json")):
        return {}  # an encoder that needs no training then needs no LM either
    stage = row_stages.metric(setup, row)
    if not run.notes(stage):
        return {}
    measured = run.get(stage)
    values = {setup.task.metric: measured.value, **measured.more}
    settings = (
        f"percent of {len(setup.queries):,} held-out queries, {setup.config.shots} "
        f"examples, {setup.lm.key}"
    )
    return {f"{metric} ({settings})": 100 * value for metric, value in values.items()}


def _training_data(run: Run, setup: Setup, used: Sequence[Method]) -> str:
    """Return a line for the model card on the data that the row's methods were trained on."""
    steps = StepsOf(setup)
    lines = [
        method.training_data(len(setup.bank), run.notes(steps.learnt(method).training))
        for method in used
    ]
    if not lines:
        return "none: the untrained encoder"
    return f"from {setup.config.encoder} on {setup.task.name}; {'; then '.join(lines)}"
