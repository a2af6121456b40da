"""The steps that choose examples for each query, and that draw candidate sets for training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.errors import UserError
from ceil_jax.pipeline.prompting import Prompting
from ceil_jax.pipeline.rewriting import Skills
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.scoring import LOG_DET_SHARE
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.retriever import (
    Choice,
    Queries,
    RetrieverArguments,
    RetrieverKind,
    check_needs,
    checked_choice,
)
from ceil_jax.skills.sketches import PARTS
from ceil_jax.store.kept import Noted, arrays, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.samplers import Sampler, SamplerInputs
from ceil_jax.training.trade_offs import log_det_share, map_sets

SETS = arrays("sets.npz", CandidateSets)


@kept(
    "choose",
    files=arrays("choice.npz", Choice),
    what=lambda choice: f"choosing examples ({choice.retriever.name})",
    lazily=("skills",),
)
def choose(
    run: Run,
    retriever: RetrieverKind,
    bank: Sequence[Example],
    queries: Sequence[Example],
    k: int,
    bank_vectors: np.ndarray | None = None,
    query_vectors: np.ndarray | None = None,
    encoders: EncoderPair | None = None,
    trade_off: float | None = None,
    shortlist: int | None = None,
    seed: int | None = None,
    skills: tuple[tuple[Skills, ...], ...] = (),
    language: str = "",
    min_relevance: float | None = None,
    fixed: np.ndarray | None = None,
) -> Choice | Noted:
    """Return the examples that a retriever chooses for each query, in order of choice.

    A retriever does not read what it does not need, so that any value may stand there.

    Args:
        run: gives the skills.
        retriever: chooses.
        bank: the bank's retrieval texts.
        queries: the queries' retrieval texts.
        k: the most examples of a query.
        bank_vectors: the bank's vectors, for a retriever that compares vectors.
        query_vectors: the queries' vectors.
        encoders: for a retriever that embeds texts itself.
        trade_off: λ.
        shortlist: n, the number of nearest examples among which it chooses.
        seed: of random examples, and of the choice between equal ones.
        skills: for a retriever that reads skills: those of the bank and those of the queries, one
            for each order of the demonstrations.
        language: the language of the task's programs, which have sketches.
        min_relevance: the lowest relevance of a chosen example.
        fixed: for a retriever with fixed examples: their bank positions.
    """
    sketch = PARTS.get(language)
    check_needs(
        retriever,
        # `row_stages.choice` gives encoders and skills to every retriever that needs them
        encoder=True,
        rewrite=True,
        sketch=sketch is not None,
        trade_off=trade_off,
        fixed=fixed is not None,
    )
    skills_of = _skills_of_questions(run, skills)
    made = retriever.retriever(
        RetrieverArguments(
            bank,
            vectors=bank_vectors,
            encoder=encoders,
            trade_off=0.0 if trade_off is None else trade_off,
            shortlist=shortlist or 1,
            min_relevance=min_relevance,
            fixed=() if fixed is None else fixed.tolist(),
            seed=seed or 0,
            rewrite=lambda some: [skills_of[_question(example)] for example in some],
            sketch=sketch,
        )
    )
    # own rows by id, because the texts may be skills, which many examples share
    asked = Queries(queries, OwnRows(bank, "id")(queries), query_vectors)
    choice = checked_choice(retriever, made.choose(asked, k), asked, len(bank), k)
    as_kept = Choice(
        choice.positions.astype(np.int32),
        choice.relevance.astype(np.float64),
        choice.gains.astype(np.float64),
    )
    return Noted(as_kept, {} if trade_off is None else {"trade_off": trade_off})


def _skills_of_questions(
    run: Run, skills: Sequence[Sequence[Skills]]
) -> dict[tuple[str, str], list[str]]:
    """Return the skills of every question of the bank and of the queries.

    There is one for each order of the demonstrations.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for orders in skills:
        skills_by_order = [run.get(order) for order in orders]
        for number, example in enumerate(orders[0].rows.examples):
            found[_question(example)] = [of_order[number] for of_order in skills_by_order]
    return found


def _question(example: Example) -> tuple[str, str]:
    """The part of an example that its skill depends on.

    Its input, and the schema of its database if the task has one.
    """
    return example.input, example.fields.get("schema", "")


@kept("sets", files=SETS, what="drawing candidate sets")
def draw_sets(
    sampler: Sampler,
    queries: Sequence[Example],
    bank: Sequence[Example],
    seed: int,
    nearest: Choice | None = None,
    query_vectors: np.ndarray | None = None,
    bank_vectors: np.ndarray | None = None,
    trade_off: float | None = None,
) -> CandidateSets:
    """Return the candidate sets of training queries.

    Args:
        sampler: draws the sets.
        queries: the training queries' texts.
        bank: the bank's texts.
        seed: of the draws.
        nearest: the shortlist of each query, for a sampler that needs one.
        query_vectors: the queries' vectors, for a sampler that needs vectors.
        bank_vectors: the bank's vectors.
        trade_off: λ, for a sampler that needs it.

    Raises:
        UserError: a set has its own query, whose answer would be in the prompt.
    """
    shortlist = np.empty((len(queries), 0), np.int32)
    relevance = np.empty((len(queries), 0), np.float32)
    if nearest is not None:
        shortlist = nearest.positions
        relevance = nearest.relevance.astype(np.float32)
    inputs = SamplerInputs(
        queries, bank, seed, shortlist, relevance, query_vectors, bank_vectors, trade_off
    )
    sets = sampler.draw(inputs)
    own_rows = OwnRows(bank, "id")(queries)
    for query, shortlist, subsets, own in zip(queries, *sets, own_rows, strict=True):
        if np.isin(shortlist[subsets[subsets >= 0]], own).any():
            raise UserError(
                f"{type(sampler).__name__}: a candidate set of training query {query.id!r} has the "
                "query itself, so that the LM would read its answer; leave it out"
            )
    return CandidateSets(sets.shortlist, np.ascontiguousarray(sets.subsets))


@kept("mapsets", files=SETS, version=2, what="MAP sets of each λ")
def sets_of_each_trade_off(
    run: Run,
    nearest: Choice,
    query_vectors: np.ndarray,
    bank_vectors: np.ndarray,
    size: int,
    prompting: Prompting,
    queries: Examples,
    examples: Examples,
) -> CandidateSets | Noted:
    """Return the MAP sets of training queries, one for each λ of the grid.

    They are cut to the prompt's token budget.
    """
    shortlist = nearest.positions
    builder = prompting.builder(run, queries.examples)
    remaining = np.array([builder.remaining(query) for query in queries.examples])
    costs = builder.costs(examples.examples, shortlist)
    sets = map_sets(query_vectors, bank_vectors, shortlist, size, prompting.fit, costs, remaining)
    share = log_det_share(query_vectors, bank_vectors, shortlist, size)
    as_kept = CandidateSets(sets.shortlist, np.ascontiguousarray(sets.subsets))
    return Noted(as_kept, {LOG_DET_SHARE: share})
