"""`build_retriever`, which builds any registered retriever over a bank with any encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.example_encoder import ExampleEncoder, example_encoder
from ceil_jax.encoders.text_encoder import EncoderPair, check_finite, sides
from ceil_jax.errors import check_options
from ceil_jax.methods import registry
from ceil_jax.retrieval.own_rows import KnownBy, OwnRows
from ceil_jax.retrieval.retriever import (
    Parts,
    Queries,
    Retrieved,
    RetrieverArguments,
    RetrieverKind,
    Rewrite,
    check_needs,
    check_size,
    checked_choice,
    retrieved,
)
from ceil_jax.tasks.example import Example


class RetrieverOptions(TypedDict, total=False):
    """The options of `build_retriever`."""

    encoder: Any
    """Embeds the bank: anything with `encode(texts)`, or an `ExampleEncoder`."""
    query_encoder: Any
    """Embeds the queries; by default `encoder`. CEIL may train two different encoders."""
    trade_off: float
    """For dpp, λ of the conditional kernel; for mmr, the weight of relevance against novelty. 0.05
    by default."""
    shortlist: int
    """n, the number of nearest examples among which dpp and mmr choose; 100 by default."""
    min_relevance: float | None
    """The lowest relevance, (1 + cos) / 2, of a chosen example, for retrievers that compare vectors
    of inputs; no limit by default."""
    fixed: Sequence[int]
    """For fixed and fixed_near: bank positions of the examples that every query gets."""
    seed: int
    """Seed of random, and of the choice between equal sketches or skills; 0 by default."""
    rewrite: Rewrite
    """For skill_*: a function that returns the m skills of each example."""
    sketch: Parts
    """For target_sketch: a function that returns the parts of an output."""
    known_by: KnownBy
    """Which bank examples count as the query itself and are never chosen for it: those with the
    same input ("words", the default), or with the same id ("id", for queries and a bank of one
    task)."""


class BankRetriever:
    """A retriever over a bank of examples, with its encoder."""

    def __init__(
        self, kind: RetrieverKind, bank: Sequence[Example], options: RetrieverOptions
    ) -> None:
        self.kind = kind
        self.bank = bank
        encoder = options.get("encoder")
        query_encoder = options.get("query_encoder", encoder)
        self._bank_side = None if encoder is None else example_encoder(encoder)
        self._query_side = None if query_encoder is None else example_encoder(query_encoder)
        self._own_rows = OwnRows(bank, options.get("known_by", "words"))
        self._rewrite = options.get("rewrite")
        pair = None
        if kind.needs.encoder:
            pair = EncoderPair(sides(query_encoder).query, sides(encoder).bank)
        arguments = RetrieverArguments(
            bank,
            encoder=pair,
            rewrite=self._rewrite,
            sketch=options.get("sketch"),
            trade_off=options.get("trade_off", RetrieverArguments.trade_off),
            shortlist=options.get("shortlist", RetrieverArguments.shortlist),
            min_relevance=options.get("min_relevance"),
            fixed=options.get("fixed", ()),
            seed=options.get("seed", RetrieverArguments.seed),
        )
        vectors = self._vectors(bank, bank=True)
        self._retriever = kind.retriever(replace(arguments, vectors=vectors))

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        """Choose at most k examples for each query, best first.

        A query is never its own example (`own_rows.KnownBy`), and no example is chosen twice.

        Raises:
            UserError: k is less than 1 or larger than the bank.
        """
        check_size(self.bank, k)
        vectors = self._vectors(queries, bank=False)
        batch = Queries(queries, self._own_rows(queries), vectors)
        answer = self._retriever.choose(batch, k)
        return retrieved(self.bank, checked_choice(self.kind, answer, batch, len(self.bank), k))

    def _vectors(self, examples: Sequence[Example], *, bank: bool) -> np.ndarray | None:
        """The vectors that the retriever compares, of bank examples or of queries."""
        side = self._bank_side if bank else self._query_side
        if self.kind.needs.vectors == "none" or side is None:
            return None
        skills: Sequence[Sequence[str]] = []
        if self.kind.needs.vectors == "skills":
            assert self._rewrite is not None, "checked by build_retriever"
            skills = self._rewrite(examples)
            examples = [Example("", skill, "") for several in skills for skill in several]
        elif self.kind.needs.vectors == "outputs":
            examples = [replace(example, input=example.output) for example in examples]
        vectors = _encoded(side, examples, bank)
        if skills:
            return vectors.reshape(len(skills), len(skills[0]), vectors.shape[1])
        return unit_rows(vectors)


def _encoded(side: ExampleEncoder, examples: Sequence[Example], bank: bool) -> np.ndarray:
    vectors = side.encode_bank(examples) if bank else side.encode_queries(examples)
    texts = [example.input for example in examples]
    check_finite(vectors, texts, str(getattr(side, "name", type(side).__name__)))
    return vectors


def build_retriever(
    name: str, bank: Sequence[Example], **options: Unpack[RetrieverOptions]
) -> BankRetriever:
    """Build a retriever over a bank.

    Args:
        name: a registered retriever: random, bm25, dense, mmr, dpp, skill_base, skill_consistency,
            skill_distinct, the oracles target_knn and target_sketch, or one of your own
            (`register_retriever`).
        bank: the examples to choose from.
        options: arguments of the retriever, such as `encoder` and `trade_off`; see
            `RetrieverOptions`.

    Raises:
        UserError: an unknown name or option, a λ of 0 or less for dpp, or a missing encoder,
            rewrite or sketch.

    Examples:
        >>> from ceil_jax import Example, build_retriever
        >>> bank = [Example("1", "a dull film", "bad"), Example("2", "great fun", "good")]
        >>> [[pick]] = build_retriever("bm25", bank).retrieve([Example("3", "what fun", "")], k=1)
        >>> pick.id
        '2'
    """
    kind = registry.RETRIEVERS[name]
    check_options("build_retriever", options, RetrieverOptions.__annotations__)
    check_needs(
        kind,
        encoder=options.get("encoder") is not None,
        rewrite=options.get("rewrite") is not None,
        sketch=options.get("sketch") is not None,
        trade_off=options.get("trade_off", RetrieverArguments.trade_off),
        fixed=bool(options.get("fixed")),
    )
    return BankRetriever(kind, bank, options)
