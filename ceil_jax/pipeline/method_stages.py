"""The stages of a method: its encoders and how they are trained, the vectors that they give, its
fixed examples, and λ.

They build on each other: a training needs candidate sets, which the encoders of its start find, by
the vectors that these give. So all stand here, from the encoders down to the texts. Every function
only puts values together; `stage.Run.get` computes them. A method is one that `Setup.row` or
`RunConfig.method` returned, with the configuration's settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.errors import UserError
from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, Method
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.row import Row
from ceil_jax.pipeline import vectors as of_texts
from ceil_jax.pipeline.choosing import choose, draw_sets, sets_of_each_trade_off
from ceil_jax.pipeline.fixed_examples import best_set
from ceil_jax.pipeline.learning import (
    HeadValue,
    blocks_in_training,
    cross_fit,
    train_encoders,
    train_head,
)
from ceil_jax.pipeline.rewriting import Skills, rewritten, skill_texts, skills_of
from ceil_jax.pipeline.scoring import lm_scores, output_scores, scored_sets, tuned
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.views import (
    Texts,
    inputs,
    outputs,
    parts,
    source,
    with_outputs,
)
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.retrieval.retrievers import NEAREST
from ceil_jax.store.kept import Lazy
from ceil_jax.tasks.bank import BankQueries, Examples
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.free.rows import Observations
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.samplers import Sampler
from ceil_jax.training.trade_offs import TRADE_OFFS, TUNING_QUERIES

_QUERY_ORDER = 3
"""Beside the seed, of the order in which queries are taken from the bank."""

# encoders


class EncoderStages(NamedTuple):
    """The stages of a method's encoders."""

    networks: Lazy[EncoderPair]
    """The networks, whose vectors give cosines."""
    head: HeadValue | None = None
    """The head, whose blocks stand beside the networks' vectors; None without a head."""


def encoders(setup: Setup, method: Method) -> EncoderStages:
    """Return the stages of a method's encoders."""
    if method.encoders_of != method:
        return encoders(setup, method.encoders_of)
    if setup.trained_by is not None and method.learns:
        return encoders(setup.trained_by, method)
    match method:
        case LearnsFromOutputs():
            untrained = untrained_encoder(setup)
            return untrained._replace(head=trained_head(setup, method))
        case LearnsFromScores():
            networks = trained_encoders(setup, method)
            return EncoderStages(networks, encoders(setup, method.start).head)
        case _:
            return untrained_encoder(setup)


def untrained_encoder(setup: Setup) -> EncoderStages:
    """Return the stage of the encoder as it was loaded."""
    return EncoderStages(of_texts.untrained_encoder(setup.untrained_encoder))


def learning_stage(setup: Setup, method: Method) -> Lazy[Any] | None:
    """Return the stage in which a method itself learns: its head, its trained networks or its fixed
    examples. None if it learns nothing."""
    match method:
        case FixedPrompt():
            return fixed_examples(setup, method)
        case LearnsFromOutputs():
            return encoders(setup, method).head
        case LearnsFromScores():
            return encoders(setup, method).networks
        case _:
            return None


# learning from the bank's outputs


def trained_head(setup: Setup, method: LearnsFromOutputs) -> HeadValue:
    """Return the training stage of a method that learns from the bank's outputs."""
    bank = setup.bank
    networks = untrained_encoder(setup).networks
    inputs = head_inputs(
        networks,
        texts(setup, bank),
        pairs=bank.pairs,
        parser=bank.parser,
        outputs=True,
    )
    return train_head(method, inputs)


# learning from scores


def trained_encoders(setup: Setup, method: LearnsFromScores) -> Lazy[EncoderPair]:
    """Return the training stage of a method that learns from scores.

    Raises:
        UserError: settings contradict each other, or the encoder cannot be trained. Both are checked
            before the LM scores anything.
    """
    setup.untrained_encoder.check_trainable()
    method.check()
    start = encoders(setup, method.start)
    queries = training_queries(setup, method)
    query_view = texts(setup, queries)
    # what the trained encoders will read of the bank; the start may read less (`--context`)
    bank_view = bank_texts(setup, method)
    fixed = None
    if start.head is not None:
        fixed = blocks_in_training(
            start.head,
            queries=query_blocks(start.head, query_view, queries),
            bank=bank_blocks(start.head, bank_view),
        )
    start_vectors = None
    if method.reads_bank_vectors:
        start_vectors = bank_vectors(setup, method.start, bank_view)
    return train_encoders(
        method,
        scored=scored_candidates(setup, method),
        queries=query_view,
        bank=bank_view,
        start=start.networks,
        seed=setup.config.seed,
        fixed=fixed,
        trade_off=trade_off_of_training(setup, method),
        bank_vectors=start_vectors,
        learnt=learnt_by_start(setup, method),
    )


def scored_candidates(setup: Setup, method: LearnsFromScores) -> Lazy[ScoredSets]:
    """Return the stage of the candidate sets and scores that a method is trained on, the same for all
    seeds."""
    setup = setup.for_all_seeds
    queries = training_queries(setup, method)
    sampler = method.candidate_sampler(len(setup.bank))
    sets = candidate_sets(setup, method, sampler, queries)
    if method.scores == "outputs":
        by_outputs = output_scores(
            queries=output_vectors(setup, queries),
            bank=output_vectors(setup, setup.bank),
            sets=sets,
        )
        return scored_sets(sets, by_outputs)
    what = "candidate sets" if sampler.size > 1 else "candidates"
    by_lm = lm_scores(
        setup.prompting,
        queries,
        setup.bank,
        sets,
        shape=(sampler.sets, sampler.size),
        label=f"{method.title}'s {what}",
    )
    return scored_sets(sets, by_lm)


def candidate_sets(
    setup: Setup, method: LearnsFromScores, sampler: Sampler, queries: BankQueries
) -> Lazy[CandidateSets]:
    """Return the stage of the candidate sets of training queries, drawn with the encoders of the
    method's start.

    Args:
        setup: the task and its settings.
        method: the method that learns from the sets.
        sampler: draws the sets.
        queries: the training queries.
    """
    start = method.start
    # a need that the sampler does not read would be computed for nothing, and change the key
    near = None
    query_side = None
    bank_side = None
    trade_off = None
    if sampler.shortlist:
        near = nearest(setup, start, queries, sampler.shortlist)
    if sampler.needs_vectors:
        query_side = query_vectors(setup, start, queries)
        bank_side = bank_vectors(setup, start)
    if sampler.needs_trade_off:
        trade_off = trade_off_of_training(setup, method)
    return draw_sets(
        sampler,
        queries=texts(setup, queries),
        bank=bank_texts(setup, start),
        seed=setup.config.data_seed,
        nearest=near,
        query_vectors=query_side,
        bank_vectors=bank_side,
        trade_off=trade_off,
    )


# fixed examples


def fixed_examples(setup: Setup, method: FixedPrompt) -> Lazy[np.ndarray]:
    """Return the stage of the examples that a method puts into every prompt, the same for all
    seeds.

    Raises:
        UserError: there are more fixed examples than the bank has beside the rows that score them.
    """
    setup = setup.for_all_seeds
    size = method.fixed_count(setup.config.shots)
    rounds = method.rounds(len(setup.bank))
    others = len(setup.bank) - sum(rounds)
    if size > others:
        raise UserError(
            f"--shots: {size} fixed examples are drawn from the {others} examples of the bank on "
            "which they are not scored; ask for fewer, or give more rows"
        )
    firsts = accumulate(rounds, initial=0)
    return best_set(
        setup.answering,
        stop=tuple(setup.task.stop),
        metric=setup.task.metric,
        bank=setup.bank,
        rounds=tuple(
            bank_queries(setup, rows, after=first)
            for rows, first in zip(rounds, firsts, strict=False)
        ),
        sets=method.sets,
        size=size,
        seed=setup.config.data_seed,
    )


# λ


def trade_off_of_row(setup: Setup, row: Row) -> float | Lazy[float] | None:
    """Return λ of a row, or its stage if it is tuned: the retriever's own; or that of the training,
    if its encoders were trained on sets; or the configured one. None for a retriever without λ."""
    if row.needs.trade_off != "tunable":
        return row.needs.trade_off
    if row.method.learns_sets:
        return trade_off_of_training(setup, row.method)
    return given_or_tuned(setup, row.method, setup.config.trade_off)


def trade_off_of_training(setup: Setup, method: Method) -> float | Lazy[float] | None:
    """Return λ of a method's training, or its stage if it is tuned; None for a method that does not
    learn from sets."""
    setup = setup.trained_by or setup
    if method.kernel_trade_off is None:
        return None
    assert isinstance(method, LearnsFromScores), "sets are scored"
    return given_or_tuned(setup, method.start, method.kernel_trade_off)


def given_or_tuned(
    setup: Setup, method: Method, value: float | Literal["tuned"]
) -> float | Lazy[float]:
    """Return λ itself, or for "tuned" the stage that tunes it for a method's encoders, once for all
    seeds."""
    if value != "tuned":
        return value
    queries = tuning_queries(setup)
    shots = setup.config.shots
    shared = setup.for_all_seeds
    sets = sets_of_each_trade_off(
        nearest=nearest(shared, method, queries, setup.config.shortlist),
        query_vectors=query_vectors(shared, method, queries),
        bank_vectors=bank_vectors(shared, method),
        size=shots,
        # sets are cut to the token budget of answers, and what is left is scored whole
        prompting=setup.answering,
        queries=queries,
        examples=setup.bank,
    )
    scores = lm_scores(
        setup.prompting,
        queries,
        setup.bank,
        sets,
        shape=(len(TRADE_OFFS), shots),
        label=f"λ of {method.name}",
        # neighbouring values of λ often choose the same set: of five sets, 2.0 to 3.0 were distinct
        # on five tasks
        differing=0.47,
        all_choices=True,
    )
    return tuned(scores, method.name)


# queries of the bank, on which methods are trained and λ is tuned


def training_queries(setup: Setup, method: Method) -> BankQueries:
    """Return the queries of the bank that a method's networks are trained on, together with the
    held-out ones, by which its weights are chosen."""
    return bank_queries(setup, method.training_query_count)


def split_queries(setup: Setup, method: LearnsFromScores) -> tuple[np.ndarray, np.ndarray]:
    """Return the bank positions of the queries that a method is trained on, and of its held-out
    ones."""
    positions = training_queries(setup, method).positions
    by_start = learnt_by_start(setup, method)
    training, held_out = split_held_out(len(positions), setup.config.seed, by_start)
    return positions[training], positions[held_out]


def learnt_by_start(setup: Setup, method: LearnsFromScores) -> np.ndarray | None:
    """Return bool [Q]: which of a method's training queries its start was trained on; None if its
    start was trained on none."""
    if not isinstance(method.start, LearnsFromScores):
        return None
    positions = training_queries(setup, method).positions
    return np.isin(positions, split_queries(setup, method.start)[0])


def bank_queries(setup: Setup, count: int, after: int = 0) -> BankQueries:
    """Return `count` queries of the bank, in a drawn order that is the same for all methods; fewer
    queries are among more.

    Args:
        setup: the task and its settings.
        count: how many queries; fewer where the bank has fewer.
        after: how many queries of that order are left to others.
    """
    generator = np.random.default_rng([setup.config.data_seed, _QUERY_ORDER])
    order = generator.permutation(len(setup.bank))
    return setup.bank.queries(order[after : after + count])


def tuning_queries(setup: Setup) -> BankQueries:
    """Return the queries of the bank on which λ is tuned. Training takes its queries from the
    beginning of the order, tuning from its end."""
    return bank_queries(setup, TUNING_QUERIES, after=max(0, len(setup.bank) - TUNING_QUERIES))


# vectors


def bank_vectors(setup: Setup, method: Method, view: Texts | None = None) -> Lazy[np.ndarray]:
    """Return the stage of the bank's vectors by a method, unit rows.

    Args:
        setup: the task and its settings.
        method: the method whose encoders are used.
        view: the texts to encode; by default those that these encoders read.
    """
    view = bank_texts(setup, method) if view is None else view
    networks, head = encoders(setup, method)
    side: Literal["query", "bank"] = "query" if share_encoder(networks) else "bank"
    vectors = of_texts.text_vectors(networks, view, side)
    if head is None:
        return of_texts.unit_vectors(vectors)
    return of_texts.head_vectors(head, bank_blocks(head, view), vectors)


def query_vectors(setup: Setup, method: Method, queries: Examples) -> Lazy[np.ndarray]:
    """Return the stage of the vectors of queries by a method, unit rows."""
    view = texts(setup, queries)
    networks, head = encoders(setup, method)
    vectors = of_texts.text_vectors(networks, view)
    if head is None:
        return of_texts.unit_vectors(vectors)
    return of_texts.head_vectors(head, query_blocks(head, view, queries), vectors)


def nearest(setup: Setup, method: Method, queries: Examples, n: int) -> Lazy[Choice]:
    """Return the stage of the nearest examples of each query, never the query itself.

    Args:
        setup: the task and its settings.
        method: the method whose vectors are compared.
        queries: the queries, in the bank or not.
        n: number of examples for each query, at most as many as the bank has besides the query.
    """
    return choose(
        NEAREST,
        bank=bank_texts(setup, method),
        queries=texts(setup, queries),
        k=min(n, len(setup.bank) - 1),
        bank_vectors=bank_vectors(setup, method),
        query_vectors=query_vectors(setup, method, queries),
    )


def share_encoder(encoders: Lazy[EncoderPair]) -> bool:
    """Return whether queries and examples share one untrained encoder, so that one stage of vectors
    serves both."""
    return encoders.is_of(of_texts.untrained_encoder) and encoders.encoder.encodes_alike


# a head's blocks and inputs


def bank_blocks(head: HeadValue, view: Texts) -> Lazy[np.ndarray | None]:
    """Return the stage of a head's blocks of the bank's examples, which depend on their outputs."""
    trained_on_them = source(head.rows.view) is source(view)
    inputs = head.rows if trained_on_them else head_inputs_like(head, view, outputs=True)
    return of_texts.head_blocks(head, inputs, "bank")


def query_blocks(head: HeadValue, view: Texts, queries: Examples) -> Lazy[np.ndarray | None]:
    """Return the stage of a head's blocks of queries. If the head was trained on these queries,
    their blocks are cross-fitted, so that none depends on the query's own output."""
    if isinstance(queries, BankQueries) and queries.bank is source(head.rows.view):
        return of_texts.blocks_of_bank_queries(cross_fit(head), queries.positions)
    return of_texts.head_blocks(head, head_inputs_like(head, view, outputs=False), "query")


def head_inputs_like(head: HeadValue, view: Texts, *, outputs: bool) -> Lazy[Observations]:
    """Return the stage of examples as inputs of a head, in the same form as the bank that it was
    trained on."""
    of_bank = head.rows
    return head_inputs(
        of_bank.vectors.encoders,
        view,
        pairs=of_bank.parts is not None,
        parser=of_bank.parser,
        outputs=outputs,
    )


def head_inputs(
    encoders: Lazy[EncoderPair],
    view: Texts,
    *,
    pairs: bool,
    parser: str,
    outputs: bool,
) -> Lazy[Observations]:
    """Return the stage of examples as inputs of a head.

    Args:
        encoders: the untrained encoder.
        view: the examples' texts.
        pairs: whether every input is joined from two texts, which are then also encoded separately.
        parser: the name of the parser for outputs that are programs; "" if they are not.
        outputs: whether the head may see the outputs; false for queries.
    """
    of_parts = of_texts.text_vectors(encoders, parts(view)) if pairs else None
    return of_texts.head_inputs(
        view, of_texts.text_vectors(encoders, view), of_parts, parser, outputs
    )


# vectors of outputs and skills, by the untrained encoder


def output_vectors(setup: Setup, examples: Examples) -> Lazy[np.ndarray]:
    """Return the stage of the vectors of examples' outputs, unit rows."""
    return of_texts.unit_vectors(
        of_texts.text_vectors(untrained_encoder(setup).networks, outputs(examples))
    )


def skill_vectors(setup: Setup, examples: Examples, orders: Iterable[int]) -> Lazy[np.ndarray]:
    """Return the stage of the vectors of the skills of examples, for some orders of the
    demonstrations."""
    views = skills(setup, examples, orders)
    vectors = of_texts.text_vectors(untrained_encoder(setup).networks, skill_texts(views))
    return of_texts.skill_vectors(vectors, len(views))


# retrieval texts


def texts(setup: Setup, examples: Examples) -> Texts:
    """Return the stage of the retrieval texts of examples: their inputs, or with `--text skill` the
    skills that these need."""
    if setup.config.text == "input":
        return inputs(examples)
    [skills_of_order] = skills(setup, examples, [0])
    return rewritten(examples, skills_of_order)


def bank_texts(setup: Setup, method: Method) -> Texts:
    """Return the stage of the bank's texts for the encoders of a method. With `--context example`,
    trained encoders also read the outputs."""
    plain = texts(setup, setup.bank)
    return with_outputs(plain) if bank_context(setup, method) == "example" else plain


def bank_context(setup: Setup, method: Method) -> Literal["input", "example"]:
    """Return the part of a bank example that a method's encoders read: what --context says for
    trained networks, else the input."""
    return setup.config.context if method.trains_networks else "input"


def skills(setup: Setup, examples: Examples, orders: Iterable[int]) -> tuple[Skills, ...]:
    """Return the stages of the skills of examples, one for each of some orders of the
    demonstrations.

    Raises:
        UserError: the task has no demonstrations of its own and none are given.
    """
    config = setup.config
    return tuple(
        skills_of(
            examples,
            setup.skill_lm,
            setup.demonstrations,
            orders=config.skills.orders,
            order=order,
            seed=config.data_seed,
        )
        for order in orders
    )
