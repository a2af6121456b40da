"""The stages of a row: its metric, its answers and its examples.

Every function only puts values together; `stage.Run.get` computes them. They stand in the order of
the picture in docs/architecture.md, which goes on in `method_stages` with what a method learns, and
with vectors and texts. A row is one that `Setup.row` returned, whose method has the configuration's
settings.
"""

from __future__ import annotations

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.methods.fixed import FixedPrompt
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
from ceil_jax.pipeline.method_stages import (
    bank_texts,
    bank_vectors,
    encoders,
    fixed_examples,
    head_inputs_like,
    output_vectors,
    query_vectors,
    skill_vectors,
    skills,
    texts,
    trade_off_of_row,
)
from ceil_jax.pipeline.rewriting import Skills
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.views import inputs
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.kept import Lazy
from ceil_jax.tasks.bank import Examples


def metric(setup: Setup, row: Row) -> Metrics:
    """Return the stage of the task's metrics of a row's answers to the task's queries."""
    task = setup.task
    return measure(predictions(setup, row), task.metric, tuple(task.more_metrics))


def predictions(setup: Setup, row: Row, queries: Examples | None = None) -> Answers:
    """Return the stage of the answers to queries; by default to the task's.

    Raises:
        UserError: the row's method cannot learn on the task.
    """
    queries = setup.queries if queries is None else queries
    if row.answers == "majority":
        return most_common(queries, setup.bank)
    if row.answers == "classifier":
        check_applies(setup, row)
        head = encoders(setup, row.method).head
        assert head is not None, "a classifier is a head"
        rows = head_inputs_like(head, texts(setup, queries), outputs=False)
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
    """Return the stage that chooses a row's examples for queries; by default for those of the task.

    Raises:
        UserError: the row's method cannot learn on the task, or skills without demonstrations.
    """
    check_applies(setup, row)
    config = setup.config
    needs = row.needs
    queries = setup.queries if queries is None else queries
    bank_view = inputs(setup.bank)
    query_view = inputs(queries)
    if needs.text:
        bank_view = bank_texts(setup, row.method)
        query_view = texts(setup, queries)
    bank_side: Lazy[np.ndarray] | None = None
    query_side: Lazy[np.ndarray] | None = None
    orders: list[int] = []
    if needs.skills == "all":
        orders = list(range(config.skills.orders))
    elif needs.skills == "one":
        orders = [config.seed % config.skills.orders]
    if needs.vectors == "inputs":
        bank_side = bank_vectors(setup, row.method)
        query_side = query_vectors(setup, row.method, queries)
    elif needs.vectors == "outputs":
        bank_side = output_vectors(setup, setup.bank)
        query_side = output_vectors(setup, queries)
    elif needs.vectors == "skills":
        bank_side = skill_vectors(setup, setup.bank, orders)
        query_side = skill_vectors(setup, queries, orders)
    networks = encoders(setup, row.method).networks if needs.encoder else None
    trade_off = trade_off_of_row(setup, row)
    rewritten: tuple[tuple[Skills, ...], ...] = ()
    if orders and needs.vectors != "skills":
        rewritten = (skills(setup, setup.bank, orders), skills(setup, queries, orders))
    fixed: Lazy[np.ndarray] | None = None
    if needs.fixed != "none":
        assert isinstance(row.method, FixedPrompt), "declared in Needs"
        fixed = fixed_examples(setup, row.method)
    return choose(
        row.retriever,
        bank=bank_view,
        queries=query_view,
        k=config.shots,
        bank_vectors=bank_side,
        query_vectors=query_side,
        encoders=networks,
        trade_off=trade_off,
        shortlist=config.shortlist if needs.shortlist else None,
        seed=config.seed if needs.seeded else config.data_seed,
        skills=rewritten,
        language=setup.task.language if needs.sketch else "",
        min_relevance=config.min_relevance if needs.vectors == "inputs" else None,
        fixed=fixed,
    )


def check_applies(setup: Setup, row: Row) -> None:
    """Raise a UserError if a row's method, or one that it starts from, cannot learn on the task."""
    if not row.encodes or setup.trained_by is not None:
        return
    for method in row.method.chain:
        if why := method.refusal(setup.task):
            raise UserError(f"--method {row.name}: {why}")
