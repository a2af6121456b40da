"""Stages of choosing: the examples for each query, and the candidate sets for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.pipeline.prompting import Prompting
from ceil_jax.pipeline.rewriting import Skills
from ceil_jax.pipeline.scoring import LOG_DET_SHARE
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.views import Examples, RetrievalTexts
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.retriever import (
    Choice,
    Queries,
    RetrieverArguments,
    RetrieverKind,
    check_needs,
    checked_choice,
)
from ceil_jax.skills.sketches import PARTS
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.samplers import Sampler, SamplerInputs
from ceil_jax.training.trade_offs import log_det_share, map_sets


@dataclass(frozen=True)
class Choose(Stage[Choice]):
    """The examples that a retriever chooses for each query, in order of choice."""

    retriever: RetrieverKind
    bank: RetrievalTexts
    queries: RetrievalTexts
    k: int
    bank_vectors: Stage[np.ndarray] | None = None
    query_vectors: Stage[np.ndarray] | None = None
    encoders: Stage[EncoderPair] | None = None
    """For a retriever that embeds texts itself."""
    trade_off: float | Stage[float] | None = None
    shortlist: int | None = None
    seed: int | None = None
    skills: tuple[tuple[Skills, ...], ...] = ()
    """For a retriever that reads skills: those of the bank and those of the queries, one stage for
    each order of the demonstrations."""
    language: str = ""
    min_relevance: float | None = None
    fixed: Stage[np.ndarray] | None = None
    """For a retriever with fixed examples: their bank positions."""

    @property
    def what(self) -> str:
        return f"choosing examples ({self.retriever.name})"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        bank = run.get(self.bank)
        examples = run.get(self.queries)
        trade_off = run.value(self.trade_off)
        retriever = self.retriever.retriever(self._arguments(run, bank, trade_off))
        queries = Queries(
            examples,
            # by id, because the texts may be skills, which many examples share
            OwnRows(bank, "id")(examples),
            None if self.query_vectors is None else run.get(self.query_vectors),
        )
        answer = retriever.choose(queries, self.k)
        choice = checked_choice(self.retriever, answer, queries, len(bank), self.k)
        save_arrays(
            folder / "choice.npz",
            positions=choice.positions.astype(np.int32),
            relevance=choice.relevance.astype(np.float64),
            gains=choice.gains.astype(np.float64),
        )
        return {} if trade_off is None else {"trade_off": trade_off}

    def _arguments(
        self, run: Run, bank: Sequence[Example], trade_off: float | None
    ) -> RetrieverArguments:
        """The arguments that the retriever is built from, which lack nothing that it needs. A
        retriever does not read what it does not need, so that any value may stand there."""
        sketch = PARTS.get(self.language)
        check_needs(
            self.retriever,
            # `row_stages.choice` gives encoders and skills to every retriever that needs them
            encoder=True,
            rewrite=True,
            sketch=sketch is not None,
            trade_off=trade_off,
            fixed=self.fixed is not None,
        )
        skills = self._skills_of_questions(run)

        def rewrite(some: Sequence[Example]) -> list[list[str]]:
            return [skills[_question(example)] for example in some]

        return RetrieverArguments(
            bank,
            vectors=None if self.bank_vectors is None else run.get(self.bank_vectors),
            encoder=None if self.encoders is None else run.get(self.encoders),
            trade_off=0.0 if trade_off is None else trade_off,
            shortlist=self.shortlist or 1,
            min_relevance=self.min_relevance,
            fixed=() if self.fixed is None else run.get(self.fixed).tolist(),
            seed=self.seed or 0,
            rewrite=rewrite,
            sketch=sketch,
        )

    def _skills_of_questions(self, run: Run) -> dict[tuple[str, str], list[str]]:
        """The skills of every question of the bank and of the queries, one for each order of the
        demonstrations."""
        skills: dict[tuple[str, str], list[str]] = {}
        for orders in self.skills:
            examples = orders[0].rows.examples
            skills_by_order = [run.get(order) for order in orders]
            for number, example in enumerate(examples):
                skills[_question(example)] = [of_order[number] for of_order in skills_by_order]
        return skills

    def load(self, run: Run, folder: Path) -> Choice:
        return Choice(**load_arrays(folder / "choice.npz"))


def _question(example: Example) -> tuple[str, str]:
    """What the skill of an example depends on: its input, and the schema of its database if the task
    has one."""
    return example.input, example.fields.get("schema", "")


class StoredSets(Stage[CandidateSets]):
    """Candidate sets, kept as arrays."""

    def save(self, folder: Path, sets: CandidateSets) -> Mapping[str, Any]:
        save_arrays(
            folder / "sets.npz",
            shortlist=sets.shortlist,
            subsets=np.ascontiguousarray(sets.subsets),
        )
        return {}

    def load(self, run: Run, folder: Path) -> CandidateSets:
        return CandidateSets(**load_arrays(folder / "sets.npz"))


@dataclass(frozen=True)
class Sets(StoredSets):
    """The candidate sets that a method is trained on, drawn with the encoders of its start."""

    what = "drawing candidate sets"
    sampler: Sampler
    queries: RetrievalTexts
    bank: RetrievalTexts
    seed: int
    nearest: Choose | None = None
    """The shortlist of each query, for a sampler that needs one."""
    query_vectors: Stage[np.ndarray] | None = None
    bank_vectors: Stage[np.ndarray] | None = None
    trade_off: float | Stage[float] | None = None

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        queries = run.get(self.queries)
        shortlist = np.empty((len(queries), 0), np.int32)
        relevance = np.empty((len(queries), 0), np.float32)
        if self.nearest is not None:
            nearest = run.get(self.nearest)
            shortlist = nearest.positions
            relevance = nearest.relevance.astype(np.float32)
        inputs = SamplerInputs(
            queries,
            run.get(self.bank),
            self.seed,
            shortlist,
            relevance,
            None if self.query_vectors is None else run.get(self.query_vectors),
            None if self.bank_vectors is None else run.get(self.bank_vectors),
            run.value(self.trade_off),
        )
        return self.save(folder, self.sampler.draw(inputs))


@dataclass(frozen=True)
class MapSets(StoredSets):
    """The MAP sets of training queries, one for each λ of the grid, cut to the prompt's token
    budget."""

    what = "MAP sets of each λ"
    version: ClassVar[int] = 2
    nearest: Choose
    query_vectors: Stage[np.ndarray]
    bank_vectors: Stage[np.ndarray]
    size: int
    prompting: Prompting
    queries: Examples
    examples: Examples

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        shortlist = run.get(self.nearest).positions
        queries = self.queries.examples
        builder = self.prompting.builder(run, queries)
        remaining = np.array([builder.remaining(query) for query in queries])
        costs = builder.costs(self.examples.examples, shortlist)
        query_vectors = run.get(self.query_vectors)
        bank_vectors = run.get(self.bank_vectors)
        sets = map_sets(
            query_vectors,
            bank_vectors,
            shortlist,
            self.size,
            self.prompting.fit,
            costs,
            remaining,
        )
        share = log_det_share(query_vectors, bank_vectors, shortlist, self.size)
        return {**self.save(folder, sets), LOG_DET_SHARE: share}
