"""The stages of a method: how its encoders are trained, the vectors that they give, and λ.

They build on each other: a training needs candidate sets, which the encoders of its start find.
Every function only puts values together; `stage.Run.get` computes them. A method is one that
`Setup.row` or `RunConfig.method` returned, with the configuration's settings.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, Method
from ceil_jax.methods.fixed import WithFixedExamples
from ceil_jax.pipeline.bank_queries import bank_queries, tuning_queries
from ceil_jax.pipeline.choosing import Choose, MapSets, Sets
from ceil_jax.pipeline.encoders import BlocksInTraining, TrainedEncoders, TrainedHead
from ceil_jax.pipeline.scoring import OutputScores, ScoredCandidates, Scores, TradeOff
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.shared_sets import fixed_examples
from ceil_jax.pipeline.stage import Stage
from ceil_jax.pipeline.vector_stages import (
    EncoderStages,
    bank_blocks,
    bank_texts,
    head_inputs,
    output_vectors,
    query_blocks,
    texts,
    untrained_encoder,
    vectors_of_bank,
    vectors_of_queries,
)
from ceil_jax.pipeline.vectors import HiddenStates
from ceil_jax.pipeline.views import BankQueries, Examples, RetrievalTexts
from ceil_jax.retrieval.retrievers import NEAREST
from ceil_jax.training.loop import split_held_out
from ceil_jax.training.samplers import Sampler
from ceil_jax.training.tuning import TRADE_OFFS

# encoders, and the vectors that they give


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


def learning_stage(setup: Setup, method: Method) -> Stage[Any] | None:
    """Return the stage in which a method itself learns: its head, its trained networks or its fixed
    examples. None if it learns nothing."""
    match method:
        case WithFixedExamples():
            return fixed_examples(setup, method)
        case LearnsFromOutputs():
            return encoders(setup, method).head
        case LearnsFromScores():
            return encoders(setup, method).networks
        case _:
            return None


def bank_vectors(
    setup: Setup, method: Method, view: RetrievalTexts | None = None
) -> Stage[np.ndarray]:
    """Return the stage of the bank's vectors by a method, unit rows.

    Args:
        setup: the task and its settings.
        method: the method whose encoders are used.
        view: the texts to encode; by default those that these encoders read.
    """
    view = bank_texts(setup, method) if view is None else view
    return vectors_of_bank(encoders(setup, method), view)


def query_vectors(setup: Setup, method: Method, queries: Examples) -> Stage[np.ndarray]:
    """Return the stage of the vectors of queries by a method, unit rows."""
    return vectors_of_queries(encoders(setup, method), texts(setup, queries), queries)


def nearest(setup: Setup, method: Method, queries: Examples, n: int) -> Choose:
    """Return the stage of the nearest examples of each query, never the query itself.

    Args:
        setup: the task and its settings.
        method: the method whose vectors are compared.
        queries: the queries, in the bank or not.
        n: number of examples for each query, at most as many as the bank has besides the query.
    """
    return Choose(
        NEAREST,
        bank_texts(setup, method),
        texts(setup, queries),
        min(n, len(setup.bank) - 1),
        bank_vectors(setup, method),
        query_vectors(setup, method, queries),
    )


# learning from the bank's outputs


def trained_head(setup: Setup, method: LearnsFromOutputs) -> TrainedHead:
    """Return the training stage of a method that learns from the bank's outputs."""
    bank = setup.bank
    networks = untrained_encoder(setup).networks
    states = None
    if method.needs_states:
        states = HiddenStates(setup.lm, setup.task.template, bank)
    # an LM reads the two texts of a pair together
    pairs = bank.pairs and states is None
    inputs = head_inputs(
        networks, texts(setup, bank), pairs, bank.parser, outputs=True, states=states
    )
    return TrainedHead(method, inputs)


# learning from scores


def trained_encoders(setup: Setup, method: LearnsFromScores) -> TrainedEncoders:
    """Return the training stage of a method that learns from scores.

    Raises:
        UserError: settings contradict each other, or the encoder cannot be trained. Both are checked
            before the LM scores anything.
    """
    setup.untrained_encoder.check_trainable()
    method.check()
    start = encoders(setup, method.start)
    queries = training_queries(setup, method)
    bank = bank_texts(setup, method)
    fixed = None
    if start.head is not None:
        query_side = query_blocks(start.head, texts(setup, queries), queries)
        fixed = BlocksInTraining(start.head, query_side, bank_blocks(start.head, bank))
    return TrainedEncoders(
        method,
        scored_candidates(setup, method),
        texts(setup, queries),
        bank,
        start.networks,
        setup.config.seed,
        fixed,
        trade_off_of_training(setup, method),
        bank_vectors(setup, method.start, bank) if method.reads_bank_vectors else None,
        learnt_by_start(setup, method),
    )


def scored_candidates(setup: Setup, method: LearnsFromScores) -> ScoredCandidates:
    """Return the stage of the candidate sets and scores that a method is trained on, the same for all
    seeds."""
    setup = setup.for_all_seeds
    queries = training_queries(setup, method)
    sampler = method.candidate_sampler(len(setup.bank))
    sets = candidate_sets(setup, method, sampler, queries)
    if method.scores == "outputs":
        query_side = output_vectors(setup, queries)
        bank_side = output_vectors(setup, setup.bank)
        return ScoredCandidates(sets, OutputScores(query_side, bank_side, sets))
    label = f"{method.title}'s {'candidate sets' if sampler.size > 1 else 'candidates'}"
    shape = (sampler.sets, sampler.size)
    return ScoredCandidates(sets, Scores(setup.prompting, queries, setup.bank, sets, shape, label))


def candidate_sets(
    setup: Setup, method: LearnsFromScores, sampler: Sampler, queries: BankQueries
) -> Sets:
    """Return the stage of the candidate sets of training queries, drawn with the encoders of the
    method's start.

    Args:
        setup: the task and its settings.
        method: the method that learns from the sets.
        sampler: draws the sets.
        queries: the training queries.
    """
    start = method.start
    needs_vectors = sampler.needs_vectors
    return Sets(
        sampler,
        texts(setup, queries),
        bank_texts(setup, start),
        setup.config.data_seed,
        nearest(setup, start, queries, sampler.shortlist) if sampler.shortlist else None,
        query_vectors(setup, start, queries) if needs_vectors else None,
        bank_vectors(setup, start) if needs_vectors else None,
        trade_off_of_training(setup, method) if sampler.needs_trade_off else None,
    )


def training_queries(setup: Setup, method: Method) -> BankQueries:
    """Return the queries of the bank that a method's networks are trained on, those that it holds
    out among them."""
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


# λ


def trade_off_of_training(setup: Setup, method: Method) -> float | Stage[float] | None:
    """Return λ of a method's training, or its stage if it is tuned; None for a method that does not
    learn from sets."""
    setup = setup.trained_by or setup
    if method.kernel_trade_off is None:
        return None
    assert isinstance(method, LearnsFromScores), "sets are scored"
    return given_or_tuned(setup, method.start, method.kernel_trade_off)


def given_or_tuned(
    setup: Setup, method: Method, value: float | Literal["tuned"]
) -> float | Stage[float]:
    """Return λ itself, or for "tuned" the stage that tunes it for a method's encoders, once for all
    seeds."""
    if value != "tuned":
        return value
    queries = tuning_queries(setup)
    shots = setup.config.shots
    shared = setup.for_all_seeds
    sets = MapSets(
        nearest(shared, method, queries, setup.config.shortlist),
        query_vectors(shared, method, queries),
        bank_vectors(shared, method),
        shots,
        # sets are cut to the token budget of answers, and what is left is scored whole
        setup.answering,
        queries,
        setup.bank,
    )
    scores = Scores(
        setup.prompting,
        queries,
        setup.bank,
        sets,
        (len(TRADE_OFFS), shots),
        f"λ of {method.name}",
        # neighbouring values of λ often choose the same set: of five sets, 2.0 to 3.0 were distinct
        # on five tasks
        differing=0.47,
        all_choices=True,
    )
    return TradeOff(scores, method.name)
