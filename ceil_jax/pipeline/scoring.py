"""Scores of candidate sets: the LM's, or the similarity of outputs; and the λ that scores choose."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.lm import LanguageModel
from ceil_jax.lm.prompts import ORDERS, Fit, PromptBuilder, answer_reserve
from ceil_jax.lm.readings import LMRequest, ReadingMeter, Readings, ReadLM
from ceil_jax.pipeline.encoders import Untrained, vectors
from ceil_jax.pipeline.models import LM
from ceil_jax.pipeline.stage import Run, Stage, Work, unkeyed
from ceil_jax.pipeline.views import Rows
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.store.shards import Shard
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets, ScoredSets, join_tasks
from ceil_jax.training.contrastive import output_similarity
from ceil_jax.training.scoring import scored_sets, set_prompts
from ceil_jax.training.tuning import TRADE_OFFS, best_trade_off

log = logging.getLogger(__name__)

SAMPLED = 24
"""Queries whose prompts are counted to estimate those of all."""


@dataclass(frozen=True)
class Prompting:
    """The prompts of a task for an LM."""

    lm: LM
    template: Template
    few_shot: tuple[Example, ...] = ()
    fit: Fit = "greedy"
    order: str = "relevance"
    per_token: bool = False
    max_new_tokens: int = 128
    token_budget: int | None = None

    def __post_init__(self) -> None:
        # an unknown order is refused before anything is computed
        ORDERS[self.order]

    def builder(self, run: Run, queries: Sequence[Example]) -> PromptBuilder:
        """Return the builder of prompts for these queries."""
        lm = run.lm(self.lm)
        reserve = answer_reserve(lm, self.template, queries, self.max_new_tokens)
        return PromptBuilder(lm, self.template, reserve, self.few_shot, self.token_budget, self.order)


def random_sets(queries: int, bank: int, sets: int, size: int) -> CandidateSets:
    """Return random sets that stand in for those that are not drawn yet, to count their tokens."""
    rng = np.random.default_rng(0)
    n = min(bank, max(size, 50))
    shortlist = np.stack([rng.permutation(bank)[:n] for _ in range(queries)]).astype(np.int32)
    drawn = [[np.sort(rng.permutation(n)[:size]) for _ in range(sets)] for _ in range(queries)]
    return CandidateSets(shortlist, np.array(drawn, np.int32).reshape(queries, sets, min(size, n)))


def counted(run: Run, lm: LM, requests: Sequence[LMRequest], share: float, answers: Sequence[str]) -> Work:
    """Return the work of reading requests, less what has been read.

    Args:
        run: its LM may be one that only counts.
        lm: the LM.
        requests: a sample.
        share: the size of all relative to that of the sample.
        answers: texts as long as those that are generated.
    """
    reading: ReadLM = run.lm(lm)
    left = reading.missing(requests) / max(1, len({one.key(reading.name) for one in requests}))
    counting = run.models.counting(lm)
    if not requests:
        return Work()
    read, written = counting.count(requests, answers)
    return Work(read * share * left, written * share * left, parameters=counting.parameters)


@dataclass(frozen=True)
class Scores(Stage[dict[str, np.ndarray]]):
    """The LM's scores of candidate sets, float64 [Q, M] by name.

    `log_prob` is Σ log P of the gold output's tokens given set and query, in nats. On tasks with choices `choice` is
    log P of the gold choice less the log of all choices' summed probability.
    """

    prompting: Prompting
    queries: Rows
    bank: Rows
    sets: Stage[CandidateSets]
    shape: tuple[int, int] = unkeyed((1, 1))
    """M sets of k examples, to estimate what reading them takes."""
    label: str = unkeyed("candidate sets")

    @property
    def what(self) -> str:
        return f"scoring {self.label}"

    def _prompts(self, run: Run, queries: Sequence[Example], sets: CandidateSets) -> list[str]:
        builder = self.prompting.builder(run, queries)
        return set_prompts(queries, self.bank.examples, sets, builder, self.prompting.fit)

    def _read(self, run: Run, lm: LanguageModel) -> dict[str, np.ndarray]:
        queries = self.queries.examples
        prompts = self._prompts(run, queries, run.get(self.sets))
        return scored_sets(lm, queries, prompts, self.prompting.template, self.prompting.per_token)

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        save_arrays(folder / "scores.npz", **self._read(run, run.lm(self.prompting.lm)))
        return {}

    def read_shard(self, run: Run, shard: Shard) -> ReadingMeter:
        """Read one shard's part of the prompts into its own file, and return how many they are and their cost."""
        reader = None if run.engine is None else run.engine(self.prompting.lm)
        lm = ReadLM(self.prompting.lm.get(), Readings(run.root, shard), reader, shard)
        with lm.metered(f"{self.what}, shard {shard}") as meter:
            self._read(run, lm)
        return meter

    def load(self, run: Run, folder: Path) -> dict[str, np.ndarray]:
        return load_arrays(folder / "scores.npz")

    def estimate(self, run: Run) -> Work:
        asked = self.queries.examples[:: max(1, len(self.queries) // SAMPLED)]
        sets = random_sets(len(asked), len(self.bank), *self.shape)
        if self.sets.in_memory or run.summary(self.sets) is not None:
            step = max(1, len(self.queries) // SAMPLED)
            sets = CandidateSets(*(one[::step] for one in run.get(self.sets)))
        prompts = self._prompts(run, asked, sets)
        each = len(prompts) // max(1, len(asked))
        owners = [query for query in asked for _ in range(each)]
        template, per_token = self.prompting.template, self.prompting.per_token
        requests = [
            LMRequest(prompt, tuple(template.continuation(q, c) for c in q.choices or (q.output,)), per_token)
            for prompt, q in zip(prompts, owners, strict=True)
        ]
        return counted(run, self.prompting.lm, requests, len(self.queries) / max(1, len(asked)), ())


@dataclass(frozen=True)
class FixedSets(Stage[CandidateSets]):
    """Candidate sets that are given."""

    in_memory: ClassVar[bool] = True
    sets: CandidateSets

    def load(self, run: Run, folder: Path) -> CandidateSets:
        return self.sets


@dataclass(frozen=True)
class OutputSimilarity(Stage[dict[str, np.ndarray]]):
    """TST's scores in place of an LM's: the cosine of a query's output with each candidate's."""

    encoder: Untrained
    queries: Rows
    bank: Rows
    sets: Stage[CandidateSets]

    @property
    def what(self) -> str:
        return "comparing outputs"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        encoder, sets = run.get(self.encoder).query, run.get(self.sets)
        asked, bank = (
            unit_rows(vectors(run, encoder, [example.output for example in rows.examples]))
            for rows in (self.queries, self.bank)
        )
        save_arrays(folder / "scores.npz", log_prob=output_similarity(asked, bank, sets.shortlist))
        return {}

    def load(self, run: Run, folder: Path) -> dict[str, np.ndarray]:
        return load_arrays(folder / "scores.npz")


@dataclass(frozen=True)
class Scored(Stage[ScoredSets]):
    """Training queries with their candidate sets and the scores of these."""

    in_memory: ClassVar[bool] = True
    positions: np.ndarray = field(repr=False)
    """int32 [Q]: bank positions of the queries."""
    sets: Stage[CandidateSets]
    scores: Scores | OutputSimilarity

    def load(self, run: Run, folder: Path) -> ScoredSets:
        return ScoredSets(
            self.positions, run.get(self.sets), run.get(self.scores)["log_prob"].astype(np.float32)
        )


@dataclass(frozen=True)
class Joined(Stage[ScoredSets]):
    """The training queries of several tasks, whose banks are joined in the same order."""

    in_memory: ClassVar[bool] = True
    parts: tuple[Stage[ScoredSets], ...]
    banks: tuple[int, ...]

    def load(self, run: Run, folder: Path) -> ScoredSets:
        return join_tasks([run.get(part) for part in self.parts], self.banks)


@dataclass(frozen=True)
class TradeOff(Stage[float]):
    """λ: the one of the grid whose MAP sets make the right outputs of training queries most probable."""

    scores: Scores
    label: str = unkeyed("")

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        found = run.get(self.scores)
        chosen = best_trade_off(found.get("choice", found["log_prob"]))
        log.info("%s: λ = %g of %s", self.label, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS))
        return {"trade_off": chosen}

    def load(self, run: Run, folder: Path) -> float:
        summary = run.summary(self)
        assert summary is not None
        return summary["trade_off"]


@dataclass(frozen=True)
class Middle(Stage[float]):
    """The middle one of several λ."""

    in_memory: ClassVar[bool] = True
    trade_offs: tuple[float | Stage[float], ...]

    def load(self, run: Run, folder: Path) -> float:
        found = sorted(run.get(one) if isinstance(one, Stage) else one for one in self.trade_offs)
        return found[len(found) // 2]
