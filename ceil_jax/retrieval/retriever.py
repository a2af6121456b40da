"""The protocol of retrievers: what they need, what they are given, and what they return."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int32

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.errors import UserError
from ceil_jax.registry import Registry
from ceil_jax.store.code import code_digest
from ceil_jax.tasks.example import Example

Rewrite = Callable[[Sequence[Example]], Sequence[Sequence[str]]]
"""A function: N examples → the m skills of each."""

Parts = Callable[[str], dict[str, int]]
"""A function: an output that is a program → its keywords, words or roles, each with a weight."""


class Choice(NamedTuple):
    """The examples chosen for Q queries, in order of choice.

    Examples:
        >>> choice_of([[(4, 0.9, 0.9), (2, 0.7, 0.5)], []]).positions
        array([[ 4,  2],
               [-1, -1]], dtype=int32)
    """

    positions: Int32[np.ndarray, "q k"]
    """Positions in the bank; −1 at empty positions at the end."""
    relevance: Float[np.ndarray, "q k"]
    """The score by which a prompt is ordered: (1 + cos)/2 for vectors, the BM25 score for BM25, 0
    for random, the overlap for target_sketch; −inf at empty positions."""
    gains: Float[np.ndarray, "q k"]
    """The score by which examples were chosen: the marginal log-determinant for DPP-MAP, the MMR
    value for MMR, the relevance otherwise; −inf at empty positions."""


class Retrieved(NamedTuple):
    """One chosen example.

    Examples:
        >>> from ceil_jax import build_retriever
        >>> bank = [Example("a", "a dull film", "bad"), Example("b", "great fun", "good")]
        >>> [[pick]] = build_retriever("bm25", bank).retrieve([Example("c", "what fun", "")], k=1)
        >>> pick.id, pick.position
        ('b', 1)
    """

    id: str
    position: int
    relevance: float
    """The relevance of the example, as in `Choice`."""
    gain: float
    """The gain of the example, as in `Choice`."""


class Queries(NamedTuple):
    """The queries that a retriever chooses for.

    Examples:
        >>> from ceil_jax.retrieval.retrievers import BM25Ranking
        >>> bank = [Example("a", "a dull film", "bad"), Example("b", "great fun", "good")]
        >>> queries = Queries([Example("c", "what fun", ""), bank[1]], own_positions=[[], [1]])
        >>> BM25Ranking(RetrieverArguments(bank)).choose(queries, 1).positions.tolist()
        [[1], [0]]
    """

    examples: Sequence[Example]
    own_positions: Sequence[Sequence[int]]
    """Bank positions that each query must not get, because they are the same question."""
    vectors: np.ndarray | None = None
    """The queries' vectors, for a retriever that compares vectors: [Q, D], or [Q, m, D] for skills."""


class Retriever(Protocol):
    """A retriever over a bank.

    Examples:
        >>> class First:
        ...     def __init__(self, arguments):
        ...         self.bank = arguments.bank
        ...     def choose(self, queries, k):
        ...         return choice_of([(i, 1.0, 1.0) for i in range(k)] for _ in queries.examples)
        >>> from ceil_jax import build_retriever, register_retriever
        >>> register_retriever("first", First)
        >>> bank = [Example("a", "a dull film", "bad"), Example("b", "great fun", "good")]
        >>> [[pick]] = build_retriever("first", bank).retrieve([Example("c", "what fun", "")], k=1)
        >>> pick.id
        'a'
    """

    def choose(self, queries: Queries, k: int) -> Choice:
        """Choose at most k distinct examples for each query, best first, and none of its `own_positions`."""


@dataclass(frozen=True)
class RetrieverArguments:
    """The arguments that a retriever is built from; each reads those that it needs.

    Examples:
        >>> arguments = RetrieverArguments([Example("a", "a dull film", "bad")], seed=3)
        >>> arguments.seed, arguments.shortlist
        (3, 100)
    """

    bank: Sequence[Example]
    vectors: np.ndarray | None = None
    """The bank's vectors of the kind `Needs.vectors`: unit rows [N, D], or [N, m, D] for skills."""
    encoder: EncoderPair | None = None
    """For a retriever with `Needs.encoder`: the encoders of queries and of the bank."""
    trade_off: float = 0.05
    """λ of the conditional kernel (dpp), or the weight of relevance against novelty (mmr)."""
    shortlist: int = 100
    """n, the number of nearest examples among which dpp and mmr choose."""
    min_relevance: float | None = None
    """The lowest relevance, (1 + cos) / 2, of a chosen example, for a retriever that compares
    vectors of inputs; None for no limit."""
    fixed: Sequence[int] = ()
    """For a retriever with `Needs.fixed`: bank positions of the examples that every query gets."""
    seed: int = 0
    """Seed of random, and of the choice between equal sketches or skills."""
    rewrite: Rewrite | None = None
    """For a retriever with `Needs.skills`: returns the skills of examples."""
    sketch: Parts | None = None
    """For a retriever with `Needs.sketch`: returns the parts of an output."""


@dataclass(frozen=True)
class Needs:
    """The inputs that a retriever needs, and how it can be exported.

    Examples:
        >>> needs = Needs(vectors="inputs", trade_off="tunable", shortlist=True)
        >>> needs.encodes
        True
    """

    vectors: Literal["none", "inputs", "outputs", "skills"] = "none"
    """Which vectors of bank and queries the retriever compares."""
    encoder: bool = False
    """Whether it embeds texts itself."""
    trade_off: float | Literal["tunable"] | None = None
    """None: it has no λ. "tunable": the λ of the conditional kernel, which a run sets or tunes. A
    number: its own fixed λ."""
    skills: Literal["none", "one", "all"] = "none"
    """Skills of the inputs: none, those of one order of the demonstrations, or those of all
    orders."""
    seeded: bool = False
    """Whether it depends on the run's seed, for random examples or the order of the
    demonstrations."""
    gold_outputs: bool = False
    """Whether it reads the queries' gold outputs, which makes it an oracle."""
    sketch: bool = False
    """Whether it needs a sketch of outputs, which tasks in SQL and COGS have."""
    shortlist: bool = False
    """Whether it chooses among the n nearest examples."""
    text: bool = True
    """Whether it compares retrieval texts, so that --text applies."""
    ends_in_map: bool = False
    """Whether its choice is DPP-MAP with the run's n and λ, so that it can be exported as a
    selector."""
    ends_in_nearest: bool = False
    """Whether its choice is the k nearest by cosine, which is DPP-MAP in the limit λ → 0, so that
    it can be exported as a selector."""

    fixed: Literal["none", "all", "beginning"] = "none"
    """Which examples are the same for every query: none, all, or the first ones, with others after
    them. Fixed examples have a negative relevance, which puts them first in prompts."""

    @property
    def encodes(self) -> bool:
        """True if the retriever needs an encoder, for vectors or to embed texts itself."""
        return self.encoder or self.vectors != "none"


@dataclass(frozen=True)
class RetrieverKind:
    """A kind of retriever: how one is built over a bank, and what it needs."""

    name: str
    label: str
    """The retriever's name in tables."""
    build: Callable[[RetrieverArguments], Retriever]
    needs: Needs = Needs()

    @property
    def key(self) -> str | list[str]:
        """The retriever's part of a stage's key.

        It is its name, and for a plugin's retriever also its code.
        """
        code = code_digest(self.build)
        return [self.name, code] if code else self.name

    def retriever(self, arguments: RetrieverArguments) -> Retriever:
        """Return the retriever over a bank.

        Raises:
            UserError: the object that was built has no method `choose`.
        """
        retriever = self.build(arguments)
        _check_chooses(self.name, retriever, f"the {type(retriever).__name__} that it builds")
        return retriever


RETRIEVERS: Registry[RetrieverKind] = Registry("retriever", "register_retriever adds one.")
"""All retrievers by name. `methods.registry` fills it."""


_INTERFACE = (
    "a retriever is made by build(arguments), of one argument, and has choose(queries, k), which "
    "returns a `Choice`; docs/extending.md has examples"
)


def check_build(name: str, build: Callable[[RetrieverArguments], Retriever]) -> None:
    """Raise a UserError if `build` cannot make retrievers.

    It must take one argument, and a class must have `choose`. The result of a function is checked
    later, by `RetrieverKind.retriever`.
    """
    title = getattr(build, "__name__", repr(build))
    try:
        inspect.signature(build).bind(None)
    except TypeError as error:  # not callable, or with other arguments
        raise UserError(f"retriever {name!r}: {title}: {error}; {_INTERFACE}") from None
    except ValueError:
        return  # the arguments of a built-in are unknown
    if isinstance(build, type):
        _check_chooses(name, build, title)


def _check_chooses(name: str, retriever: Any, title: str) -> None:
    if not callable(getattr(retriever, "choose", None)):
        other = " (`retrieve` is no longer called)" if hasattr(retriever, "retrieve") else ""
        raise UserError(f"retriever {name!r}: {title} has no `choose`{other}; {_INTERFACE}")


def check_needs(
    kind: RetrieverKind,
    *,
    encoder: bool,
    rewrite: bool,
    sketch: bool,
    trade_off: float | None,
    fixed: bool = False,
) -> None:
    """Raise a UserError if a retriever lacks what it needs.

    Args:
        kind: the retriever.
        encoder: whether there is an encoder.
        rewrite: whether there are skills.
        sketch: whether outputs have a sketch.
        trade_off: λ; None for a retriever without λ.
        fixed: whether there are fixed examples.
    """
    needs = kind.needs
    for needed, present, why in (
        (needs.encodes, encoder, "compares vectors: give it an encoder"),
        (needs.fixed != "none", fixed, "has fixed examples: give it their positions, fixed=…"),
        (needs.skills != "none", rewrite, "compares skills: give it a rewrite"),
        (needs.sketch, sketch, "needs a sketch, which SQL and COGS tasks have; try target_knn"),
    ):
        if needed and not present:
            raise UserError(f"retriever {kind.name!r} {why}")
    if needs.trade_off == "tunable" and trade_off is not None and not trade_off > 0:
        raise UserError(f"trade_off is {trade_off}: λ has to be above 0")


def check_size(bank: Sequence[Example], k: int) -> None:
    """Raise a UserError unless k examples can be taken from the bank."""
    if not 1 <= k <= len(bank):
        raise UserError(
            f"{k} examples asked for from a bank of {len(bank)}; ask for 1 to {len(bank)}"
        )


def choice_of(rows: Iterable[Sequence[tuple[int, float, float]]]) -> Choice:
    """Return a `Choice` from a list for each query of (position, relevance, gain) of its examples.

    >>> choice_of([[(4, 0.9, 0.9), (2, 0.5, 0.5)], [(1, 0.7, 0.7)]]).positions.tolist()
    [[4, 2], [1, -1]]
    """
    picks = [list(row) for row in rows]
    width = max(map(len, picks), default=0)
    positions = np.full((len(picks), width), -1, np.int32)
    relevance = np.full((len(picks), width), -np.inf)
    gains = np.full((len(picks), width), -np.inf)
    for query, row in enumerate(picks):
        for rank, (position, score, gain) in enumerate(row):
            positions[query, rank] = position
            relevance[query, rank] = score
            gains[query, rank] = gain
    return Choice(positions, relevance, gains)


def retrieved(bank: Sequence[Example], choice: Choice) -> list[list[Retrieved]]:
    """Return the chosen examples of each query, without empty positions."""
    rows = []
    for positions, relevance, gains in zip(*choice, strict=True):
        picks = zip(positions, relevance, gains, strict=True)
        rows.append(
            [
                Retrieved(bank[position].id, int(position), float(score), float(gain))
                for position, score, gain in picks
                if position >= 0
            ]
        )
    return rows


def checked_choice(kind: RetrieverKind, answer: Any, queries: Queries, bank: int, k: int) -> Choice:
    """Check the result of a retriever, and return it.

    Args:
        kind: the retriever.
        answer: the return value of its `choose`.
        queries: the Q queries.
        bank: the number of examples in the bank.
        k: the most examples of a query.

    Raises:
        UserError: the answer is not a `Choice` of Q rows with at most k distinct examples of the
            bank, or a query has got one of its `own_positions`.
    """
    expected = (
        f"expected a `Choice` with at most {k} different examples of the bank for each of "
        f"{len(queries.examples)} queries, none of them the query's own"
    )
    if not isinstance(answer, Choice):
        raise UserError(f"retriever {kind.name!r} returned {answer!r:.120}; {expected}")
    choice = Choice(*map(np.asarray, answer))
    if len({array.shape for array in choice}) != 1 or choice.positions.ndim != 2:
        shapes = ", ".join(str(array.shape) for array in choice)
        raise UserError(f"retriever {kind.name!r} returned arrays of {shapes}; {expected}")
    if len(choice.positions) != len(queries.examples):
        raise UserError(
            f"retriever {kind.name!r} returned {len(choice.positions)} rows; {expected}"
        )
    for number, (row, own_positions) in enumerate(
        zip(choice.positions.tolist(), queries.own_positions, strict=True)
    ):
        try:
            chosen = [position for position in map(operator.index, row) if position != -1]
        except TypeError:
            chosen = [-1]  # not integers, so not in the bank
        within = all(0 <= position < bank for position in chosen)
        distinct = len(set(chosen)) == len(chosen)
        has_own = not set(own_positions).isdisjoint(chosen)
        if not within or not distinct or len(chosen) > k or has_own:
            raise UserError(
                f"retriever {kind.name!r} returned {row!r:.120} for query {number + 1}; {expected}"
            )
    return choice
