"""The stages of retrieval texts and of their vectors, by encoders that are given as stages.

`method_stages` says which encoders a method has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import Method
from ceil_jax.pipeline.encoders import CrossFitting, TrainedHead
from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.stage import Stage
from ceil_jax.pipeline.vectors import (
    HeadBlocks,
    HeadInputs,
    HeadVectors,
    HiddenStates,
    QueryBlocks,
    SkillVectors,
    TextVectors,
    UnitVectors,
    UntrainedEncoder,
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

# retrieval texts


def texts(setup: Setup, examples: Examples) -> RetrievalTexts:
    """Return the stage of the retrieval texts of examples: their inputs, or with `--text skill` the
    skills that these need."""
    if setup.config.text == "input":
        return Inputs(examples)
    [skills_of_order] = skills(setup, examples, [0])
    return Rewritten(examples, skills_of_order)


def bank_texts(setup: Setup, method: Method) -> RetrievalTexts:
    """Return the stage of the bank's texts for the encoders of a method. With `--context example`,
    trained encoders also read the outputs."""
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


# vectors of bank and queries


class EncoderStages(NamedTuple):
    """The stages of some encoders."""

    networks: Stage[EncoderPair]
    """The networks, whose vectors give cosines."""
    head: TrainedHead | None = None
    """The head, whose blocks stand beside the networks' vectors; None without a head."""


def untrained_encoder(setup: Setup) -> EncoderStages:
    """Return the stage of the encoder as it was loaded."""
    return EncoderStages(UntrainedEncoder(setup.untrained_encoder))


def vectors_of_bank(encoders: EncoderStages, view: RetrievalTexts) -> Stage[np.ndarray]:
    """Return the stage of the bank's vectors, unit rows. `view` are the texts to encode."""
    side: Literal["query", "bank"] = "query" if share_encoder(encoders.networks) else "bank"
    vectors = TextVectors(encoders.networks, view, side)
    if encoders.head is None:
        return UnitVectors(vectors)
    return HeadVectors(encoders.head, bank_blocks(encoders.head, view), vectors)


def vectors_of_queries(
    encoders: EncoderStages, view: RetrievalTexts, queries: Examples
) -> Stage[np.ndarray]:
    """Return the stage of the vectors of queries, unit rows. `view` are their texts."""
    vectors = TextVectors(encoders.networks, view)
    if encoders.head is None:
        return UnitVectors(vectors)
    return HeadVectors(encoders.head, query_blocks(encoders.head, view, queries), vectors)


def share_encoder(encoders: Stage[EncoderPair]) -> bool:
    """Return whether queries and examples share one untrained encoder, so that one stage of vectors
    serves both."""
    return isinstance(encoders, UntrainedEncoder) and encoders.encoder.encodes_alike


# a head's blocks and inputs


def bank_blocks(head: TrainedHead, view: RetrievalTexts) -> HeadBlocks:
    """Return the stage of a head's blocks of the bank's examples, which depend on their outputs."""
    trained_on_them = head.rows.view.source is view.source
    inputs = head.rows if trained_on_them else head_inputs_like(head, view, outputs=True)
    return HeadBlocks(head, inputs, "bank")


def query_blocks(
    head: TrainedHead, view: RetrievalTexts, queries: Examples
) -> Stage[np.ndarray | None]:
    """Return the stage of a head's blocks of queries. If the head was trained on these queries,
    their blocks are cross-fitted, so that none depends on the query's own output."""
    if isinstance(queries, BankQueries) and queries.bank is head.rows.view.source:
        return QueryBlocks(CrossFitting(head), queries.positions)
    return HeadBlocks(head, head_inputs_like(head, view, outputs=False), "query")


def head_inputs_like(head: TrainedHead, view: RetrievalTexts, *, outputs: bool) -> HeadInputs:
    """Return the stage of examples as inputs of a head, in the same form as the bank that it was
    trained on."""
    bank = head.rows
    states = bank.states and replace(bank.states, rows=view.source)
    return head_inputs(
        bank.vectors.encoders,
        view,
        bank.parts is not None,
        bank.parser,
        outputs=outputs,
        states=states,
    )


def head_inputs(
    encoders: Stage[EncoderPair],
    view: RetrievalTexts,
    pairs: bool,
    parser: str,
    *,
    outputs: bool,
    states: HiddenStates | None = None,
) -> HeadInputs:
    """Return the stage of examples as inputs of a head.

    Args:
        encoders: the untrained encoder.
        view: the examples' texts.
        pairs: whether every input is joined from two texts, which are then also encoded separately.
        parser: the name of the parser for outputs that are programs; "" if they are not.
        outputs: whether the head may see the outputs; false for queries.
        states: the LM's hidden states of the examples, for a head that reads these.
    """
    parts = TextVectors(encoders, Parts(view)) if pairs else None
    return HeadInputs(view, TextVectors(encoders, view), parts, parser, outputs, states)


# vectors of outputs and skills, by the untrained encoder


def output_vectors(setup: Setup, examples: Examples) -> UnitVectors:
    """Return the stage of the vectors of examples' outputs, unit rows."""
    return UnitVectors(TextVectors(untrained_encoder(setup).networks, Outputs(examples)))


def skill_vectors(setup: Setup, examples: Examples, orders: Iterable[int]) -> SkillVectors:
    """Return the stage of the vectors of the skills of examples, for some orders of the
    demonstrations."""
    views = skills(setup, examples, orders)
    vectors = TextVectors(untrained_encoder(setup).networks, SkillTexts(views))
    return SkillVectors(vectors, len(views))
