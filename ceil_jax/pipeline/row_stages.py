"""The stages that a row needs, from its metric down to the texts.

Every function only puts values together; `stage.Run.get` computes them. They stand in the order of
the picture in docs/architecture.md. A row is one that `Setup.row` returned, whose method has the
configuration's settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.errors import UserError
from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, Method
from ceil_jax.methods.fixed import WithFixedExamples
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.answering import (
    Answers,
    Classified,
    Copied,
    Majority,
    Measurement,
    Predictions,
)
from ceil_jax.pipeline.choosing import Choose, MapSets, Sets
from ceil_jax.pipeline.encoders import BlocksInTraining, CrossFitting, TrainedEncoders, TrainedHead
from ceil_jax.pipeline.scoring import OutputScores, ScoredCandidates, Scores, TradeOff
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.shared_sets import (
    BestSet,
    Challengers,
    Finalists,
    Pool,
    RandomSets,
    SharedAnswers,
    SharedScores,
    SharedSets,
    Trial,
)
from ceil_jax.pipeline.stage import Stage
from ceil_jax.pipeline.vectors import (
    HeadBlocks,
    HeadInputs,
    HeadVectors,
    LoadedEncoder,
    QueryBlocks,
    SkillVectors,
    TextVectors,
    UnitVectors,
)
from ceil_jax.pipeline.views import (
    BankQueries,
    Examples,
    Inputs,
    Outputs,
    Parts,
    RetrievalTexts,
    Rewritten,
    Skills,
    SkillTexts,
    WithOutputs,
)
from ceil_jax.retrieval.retrievers import NEAREST
from ceil_jax.training.loop import split_held_out
from ceil_jax.training.samplers import Sampler
from ceil_jax.training.tuning import TRADE_OFFS, TUNING_QUERIES

# a row: its metric, its answers, its examples


def metric(setup: Setup, row: Row) -> Measurement:
    """Return the task's metrics of a row's answers to the task's queries."""
    task = setup.task
    return Measurement(predictions(setup, row), task.metric, tuple(task.more_metrics))


def predictions(setup: Setup, row: Row, queries: Examples | None = None) -> Answers:
    """Return the answer to each query; by default to the task's queries.

    Raises:
        UserError: the row's method cannot learn on the task.
    """
    queries = setup.queries if queries is None else queries
    if row.answers == "majority":
        return Majority(queries, setup.bank)
    if row.answers == "classifier":
        check_applies(setup, row)
        head = encoders(setup, row.method).head
        assert head is not None, "a classifier is a head"
        inputs = alike(head, texts(setup, queries), outputs=False)
        return Classified(queries, setup.bank, head, inputs)
    if row.answers == "copied":
        return Copied(queries, setup.bank, replace(choice(setup, row, queries), k=1))
    return Predictions(
        queries,
        setup.bank,
        setup.answering,
        choice(setup, row, queries),
        tuple(setup.task.stop),
        setup.config.shots if row.chooses else 0,
        row.label,
    )


def choice(setup: Setup, row: Row, queries: Examples | None = None) -> Choose:
    """Return the stage that chooses a row's examples for queries; by default for those of the task.

    Raises:
        UserError: the row's method cannot learn on the task, or skills without demonstrations.
    """
    check_applies(setup, row)
    config = setup.config
    needs = row.needs
    queries = setup.queries if queries is None else queries
    bank_view: RetrievalTexts = Inputs(setup.bank)
    query_view: RetrievalTexts = Inputs(queries)
    if needs.text:
        bank_view = bank_texts(setup, row.method)
        query_view = texts(setup, queries)
    bank_side: Stage[np.ndarray] | None = None
    query_side: Stage[np.ndarray] | None = None
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
    rewritten: tuple[tuple[Skills, ...], ...] = ()
    if orders and needs.vectors != "skills":
        rewritten = (skills(setup, setup.bank, orders), skills(setup, queries, orders))
    return Choose(
        row.retriever,
        bank_view,
        query_view,
        config.shots,
        bank_side,
        query_side,
        encoders=encoders(setup, row.method).networks if needs.encoder else None,
        trade_off=trade_off_of_row(setup, row),
        shortlist=config.shortlist if needs.shortlist else None,
        seed=config.seed if needs.seeded else config.data_seed,
        skills=rewritten,
        language=setup.task.language if needs.sketch else "",
        min_relevance=config.min_relevance if needs.vectors == "inputs" else None,
        fixed=None if needs.fixed == "none" else fixed_examples(setup, row.method),
    )


def check_applies(setup: Setup, row: Row) -> None:
    """Raise a UserError if a row's method, or one that it starts from, cannot learn on the task."""
    if not row.encodes or setup.trained_by is not None:
        return
    for method in row.method.chain:
        if why := method.refusal(setup.task):
            raise UserError(f"--method {row.name}: {why}")


# λ


def trade_off_of_row(setup: Setup, row: Row) -> float | Stage[float] | None:
    """Return λ of a row: the retriever's own; or that of the training, if its encoders were trained
    on sets; or the configured one. None for a retriever without λ."""
    if row.needs.trade_off != "tunable":
        return row.needs.trade_off
    if row.method.learns_sets:
        return trade_off_of_training(setup, row.method)
    return given_or_tuned(setup, row.method, setup.config.trade_off)


def trade_off_of_training(setup: Setup, method: Method) -> float | Stage[float] | None:
    """Return λ of a method's training; None for a method that does not learn from sets."""
    setup = setup.trained_by or setup
    if method.kernel_trade_off is None:
        return None
    start = method.chain[1]
    return given_or_tuned(setup, start, method.kernel_trade_off)


def given_or_tuned(
    setup: Setup, method: Method, value: float | Literal["tuned"]
) -> float | Stage[float]:
    """Return λ itself, or for "tuned" the stage that tunes it for a method's encoders, once for all
    seeds."""
    if value != "tuned":
        return value
    # training takes its queries from the beginning of the order, tuning from its end
    queries = bank_queries(setup, TUNING_QUERIES, after=max(0, len(setup.bank) - TUNING_QUERIES))
    shots = setup.config.shots
    shared = setup.for_all_seeds
    sets = MapSets(
        nearest(shared, method, queries, setup.config.shortlist),
        query_vectors(shared, method, queries),
        bank_vectors(shared, method),
        shots,
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


# what a method has learnt


class EncoderStages(NamedTuple):
    """The stages of a method's encoders."""

    networks: Stage[EncoderPair]
    """The networks, whose vectors give cosines."""
    head: TrainedHead | None
    """The head, whose blocks stand beside the networks' vectors; None unless the method, or one
    that it starts from, learns from outputs."""
    training: Stage[Any] | None
    """The stage in which the method itself is trained; None if it learns nothing."""


def encoders(setup: Setup, method: Method) -> EncoderStages:
    """Return the stages of a method's encoders."""
    if method.encoders_of is not method:
        networks, head, _ = encoders(setup, method.encoders_of)
        return EncoderStages(networks, head, fixed_examples(setup, method))
    if setup.trained_by is not None and method.learns:
        return encoders(setup.trained_by, method)
    loaded = LoadedEncoder(setup.pretrained)
    match method:
        case LearnsFromOutputs():
            bank = setup.bank
            view = texts(setup, bank)
            inputs = head_inputs(loaded, view, bank.pairs, bank.parser, outputs=True)
            head = TrainedHead(method, inputs)
            return EncoderStages(loaded, head, head)
        case LearnsFromScores():
            networks = trained(setup, method)
            return EncoderStages(networks, encoders(setup, method.start).head, networks)
        case _:
            return EncoderStages(loaded, None, None)


def fixed_examples(setup: Setup, method: Method) -> BestSet:
    """Return the stage of the examples that a method puts into every prompt, the same for all
    seeds.

    Raises:
        UserError: there are more fixed examples than the bank or the pool allows.
    """
    assert isinstance(method, WithFixedExamples), "declared in Needs"
    bank = setup.bank
    part = method.fixed_part(setup.config.shots, len(bank))
    finder = part.method
    setup = setup.for_all_seeds
    seed = setup.config.data_seed
    first, *more = part.rounds
    vectors = bank_vectors(setup, finder.encoders_of)
    held_back = bank_queries(setup, sum(part.rounds)).positions
    pool = Pool(bank, vectors, held_back, part.pool, seed)
    queries = bank_queries(setup, first)
    sets: SharedSets = RandomSets(pool, queries, finder.sets, part.size, seed)
    shape = (finder.sets, part.size)
    trials: tuple[Trial, ...] = (trial(setup, sets, queries, shape, "random sets"),)
    for _ in range(finder.waves if finder.challengers else 0):
        sets = Challengers(pool, trials, queries, finder.challengers, seed)
        shape = (finder.challengers, part.size)
        trials = (*trials, trial(setup, sets, queries, shape, "challengers"))
    finals: tuple[Trial, ...] = ()
    count = finder.finalists
    answered = first
    for rows in more:
        queries = bank_queries(setup, rows, after=answered)
        sets = Finalists(pool, trials, finals, queries, count)
        finals = (*finals, trial(setup, sets, queries, (count, part.size), "finalists"))
        answered += rows
        count = max(1, count // 2)
    return BestSet(pool, trials, finals)


def trial(
    setup: Setup, sets: SharedSets, queries: BankQueries, shape: tuple[int, int], label: str
) -> Trial:
    """Return the stage that scores sets that all queries share: by the LM's log-probabilities if it
    gives any, else by the metric of its answers.

    Args:
        setup: the task and its settings.
        sets: the sets.
        queries: the rows of the bank on which sets are scored.
        shape: number of sets and of examples in each, to estimate the work.
        label: names the sets in progress bars.
    """
    label = f"{label} of fixed examples"
    if setup.lm.can_score:
        return SharedScores(
            setup.answering, queries, setup.bank, sets, shape, label, all_choices=True
        )
    stop = tuple(setup.task.stop)
    metric = setup.task.metric
    return SharedAnswers(setup.answering, stop, metric, queries, setup.bank, sets, shape, label)


def trained(setup: Setup, method: LearnsFromScores) -> TrainedEncoders:
    """Return the training stage of a method that learns from scores.

    Raises:
        UserError: settings contradict each other, or the encoder cannot be trained. Both are
            checked before the LM scores anything.
    """
    setup.pretrained.check_trainable()
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
        scored_sets(setup, method),
        texts(setup, queries),
        bank,
        start.networks,
        setup.config.seed,
        fixed,
        trade_off_of_training(setup, method),
        bank_vectors(setup, method.start, bank) if method.reads_bank_vectors else None,
        learnt_before(setup, method),
    )


def scored_sets(setup: Setup, method: LearnsFromScores) -> ScoredCandidates:
    """Return the candidate sets and scores that a method is trained on; the same for all seeds."""
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
    """Return the candidate sets of training queries, drawn with the encoders of the method's
    start."""
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


def nearest(setup: Setup, method: Method, queries: Examples, n: int) -> Choose:
    """Return the stage of the n nearest examples of each query by a method's vectors, never the
    query itself."""
    return Choose(
        NEAREST,
        bank_texts(setup, method),
        texts(setup, queries),
        min(n, len(setup.bank) - 1),
        bank_vectors(setup, method),
        query_vectors(setup, method, queries),
    )


def bank_queries(setup: Setup, count: int, after: int = 0) -> BankQueries:
    """Return `count` queries of the bank, in a drawn order that is the same for all methods; fewer
    queries are among more.

    Args:
        setup: the task and its settings.
        count: how many queries; fewer where the bank has fewer.
        after: how many queries of that order are left to others.
    """
    order = np.random.default_rng([setup.config.data_seed, 3]).permutation(len(setup.bank))
    return setup.bank.queries(order[after : after + count])


def training_queries(setup: Setup, method: Method) -> BankQueries:
    """Return the queries of the bank that a method's networks are trained on, those that it holds
    out among them."""
    return bank_queries(setup, method.training_queries)


def learnt(setup: Setup, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """Return the bank positions of the queries that a method is trained on, and of its held-out
    ones."""
    positions = training_queries(setup, method).positions
    before = learnt_before(setup, method)
    training, held_out = split_held_out(len(positions), setup.config.seed, before)
    return positions[training], positions[held_out]


def learnt_before(setup: Setup, method: Method) -> np.ndarray | None:
    """Return bool [Q]: which of a method's training queries its start was trained on; None if its
    start was trained on none."""
    starts = method.chain[1:]
    if not starts or not starts[0].training_queries:
        return None
    positions = training_queries(setup, method).positions
    return np.isin(positions, learnt(setup, starts[0])[0])


# vectors


def bank_vectors(
    setup: Setup, method: Method, view: RetrievalTexts | None = None
) -> Stage[np.ndarray]:
    """Return the bank's vectors by a method, unit rows. `view` are the texts to encode, by default
    those that the method's encoders read."""
    view = bank_texts(setup, method) if view is None else view
    stages = encoders(setup, method)
    side: Literal["query", "bank"] = "query" if is_one(stages.networks) else "bank"
    vectors = TextVectors(stages.networks, view, side)
    if stages.head is None:
        return UnitVectors(vectors)
    return HeadVectors(stages.head, bank_blocks(stages.head, view), vectors)


def is_one(encoders: Stage[EncoderPair]) -> bool:
    """Return whether queries and examples share one untrained encoder, so that one stage of vectors
    serves both."""
    return isinstance(encoders, LoadedEncoder) and encoders.encoder.encodes_alike


def query_vectors(setup: Setup, method: Method, queries: Examples) -> Stage[np.ndarray]:
    """Return the vectors of queries by a method, unit rows."""
    view = texts(setup, queries)
    stages = encoders(setup, method)
    vectors = TextVectors(stages.networks, view)
    if stages.head is None:
        return UnitVectors(vectors)
    return HeadVectors(stages.head, query_blocks(stages.head, view, queries), vectors)


def bank_blocks(head: TrainedHead, view: RetrievalTexts) -> HeadBlocks:
    """Return a head's blocks of the bank's examples, which depend on their outputs."""
    learnt_from = head.rows.view.source is view.source
    inputs = head.rows if learnt_from else alike(head, view, outputs=True)
    return HeadBlocks(head, inputs, "bank")


def query_blocks(
    head: TrainedHead, view: RetrievalTexts, queries: Examples
) -> Stage[np.ndarray | None]:
    """Return a head's blocks of queries. If the head was trained on these queries, their blocks are
    cross-fitted, so that none depends on the query's own output."""
    if isinstance(queries, BankQueries) and queries.bank is head.rows.view.source:
        return QueryBlocks(CrossFitting(head), queries.positions)
    return HeadBlocks(head, alike(head, view, outputs=False), "query")


def alike(head: TrainedHead, view: RetrievalTexts, *, outputs: bool) -> HeadInputs:
    """Return examples as inputs of a head, in the same form as the bank that it was trained on."""
    bank = head.rows
    return head_inputs(
        bank.vectors.encoders, view, bank.parts is not None, bank.parser, outputs=outputs
    )


def head_inputs(
    encoders: Stage[EncoderPair], view: RetrievalTexts, pairs: bool, parser: str, *, outputs: bool
) -> HeadInputs:
    """Return examples as inputs of a head.

    Args:
        encoders: the loaded encoder.
        view: the examples' texts.
        pairs: whether every input is joined from two texts, which are then also encoded separately.
        parser: the name of the parser for outputs that are programs; "" if they are not.
        outputs: whether the head may see the outputs; false for queries.
    """
    parts = TextVectors(encoders, Parts(view)) if pairs else None
    return HeadInputs(view, TextVectors(encoders, view), parts, parser, outputs)


def output_vectors(setup: Setup, examples: Examples) -> UnitVectors:
    """Return the vectors of examples' outputs by the loaded encoder, unit rows."""
    return UnitVectors(TextVectors(LoadedEncoder(setup.pretrained), Outputs(examples)))


def skill_vectors(setup: Setup, examples: Examples, orders: Iterable[int]) -> SkillVectors:
    """Return the vectors of the skills of examples, for some orders of the demonstrations."""
    views = skills(setup, examples, orders)
    vectors = TextVectors(LoadedEncoder(setup.pretrained), SkillTexts(views))
    return SkillVectors(vectors, len(views))


# the retrieval texts


def texts(setup: Setup, examples: Examples) -> RetrievalTexts:
    """Return the retrieval texts of examples: their inputs, or with `--text skill` the skills that
    these need."""
    if setup.config.text == "input":
        return Inputs(examples)
    [skills_of_order] = skills(setup, examples, [0])
    return Rewritten(examples, skills_of_order)


def bank_texts(setup: Setup, method: Method) -> RetrievalTexts:
    """Return the bank's texts for the encoders of a method. With `--context example`, trained
    encoders also read the outputs."""
    plain = texts(setup, setup.bank)
    return WithOutputs(plain) if bank_context(setup, method) == "example" else plain


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
        Skills(
            examples,
            setup.skill_lm,
            setup.demonstrations,
            config.skills.orders,
            order,
            config.data_seed,
        )
        for order in orders
    )
