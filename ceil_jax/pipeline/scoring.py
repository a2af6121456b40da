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
from ceil_jax.lm.prompts import ORDERS, Fit, PromptBuilder, answer_reserve
from ceil_jax.lm.readings import CachedLM, LMRequest, ReadingMeter, Readings
from ceil_jax.pipeline.models import NamedLM
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import Examples
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.store.shards import Shard
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.contrastive import output_similarity
from ceil_jax.training.scoring import read_outputs, score_sets, set_prompts
from ceil_jax.training.trade_offs import TRADE_OFFS, best_trade_off, trade_off_note

log = logging.getLogger(__name__)

LOG_DET_SHARE = "log_det_share"
"""The name of `training.trade_offs.log_det_share` in the summary of `choosing.MapSets`."""

SAMPLED = 24
"""Number of queries whose prompts are counted to estimate the tokens of all."""


@dataclass(frozen=True)
class Prompting:
    """The prompts of a task for an LM."""

    lm: NamedLM
    template: Template
    few_shot: tuple[Example, ...] = ()
    fit: Fit = "greedy"
    order: str = "relevance"
    per_token: bool = False
    max_new_tokens: int = 128
    token_budget: int | None = None

    def __post_init__(self) -> None:
        # refuse an unknown order before anything is computed
        ORDERS.require(self.order)

    @property
    def registered(self) -> tuple[Any, ...]:
        """The order of examples. A plugin's code becomes part of the key."""
        return (ORDERS[self.order],)

    def builder(self, run: Run, queries: Sequence[Example]) -> PromptBuilder:
        """Return a prompt builder for these queries."""
        lm = run.lm(self.lm)
        reserve = answer_reserve(lm, self.template, queries, self.max_new_tokens)
        return PromptBuilder(
            lm, self.template, reserve, self.few_shot, self.token_budget, self.order
        )


def sample(count: int) -> slice:
    """Return a slice that takes about SAMPLED of `count` queries, evenly spaced."""
    return slice(None, None, max(1, count // SAMPLED))


def work_of_reading(
    run: Run,
    lm: NamedLM,
    requests: Sequence[LMRequest],
    times: float,
    answers: Sequence[str] = (),
    *,
    together: bool = False,
) -> Work:
    """Return the work of reading `times` as many prompts as in a sample of requests, less those
    that have been read before. The run's LM may be one that only counts tokens.

    Args:
        run: gives the LM and its readings.
        lm: reads the prompts.
        requests: a sample of the prompts with their continuations.
        times: how many times as many prompts there are in all.
        answers: texts that are as long as the generated answers.
        together: whether prompts with the same beginning follow one another, so that a local LM
            reads the beginning once.
    """
    if not requests:
        return Work()
    reader = run.lm(lm)
    counting = run.models.counting(lm)
    unread = reader.missing(requests) / len({request.key(reader.name) for request in requests})
    read, written = counting.count(requests, answers, together=together)
    return Work(times * unread * read, times * unread * written, parameters=counting.parameters)


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

    def prompts(self, run: Run, queries: Sequence[Example], sets: CandidateSets) -> Lazy[str]:
        builder = self.prompting.builder(run, queries)
        return set_prompts(queries, self.bank.examples, sets, builder, self.prompting.fit)

    def reading_order(self, queries: int, sets: int) -> np.ndarray | None:
        """Return the order in which the prompts of `sets` sets of each query are read; None for query
        by query."""
        return None

    def _score(self, run: Run, lm: CachedLM) -> dict[str, np.ndarray]:
        queries = self.queries.examples
        sets = run.get(self.sets)
        prompts = self.prompts(run, queries, sets)
        return score_sets(
            lm,
            queries,
            prompts,
            self.prompting.template,
            self.prompting.per_token,
            self.all_choices,
            self.reading_order(len(queries), sets.subsets.shape[1]),
        )

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        save_arrays(folder / "scores.npz", **self._score(run, run.lm(self.prompting.lm)))
        return {}

    def read_shard(self, run: Run, shard: Shard) -> ReadingMeter:
        """Read one shard's part of the prompts into a file of its own, and return a meter with
        their number and cost."""
        named = self.prompting.lm
        lm = CachedLM(named.get(), Readings(run.root, shard), named.reader(), shard)
        with lm.metered(f"{self.what}, shard {shard}") as meter:
            self._score(run, lm)
        return meter

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
        prompts = iter(self.prompts(run, sampled, sets))
        template = self.prompting.template
        per_token = self.prompting.per_token
        requests = [
            LMRequest(
                next(prompts),
                tuple(
                    template.continuation(query, output)
                    for output in read_outputs(query, self.all_choices)
                ),
                per_token and bool(query.choices),
            )
            for query in sampled
            for _ in range(sets.subsets.shape[1])
        ]
        return work_of_reading(run, self.prompting.lm, requests, times)

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
