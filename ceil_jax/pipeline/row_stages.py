"""The stages of a row, from choosing examples to measuring the answers, as lazy values.

`run.Run.get` computes them.

`choice` has the row's method learn (`steps.StepsOf.learnt`), and gives the retriever what it needs of
that. A row is one that `Setup.row` returned, whose method has the configuration's settings.
"""

from __future__ import annotations

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.methods.base import Learnt
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.answering import (
    Answers,
    Metrics,
    answer,
    classify,
    copy,
    measure,
    most_common,
)
from ceil_jax.pipeline.choosing import choose
from ceil_jax.pipeline.heads import head_rows_like
from ceil_jax.pipeline.rewriting import Skills
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.pipeline.views import inputs
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.kept import Lazy
from ceil_jax.tasks.bank import Examples


def metric(setup: Setup, row: Row) -> Metrics:
    """Return the stage that measures a row's answers to the task's queries by the task's metrics."""
    task = setup.task
    return measure(predictions(setup, row), task.metric, tuple(task.more_metrics))


def predictions(setup: Setup, row: Row, queries: Examples | None = None) -> Answers:
    """Return the stage that answers queries, by default those of the task.

    Raises:
        UserError: the row's method cannot learn on the task.
    """
    queries = setup.queries if queries is None else queries
    if row.answers == "majority":
        return most_common(queries, setup.bank)
    if row.answers == "classifier":
        check_applies(setup, row)
        steps = StepsOf(setup)
        head = steps.learnt(row.method).head
        assert head is not None, "a classifier is a head"
        rows = head_rows_like(head, steps.texts(queries), outputs=False)
        return classify(queries, setup.bank, head, rows)
    examples = choice(setup, row, queries)
    if row.answers == "copied":
        return copy(queries, setup.bank, examples.changed(k=1))
    return answer(
        queries,
        setup.bank,
        setup.answering,
        examples,
        stop=tuple(setup.task.stop),
        shots=setup.config.shots if row.chooses else 0,
        label=row.label,
    )


def choice(setup: Setup, row: Row, queries: Examples | None = None) -> Lazy[Choice]:
    """Return the stage that chooses a row's examples for queries, by default for those of the task.

    Raises:
        UserError: the row's method cannot learn on the task, or skills without demonstrations.
    """
    check_applies(setup, row)
    config = setup.config
    needs = row.needs
    steps = StepsOf(setup)
    queries = setup.queries if queries is None else queries
    # a retriever that compares no vectors needs no encoder, which is not even loaded then
    learnt = steps.learnt(row.method) if row.encodes else None
    bank_view = inputs(setup.bank)
    query_view = inputs(queries)
    if needs.text:
        bank_view = steps.texts(setup.bank) if learnt is None else steps.bank_texts(learnt)
        query_view = steps.texts(queries)
    bank_side: Lazy[np.ndarray] | None = None
    query_side: Lazy[np.ndarray] | None = None
    orders: list[int] = []
    if needs.skills == "all":
        orders = list(range(config.skills.orders))
    elif needs.skills == "one":
        orders = [config.seed % config.skills.orders]
    if needs.vectors == "inputs":
        assert learnt is not None, "it encodes"
        bank_side = steps.bank_vectors(learnt)
        query_side = steps.query_vectors(learnt, queries)
    elif needs.vectors == "outputs":
        bank_side = steps.output_vectors(setup.bank)
        query_side = steps.output_vectors(queries)
    elif needs.vectors == "skills":
        bank_side = steps.skill_vectors(setup.bank, orders)
        query_side = steps.skill_vectors(queries, orders)
    rewritten: tuple[tuple[Skills, ...], ...] = ()
    if orders and needs.vectors != "skills":
        rewritten = (steps.skills(setup.bank, orders), steps.skills(queries, orders))
    return choose(
        row.retriever,
        bank=bank_view,
        queries=query_view,
        k=config.shots,
        bank_vectors=bank_side,
        query_vectors=query_side,
        encoders=learnt.networks if learnt is not None and needs.encoder else None,
        trade_off=_trade_off(steps, row, learnt),
        shortlist=config.shortlist if needs.shortlist else None,
        seed=config.seed if needs.seeded else config.data_seed,
        skills=rewritten,
        language=setup.task.language if needs.sketch else "",
        min_relevance=config.min_relevance if needs.vectors == "inputs" else None,
        fixed=learnt.fixed if learnt is not None and needs.fixed != "none" else None,
    )


def _trade_off(steps: StepsOf, row: Row, learnt: Learnt | None) -> float | Lazy[float] | None:
    """Return λ of a row, or its stage if it is tuned; None for a retriever without λ.

    It is the retriever's own; or that of the training, if sets were learnt; or the configured one.
    """
    if row.needs.trade_off != "tunable":
        return row.needs.trade_off
    if learnt is not None and learnt.trade_off is not None:
        return learnt.trade_off
    shared = steps.for_all_seeds
    return shared.trade_off(steps.setup.config.trade_off, shared.learnt(row.method))


def check_applies(setup: Setup, row: Row) -> None:
    """Raise a UserError if a row's method, or one that it starts from, cannot learn on the task."""
    if not row.encodes or setup.trained_by is not None:
        return
    for method in row.method.chain:
        if why := method.refusal(setup.task):
            raise UserError(f"--method {row.name}: {why}")
