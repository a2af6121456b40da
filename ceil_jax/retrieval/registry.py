"""The registry of retrievers: what each one needs, and how it is built from its name.

The rest of the package reads `Needs`; nothing else branches on a retriever's name.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ceil_jax.errors import UserError
from ceil_jax.registry import Registry
from ceil_jax.retrieval.own_rows import KnownBy

if TYPE_CHECKING:
    from ceil_jax.encoders.encoder import Encoder
    from ceil_jax.tasks.example import Example

Rewrite = Callable[[Sequence["Example"]], Sequence[Sequence[str]]]
"""N examples to the m skills of each one's input."""

Parts = Callable[[str], dict[str, int]]
"""A formal output to the keywords, words or roles it is built of, each with its weight."""


class Retrieved(NamedTuple):
    """One chosen example."""

    id: str
    position: int
    relevance: float
    """The score that orders a prompt: (1 + cos)/2 for vectors, the BM25 score for BM25, 0 for
    random, the overlap for target_sketch."""
    gain: float
    """The score that ordered the choice: the marginal log-determinant for DPP-MAP, the MMR value
    for MMR, `relevance` otherwise."""


class Retriever(Protocol):
    """A bank that is ready to be asked."""

    def retrieve(self, queries: Sequence[Example], k: int) -> list[list[Retrieved]]:
        """Choose at most k examples for each query, best first.

        A query is never its own example (`own_rows.KnownBy`), and no example is chosen twice.

        Raises:
            UserError: k is below 1 or larger than the bank.
        """


@dataclass(frozen=True)
class Needs:
    """The inputs that a retriever has to be given, and what may be done with it."""

    encoder: bool = False
    trade_off: float | Literal["tunable"] | None = None
    """λ: none; the λ of the conditional kernel, which a run sets or tunes; or a fixed default of
    its own."""
    skills: Literal["none", "one", "all"] = "none"
    """Skills of the inputs: none, those of one order of the demonstrations, or those of all
    orders."""
    seeded: bool = False
    """It draws by the run's seed: random examples, or the order of the demonstrations."""
    gold_outputs: bool = False
    """The queries' gold outputs, which makes it an oracle."""
    sketch: bool = False
    """A sketch of outputs, which tasks in SQL and COGS have."""
    shortlist: bool = False
    """It chooses among the n nearest examples."""
    text: bool = True
    """It compares inputs, so that --text says whether it sees them as they are or rewritten as
    skills."""
    ends_in_map: bool = False
    """Its choice is DPP-MAP with the run's n and its λ, so that it can be exported as a
    selector."""
    ends_in_nearest: bool = False
    """Its choice is the k nearest by cosine, which DPP-MAP tends to as λ goes to 0; it can be
    exported too."""


@dataclass(frozen=True)
class Given:
    """The inputs of a retriever, by the keyword arguments of `build_retriever`; it takes from them
    what it needs."""

    encoder: Encoder | None = None
    """Embeds the bank."""
    query_encoder: Encoder | None = None
    """Embeds the queries: another one in CEIL, where both encoders learn; `encoder` by default."""
    trade_off: float = 0.05
    """λ of the conditional kernel (dpp), or the weight of relevance against novelty (mmr)."""
    shortlist: int = 100
    """n, the number of nearest examples among which dpp and mmr choose."""
    seed: int = 0
    """Seeds random, and decides between equal sketches or skills."""
    rewrite: Rewrite | None = None
    """For skill_*."""
    sketch: Parts | None = None
    """For target_sketch."""
    known_by: KnownBy = "words"
    """By which a query's own examples are left out: those of the same input ("words"), or of the
    same "id" where queries and bank are of one task."""


class Registered(NamedTuple):
    """One retriever of the registry."""

    build: Callable[[Sequence[Example], Given], Retriever]
    needs: Needs
    label: str


_RETRIEVERS: Registry[Registered] = Registry("retriever", "register_retriever adds one.")

_MODULES = ("ceil_jax.retrieval.retrievers", "ceil_jax.skills.retrievers")
"""Modules whose RETRIEVERS are the package's own. They are imported by name when the registry is
first used, because these rooms stand above `retrieval`."""


def register_retriever(
    name: str,
    build: Callable[[Sequence[Example], Given], Retriever],
    needs: Needs | None = None,
    label: str = "",
    *,
    replace: bool = False,
) -> None:
    """Add a retriever, which `build_retriever`, `--method` and reports then know by its name.

    Args:
        name: its name.
        build: (bank, given) → retriever.
        needs: what it has to be given; nothing by default.
        label: its name in tables; `name` by default.
        replace: whether it takes the place of a retriever that has this name.

    Raises:
        UserError: the name is taken.
    """
    retrievers().register(name, Registered(build, needs or Needs(), label or name), replace=replace)


def retrievers() -> Registry[Registered]:
    """All retrievers by name: the package's own, then those that were registered."""
    if not _RETRIEVERS:
        for module in _MODULES:
            for name, entry in importlib.import_module(module).RETRIEVERS.items():
                _RETRIEVERS.register(name, entry)
    return _RETRIEVERS


def check_retrieved(
    name: str, found: Sequence[Sequence[Retrieved]], queries: int, bank: Sequence[Example], k: int
) -> None:
    """Raise a UserError unless there are at most k different examples, by position and id, for each
    query."""
    expected = (
        f"expected at most {k} different `Retrieved` for each of {queries} queries, by "
        "position and id"
    )
    if not isinstance(found, Sequence):
        raise UserError(f"retriever {name!r} returned {found!r:.120}; {expected}")
    for row, picks in enumerate(found):
        try:
            places = [operator.index(pick.position) for pick in picks]
            right = (
                all(0 <= place < len(bank) for place in places)
                and len(set(places)) == len(places) <= k
            )
            right = right and all(
                bank[p].id == pick.id for p, pick in zip(places, picks, strict=True)
            )
        except (AttributeError, TypeError):
            right = False
        if not right:
            raise UserError(
                f"retriever {name!r} returned {picks!r:.120} for query {row + 1}; {expected}"
            )
    if len(found) != queries:
        raise UserError(f"retriever {name!r} returned {len(found)} rows; {expected}")


def build_retriever(name: str, bank: Sequence[Example], **given: Any) -> Retriever:
    """Build a retriever over a bank.

    Args:
        name: a registered retriever: random, bm25, dense, mmr, dpp, skill_base, skill_consistency,
            skill_distinct, the oracles target_knn and target_sketch, or one of your own
            (`register_retriever`).
        bank: the examples to choose from.
        given: what the retriever is given: the fields of `Given`, such as `encoder` and
            `trade_off`.

    Raises:
        UserError: an unknown name, λ of 0 or less for dpp, or no encoder, rewrite or sketch where
            one is needed.

    Example:
        >>> from ceil_jax import Example, build_retriever
        >>> bank = [Example("1", "a dull film", "bad"), Example("2", "great fun", "good")]
        >>> [[pick]] = build_retriever("bm25", bank).retrieve([Example("3", "what fun", "")], k=1)
        >>> pick.id
        '2'
    """
    build, needs, _ = retrievers()[name]
    inputs = Given(**given)
    inputs = replace(inputs, query_encoder=inputs.query_encoder or inputs.encoder)
    for needed, found, why in (
        (needs.encoder, inputs.encoder, "compares vectors: give it an encoder"),
        (needs.skills != "none", inputs.rewrite, "compares skills: give it a rewrite"),
        (
            needs.sketch,
            inputs.sketch,
            "needs a sketch, which SQL and COGS tasks have; try target_knn",
        ),
    ):
        if needed and found is None:
            raise UserError(f"retriever {name!r} {why}")
    if needs.trade_off == "tunable" and not inputs.trade_off > 0:
        raise UserError(f"trade_off is {inputs.trade_off}: λ has to be above 0")
    return build(bank, inputs)
