"""Answers of candidates' prompts within a budget: what two candidates ask alike is read, and paid for, once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ceil_jax.pipeline.answering import ask
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.stage import Run
from ceil_jax.racing.budget import Meter
from ceil_jax.tasks.example import Example

_CHUNK = 32
"""Prompts between two looks at the clock."""

_SPECIAL = 2
"""Tokens that a tokenizer may put around a text."""


class OutOfTime(Exception):
    """The seconds are spent; what was answered is kept."""


class Answers:
    """Asks the LM and enters what its answers cost.

    An answer that was read before costs what it cost then, so that a search that was killed and goes on spends the
    same and takes the same decisions.

    Args:
        run: keeps what was read.
        graph: says how a query is answered.
        meter: what has been spent.
    """

    def __init__(self, run: Run, graph: Graph, meter: Meter) -> None:
        self.graph, self.task, self.meter = graph, graph.task, meter
        self.lm = run.lm(graph.lm)
        self._entered: set[tuple[str, ...]] = set()

    def tokens(self, prompts: Sequence[str], queries: Sequence[Example]) -> np.ndarray:
        """Return the largest number of tokens that each answer takes, float64 [N]."""
        return self._answer_tokens(queries) + self.lm.count_tokens(prompts) + _SPECIAL

    def _answer_tokens(self, queries: Sequence[Example]) -> np.ndarray:
        if not queries[0].choices:
            return np.full(len(queries), float(self.task.max_new_tokens))
        texts = sorted({text for query in queries for text in self._options(query)})
        lengths = dict(zip(texts, self.lm.count_tokens(texts), strict=True))
        return np.array([float(sum(lengths[text] for text in self._options(query))) for query in queries])

    def _options(self, query: Example) -> list[str]:
        return [self.task.template.continuation(query, choice) for choice in query.choices]

    def ask(
        self, prompts: Sequence[str], queries: Sequence[Example], estimated: np.ndarray, what: str
    ) -> list[str]:
        """Return the LM's answer to each prompt.

        Args:
            prompts: N prompts.
            queries: the query of each; its gold output is not read.
            estimated: float [N], what `tokens` gave.
            what: the progress bar's label.

        Raises:
            OutOfTime: the seconds of the budget are spent.
        """
        keys = [(prompt, *self._options(query)) for prompt, query in zip(prompts, queries, strict=True)]
        asked = dict(zip(keys, zip(prompts, queries, estimated, strict=True), strict=True))
        found: dict[tuple[str, ...], str] = {}
        order, limit = list(asked), self.meter.limits.seconds
        for start in range(0, len(order), _CHUNK):
            some = order[start : start + _CHUNK]
            new = [key for key in some if key not in self._entered]
            if new and limit is not None and self.meter.seconds > limit:
                raise OutOfTime
            began = time.perf_counter()
            with self.lm.metered(what) as spent:
                given = [asked[key][:2] for key in new]
                if new:
                    found |= zip(new, self._answers(*zip(*given, strict=True)), strict=True)
            if new:
                inside = time.perf_counter() - began
                tokens = sum(float(asked[key][2]) for key in new)
                self.meter.spend(spent.cost.tokens, len(new), spent.cost.seconds, tokens, inside)
                self._entered |= set(new)
            again = [key for key in some if key not in found]
            if again:
                texts = self._answers(*zip(*(asked[key][:2] for key in again), strict=True))
                found |= zip(again, texts, strict=True)
        return [found[key] for key in keys]

    def _answers(self, prompts: Sequence[str], queries: Sequence[Example]) -> list[str]:
        return ask(self.lm, self.graph.answering, self.task.stop, prompts, queries)
