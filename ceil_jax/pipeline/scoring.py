"""Stages of the scores of candidate sets, by the LM or by the similarity of outputs, and of λ,
which is chosen by scores."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.lm.lazy import Lazy
from ceil_jax.lm.messages import Rendered
from ceil_jax.lm.request import LMRequest
from ceil_jax.pipeline.prompting import Prompting, sample, work_of_reading
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import Examples
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.contrastive import output_similarity
from ceil_jax.training.scoring import score_sets, set_prompts
from ceil_jax.training.trade_offs import TRADE_OFFS, best_trade_off, trade_off_note

log = logging.getLogger(__name__)

LOG_DET_SHARE = "log_det_share"
"""The name of `training.trade_offs.log_det_share` in the summary of `choosing.MapSets`."""


@dataclass(frozen=True)
class Scores(Stage[dict[str, np.ndarray]]):
    """The LM's scores of candidate sets, float64 [Q, M] by name
    (`training.scoring.score_sets`)."""

    version: ClassVar[int] = 2
    prompting: Prompting
    queries: Examples
    bank: Examples
    sets: Stage[CandidateSets]
    shape: tuple[int, int] = unkeyed((1, 1))
    """(M, k): number of sets and of examples in each, to estimate the work."""
    label: str = unkeyed("candidate sets")
    differing: float = unkeyed(1.0)
    """The expected share of distinct sets: equal ones are read once."""
    all_choices: bool = False
    """Whether the LM reads all choices of a query, and not only the gold one. `TradeOff` and fixed
    prompts compare the probabilities of choices; training needs only the gold one's."""

    @property
    def what(self) -> str:
        return f"scoring {self.label}"

    def prompts(self, run: Run, queries: Sequence[Example], sets: CandidateSets) -> Lazy[Rendered]:
        builder = self.prompting.builder(run, queries)
        return set_prompts(queries, self.bank.examples, sets, builder, self.prompting.fit)

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        queries = self.queries.examples
        sets = run.get(self.sets)
        scores = score_sets(
            run.lm(self.prompting.lm),
            queries,
            self.prompts(run, queries, sets),
            self.prompting.prompt,
            self.prompting.per_token,
            self.all_choices,
        )
        save_arrays(folder / "scores.npz", **scores)
        return {}

    def load(self, run: Run, folder: Path) -> dict[str, np.ndarray]:
        return load_arrays(folder / "scores.npz")

    def estimate(self, run: Run) -> Work:
        some = sample(len(self.queries))
        sampled = self.queries.examples[some]
        times = len(self.queries) / max(1, len(sampled))
        if run.summary(self.sets):
            sets = CandidateSets(*(array[some] for array in run.get(self.sets)))
        else:
            sets = self._random_sets(len(sampled))
            times *= self.differing
        requests = self.requests(run, sampled, sets)
        return work_of_reading(run, self.prompting.lm, requests, times)

    def requests(
        self, run: Run, queries: Sequence[Example], sets: CandidateSets
    ) -> list[LMRequest]:
        """Return the LM request that scores each set of each query, query by query, to estimate the
        work. They are the requests that `compute` makes, so that readings of them are found."""
        sets_of_query = sets.subsets.shape[1]
        return [
            self.prompting.scoring_request(
                prompt, queries[number // sets_of_query], all_choices=self.all_choices
            )
            for number, prompt in enumerate(self.prompts(run, queries, sets))
        ]

    def _random_sets(self, queries: int) -> CandidateSets:
        """Random sets in place of those that are not drawn yet, to estimate the tokens of
        prompts."""
        generator = np.random.default_rng(0)
        sets, size = self.shape
        n = min(len(self.bank), max(size, 50))
        shortlists = [generator.permutation(len(self.bank))[:n] for _ in range(queries)]
        drawn = [
            [np.sort(generator.permutation(n)[:size]) for _ in range(sets)] for _ in range(queries)
        ]
        subsets = np.array(drawn, np.int32).reshape(queries, sets, min(size, n))
        return CandidateSets(np.stack(shortlists).astype(np.int32), subsets)


@dataclass(frozen=True)
class OutputScores(Stage[dict[str, np.ndarray]]):
    """TST's scores, in place of an LM's: the cosine between a query's output and each
    candidate's."""

    version: ClassVar[int] = 2
    what = "comparing outputs"
    kind = "outputsimilarity"
    queries: Stage[np.ndarray]
    """The vectors of the queries' outputs, unit rows."""
    bank: Stage[np.ndarray]
    """The vectors of the bank's outputs, unit rows."""
    sets: Stage[CandidateSets]

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        shortlist = run.get(self.sets).shortlist
        similarity = output_similarity(run.get(self.queries), run.get(self.bank), shortlist)
        save_arrays(folder / "scores.npz", lm_scores=similarity)
        return {}

    def load(self, run: Run, folder: Path) -> dict[str, np.ndarray]:
        return load_arrays(folder / "scores.npz")


@dataclass(frozen=True)
class ScoredCandidates(Stage[ScoredSets]):
    """The candidate sets of training queries, with their scores."""

    in_memory: ClassVar[bool] = True
    kind = "scored"
    sets: Stage[CandidateSets]
    scores: Scores | OutputScores

    def load(self, run: Run, folder: Path) -> ScoredSets:
        return ScoredSets(run.get(self.sets), run.get(self.scores)["lm_scores"].astype(np.float32))


@dataclass(frozen=True)
class TradeOff(Stage[float]):
    """The tuned λ: the value of the grid whose MAP sets make the right outputs of training queries
    most probable. A note is logged if it is so small that the determinant has no influence."""

    scores: Scores
    """The LM's scores of the sets of `choosing.MapSets`."""
    label: str = unkeyed("")

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        scores = run.get(self.scores)
        chosen = best_trade_off(scores.get("choice", scores["lm_scores"]))
        log.info(
            "%s: λ = %g of %s", self.label, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS)
        )
        run.get(self.scores.sets)
        note = trade_off_note(chosen, run.summary(self.scores.sets)[LOG_DET_SHARE])
        if note:
            log.info("%s: %s", self.label, note)
        return {"trade_off": chosen, "note": note}

    def load(self, run: Run, folder: Path) -> float:
        return run.summary(self)["trade_off"]
