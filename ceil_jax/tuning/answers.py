"""Answers of an LM, kept by the content of their prompts, so that the same prompt is read once in all searches."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ceil_jax.lm.base import LanguageModel
from ceil_jax.pipeline.evaluate import ask
from ceil_jax.racing.budget import Meter
from ceil_jax.store.hashing import digest
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task

_CHUNK = 32
"""Prompts that the LM is given at a time."""

_SPECIAL = 2
"""Tokens that a tokenizer may put around a text."""


class OutOfTime(Exception):
    """The seconds are spent; what was answered is kept."""


class Answers:
    """Asks the LM, keeps its answers on disk, and enters what they cost.

    An answer that is on disk already costs what it cost then, so that a search that was killed and goes on spends the
    same and takes the same decisions.

    Args:
        store: keeps the answers.
        lm: the LM.
        task: says how a query is answered.
        meter: what has been spent.
    """

    def __init__(self, store: Store, lm: LanguageModel, task: Task, meter: Meter) -> None:
        self.store, self.lm, self.task, self.meter = store, lm, task, meter
        self._entered: dict[str, float] = {}

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
        keys = [
            digest([prompt, self._options(query)]) for prompt, query in zip(prompts, queries, strict=True)
        ]
        asked = dict(zip(keys, zip(prompts, queries, strict=True), strict=True))
        new = {key: tokens for key, tokens in zip(keys, estimated, strict=True) if key not in self._entered}
        limit = self.meter.limits.seconds

        def work(some: list[str]) -> list[str]:
            if limit is not None and self.meter.seconds > limit:
                raise OutOfTime
            return ask(self.lm, self.task, *zip(*(asked[key] for key in some), strict=True))

        key = {
            "lm": self.lm.name,
            "answers": [self.task.max_new_tokens, list(self.task.stop)],
            "per_token": self.task.per_token,
        }
        with self.store.stage("answers", key) as stage:
            began = time.perf_counter()
            if new:
                rows = stage.keyed_rows(
                    list(new), work, chunk=_CHUNK, what=what, cost=lambda: self.lm.tokens_read
                )
                inside = time.perf_counter() - began
                self.meter.spend(rows.tokens, len(new), rows.seconds, sum(new.values()), inside)
                self._entered |= new
            return list(stage.keyed_rows(keys, work, chunk=_CHUNK, what=what))
