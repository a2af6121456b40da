"""The searches of a run: the retrieval text of examples; nearest examples, candidate sets, retrievers' choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import UserError
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import Method
from ceil_jax.pipeline.models import Encoders, RunModels
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.retrieval.registry import Embed, Retrieved, build_retriever
from ceil_jax.skills.rewriter import Rewriter, load_demonstrations
from ceil_jax.store.rows import Cost
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task, context_text
from ceil_jax.training.candidates import CandidateSets, epr_candidates
from ceil_jax.training.config import CEILConfig
from ceil_jax.training.samplers import ceil_candidates

Choose = Callable[..., list[list[Retrieved]]]
"""(Retriever, bank, queries, k, **what `build_retriever` is given besides) → at most k examples for each query."""

Draw = Callable[
    [Callable[[], CandidateSets], Sequence[Example], Sequence[Example], tuple[int, int, int], Encoder | None],
    CandidateSets,
]
"""(A function that draws sets, the bank, Q queries, the sizes of a shortlist, of its sets and of a set, the encoder
that sets are drawn with) → what the function gives, or in a dry run a guess of it."""


def choosing(embed: Embed, index: str) -> Choose:
    """Return a function that builds the retriever of a name and asks it.

    Args:
        embed: (encoder, texts) → vectors, float32 [N, D].
        index: "exact" or "approximate", how the nearest vectors are found.
    """

    def choose(
        retriever: str, bank: Sequence[Example], queries: Sequence[Example], k: int, **given: Any
    ) -> list[list[Retrieved]]:
        return build_retriever(retriever, bank, embed=embed, index=index, **given).retrieve(queries, k)

    return choose


@dataclass
class Search:
    """The searches of a run, put together from functions; a dry run takes functions that guess what is not there."""

    embed: Embed
    """(encoder, texts) → vectors, float32 [N, D]."""
    choose: Choose
    draw: Draw = lambda sets, *_: sets()

    def nearest(
        self, encoders: Encoders, bank: Sequence[Example], queries: Sequence[Example], n: int
    ) -> list[list[Retrieved]]:
        """Return the n nearest examples of the bank to each query, never the query itself."""
        given = {"encoder": encoders.context, "query_encoder": encoders.query}
        return self.choose("dense", bank, queries, min(n, len(bank) - 1), **given)

    def candidates(self, queries: Sequence[Example], bank: Sequence[Example], count: int) -> CandidateSets:
        """Return EPR's candidates: `count` single examples for each query."""
        size = min(count, len(bank) - 1)
        return self.draw(lambda: epr_candidates(queries, bank, count), bank, queries, (size, size, 1), None)

    def subsets(
        self,
        encoder: Encoder,
        bank: Sequence[Example],
        queries: Sequence[Example],
        config: CEILConfig,
        seed: int,
    ) -> CandidateSets:
        """Return CEIL's candidate sets, drawn among the examples that the encoder finds nearest.

        Args:
            encoder: shortlists the bank.
            bank: the examples, as trained encoders see them.
            queries: the training queries, likewise.
            config: the number of sets, their size and how they are drawn.
            seed: seeds the draws.

        Raises:
            UserError: a shortlist is smaller than a set.
        """
        available = min(config.shortlist, len(bank) - 1)
        if config.size > available:
            raise UserError(
                f"--ceil.size {config.size}: subsets are drawn from {available} examples; lower it or raise "
                "--ceil.shortlist"
            )

        def embedded(examples: Sequence[Example]) -> np.ndarray:
            return unit_rows(self.embed(encoder, [example.input for example in examples]))

        def sets() -> CandidateSets:
            retrieved = self.nearest(Encoders(encoder, encoder), bank, queries, config.shortlist)
            fewest = min(map(len, retrieved))
            if fewest < config.size:
                raise UserError(
                    f"--index approximate found {fewest} neighbours of a training query where subsets have "
                    f"{config.size} examples; use --index exact"
                )
            return ceil_candidates(
                queries,
                bank,
                shortlists(retrieved),
                _padded([[pick.relevance for pick in picks] for picks in retrieved], -np.inf, np.float32),
                lambda: (embedded(queries), embedded(bank)),
                config,
                seed,
            )

        return self.draw(sets, bank, queries, (available, config.subsets, config.size), encoder)


def shortlists(retrieved: Sequence[Sequence[Retrieved]]) -> np.ndarray:
    """Return bank positions, int32 [Q, n]; −1 where an approximate index found fewer than for another query."""
    return _padded([[pick.position for pick in picks] for picks in retrieved], -1, np.int32)


def _padded(rows: Sequence[Sequence[float]], empty: float, dtype: DTypeLike) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows))), empty, dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out


class TextViews:
    """A run's examples as retrievers and encoders see them; an input is rewritten when it is first asked for.

    Args:
        config: `text`, `context` and `skills`.
        task: the bank.
        models: the rewriting LM.
        store: keeps the rewrites.
        costs: the ledger that rewriting is entered in.
        rewriter: shared with another run; by default one of the run's own.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        models: RunModels,
        store: Store,
        costs: dict[str, Cost],
        rewriter: Rewriter | None = None,
    ) -> None:
        self.config, self.task, self.models, self.store, self.costs = config, task, models, store, costs
        self._shared = rewriter

    @cached_property
    def rewriter(self) -> Rewriter:
        """The rewriter of `--skills.lm` and `--skills.demonstrations`.

        Raises:
            UserError: the task has no demonstrations of its own and none are given; an order out of range.
        """
        config = self.config.skills
        source = config.demonstrations or self.task.language
        if not source:
            raise UserError(
                f"{self.task.name} has no demonstrations of skills: give --skills.demonstrations FILE"
            )
        if not 0 <= config.order < config.orders:
            raise UserError(
                f"--skills.order {config.order}: expected a number from 0 to below --skills.orders ({config.orders})"
            )
        if self._shared is not None:
            return self._shared
        lm = self.models.lm_named(config.lm or self.config.lm)
        demonstrations = load_demonstrations(source)
        return Rewriter(lm, demonstrations, self.store, orders=config.orders, seed=self.config.data_seed)

    def orders(self, method: Method) -> list[int]:
        """Return the orders of the demonstrations whose skills a method compares, if any."""
        needs, config = method.needs, self.config
        if needs.skills == "all":
            return list(range(config.skills.orders))
        one = needs.skills == "one" or (needs.text and config.text == "skill")
        return [config.skills.order] if one else []

    def rewrite(self, examples: Sequence[Example], orders: Sequence[int]) -> list[list[str]]:
        """Return the skills of each example's input, one for each of the orders; the LM sees a database's schema."""
        inputs = [example.input for example in examples]
        schemas = [example.fields.get("schema", "") for example in examples]
        skills = self.rewriter.rewrite(inputs, orders, schemas)
        self.costs |= {f"rewriting, order {order}": self.rewriter.costs[order] for order in orders}
        return skills

    def seen(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return the examples as retrievers see them: by `--text`, with a skill in place of the input."""
        if self.config.text == "input":
            return examples
        skills = self.rewrite(examples, [self.config.skills.order])
        return [replace(example, input=skill) for example, [skill] in zip(examples, skills, strict=True)]

    @cached_property
    def bank(self) -> Sequence[Example]:
        """The bank as retrievers see it."""
        return self.seen(self.task.train)

    @cached_property
    def context(self) -> Sequence[Example]:
        """The bank as trained encoders see it: by `--context`, with the output after the input."""
        if self.config.context == "input":
            return self.bank
        return [replace(example, input=context_text(example, "example")) for example in self.bank]

    def report(self, methods: Sequence[Method]) -> str:
        """Return how many rewrites failed; nothing where these methods need none."""
        return self.rewriter.report() if any(self.orders(method) for method in methods) else ""
