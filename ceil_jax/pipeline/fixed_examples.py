"""The stage that finds one set of examples for all queries (`methods.fixed`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from ceil_jax.lm.messages import Rendered
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.prompting import Prompting, work_of_reading
from ceil_jax.pipeline.stage import Run, Stage, Work
from ceil_jax.pipeline.views import BankQueries, Examples
from ceil_jax.pipeline.ways import ask, way_of_answering
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.tasks.example import Example
from ceil_jax.training.scoring import score_sets

_SET_DRAWS = 12
"""Beside the seed, of the random sets."""

_SAMPLED_SETS = 4
"""Number of sets whose prompts are counted to estimate the tokens of all."""


@dataclass(frozen=True)
class BestSet(Stage[np.ndarray]):
    """The bank positions of the best of random sets, int32 [k]. A prompt shows them in reverse
    order, as when the set was scored."""

    version: ClassVar[int] = 2
    what = "searching for the fixed examples"
    prompting: Prompting
    stop: tuple[str, ...]
    metric: str
    """Scores the answers of an LM that gives no log-probabilities."""
    bank: Examples
    rounds: tuple[BankQueries, ...]
    """The new rows of each round. No set contains one of them, so that no prompt has its answer."""
    sets: int
    size: int
    seed: int

    @property
    def registered(self) -> tuple[Any, ...]:
        """The metric. A plugin's code becomes part of the key."""
        return (METRICS[self.metric],)

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        sets = self._random_sets()
        scores = np.empty((0, len(sets)))
        for rows in self.rounds:
            scores = np.vstack([scores, self._scores(run, rows.examples, sets)])
            better = np.argsort(-scores.mean(axis=0), kind="stable")[: max(1, len(sets) // 2)]
            sets, scores = sets[better], scores[:, better]
        save_arrays(folder / "set.npz", positions=sets[0].astype(np.int32))
        return {"sets": self.sets, "size": self.size, "rows": len(scores)}

    def _random_sets(self) -> Int[np.ndarray, "m k"]:
        held_back = np.concatenate([rows.positions for rows in self.rounds])
        others = np.setdiff1d(np.arange(len(self.bank)), held_back)
        generator = np.random.default_rng([self.seed, _SET_DRAWS])
        return np.array([generator.permutation(others)[: self.size] for _ in range(self.sets)])

    def _prompts(
        self, run: Run, queries: Sequence[Example], sets: Int[np.ndarray, "m k"]
    ) -> tuple[list[Rendered], list[Example]]:
        """The prompts of all sets with their queries, set by set: those of a set begin alike."""
        builder = self.prompting.builder(run, queries)
        relevance = [-rank for rank in range(1, self.size + 1)]
        prompts = [
            builder.build(
                query, [self.bank.examples[i] for i in positions], relevance, self.prompting.fit
            ).prompt
            for positions in sets
            for query in queries
        ]
        return prompts, list(queries) * len(sets)

    def _scores(
        self, run: Run, queries: Sequence[Example], sets: Int[np.ndarray, "m k"]
    ) -> Float[np.ndarray, "q m"]:
        """P of the right choice, log P of a written output, or the metric of an answer."""
        lm = run.lm(self.prompting.lm)
        prompts, asked = self._prompts(run, queries, sets)
        if lm.can_score:
            how = (self.prompting.prompt, self.prompting.per_token)
            scored = score_sets(lm, asked, prompts, *how, all_choices=True)
            values = np.exp(scored["choice"]) if "choice" in scored else scored["lm_scores"]
        else:
            replies = ask(lm, self.prompting, self.stop, prompts, asked)
            answers = [reply.prediction for reply in replies]
            values = np.asarray(METRICS[self.metric].scored(answers, asked), np.float64)
        return values.reshape(len(sets), len(queries)).T

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "set.npz")["positions"]

    def estimate(self, run: Run) -> Work:
        queries = self.rounds[0].examples
        prompts, asked = self._prompts(run, queries, self._random_sets()[:_SAMPLED_SETS])
        if self.prompting.lm.can_score:
            requests = [
                self.prompting.scoring_request(prompt, query, all_choices=True)
                for prompt, query in zip(prompts, asked, strict=True)
            ]
        else:
            way = way_of_answering(run.lm(self.prompting.lm), self.prompting, self.stop, queries)
            requests = way.requests(prompts, asked)
        read = sum(
            max(1, self.sets >> number) * len(rows) for number, rows in enumerate(self.rounds)
        )
        answers = [query.output for query in queries]
        times = read / len(requests)
        return work_of_reading(run, self.prompting.lm, requests, times, answers, together=True)
