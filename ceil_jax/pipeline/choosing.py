"""Stages of choosing: a retriever's examples, and the candidate sets that training learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ceil_jax.pipeline.encoders import Encoders, cached
from ceil_jax.pipeline.scoring import Prompting
from ceil_jax.pipeline.stage import Run, Stage, unkeyed
from ceil_jax.pipeline.views import Examples, RetrievalTexts, Skills
from ceil_jax.retrieval.registry import Retrieved, build_retriever, check_retrieved
from ceil_jax.retrieval.retrievers import retrieved
from ceil_jax.skills.sketches import PARTS
from ceil_jax.store.folder import load_arrays, save_arrays
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import CandidateSets, epr_candidates
from ceil_jax.training.samplers import bank_sets, k_dpp_sets, uniform_sets
from ceil_jax.training.tuning import map_sets


@dataclass(frozen=True)
class Chosen(Stage[list[list[Retrieved]]]):
    """The examples that a retriever chooses for each query, in the order in which it chose them."""

    retriever: str
    bank: RetrievalTexts
    queries: RetrievalTexts
    k: int
    encoders: Stage[Encoders] | None = None
    vectors: tuple[Stage[np.ndarray], ...] = unkeyed(())
    """Listed so that plans and costs have them: `compute` gets the same vectors by the content of
    their texts."""
    trade_off: float | Stage[float] | None = None
    shortlist: int | None = None
    seed: int | None = None
    skills: tuple[tuple[Skills, ...], ...] = ()
    """The skills of the bank and of the queries, one for each order."""
    language: str = ""

    @property
    def what(self) -> str:
        return f"choosing examples ({self.retriever})"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        bank, queries = run.get(self.bank), run.get(self.queries)
        encoders = self.encoders and run.get(self.encoders)
        given = run.value(self.trade_off)
        rewritten = {
            _question(example): skills
            for side in self.skills
            for example, *skills in zip(
                side[0].rows.examples, *(run.get(one) for one in side), strict=True
            )
        }
        found = build_retriever(
            self.retriever,
            bank,
            encoder=encoders and cached(run, encoders.context),
            query_encoder=encoders and cached(run, encoders.query),
            trade_off=0.0 if given is None else given,
            shortlist=self.shortlist or 1,
            seed=self.seed or 0,
            rewrite=lambda examples: [rewritten[_question(one)] for one in examples],
            sketch=PARTS.get(self.language),
            known_by="id",  # the texts may be skills
        ).retrieve(queries, self.k)
        check_retrieved(self.retriever, found, len(queries), bank, self.k)
        save_arrays(
            folder / "chosen.npz",
            positions=shortlists(found),
            relevance=_padded(
                [[pick.relevance for pick in row] for row in found], -np.inf, np.float64
            ),
            gain=_padded([[pick.gain for pick in row] for row in found], -np.inf, np.float64),
        )
        return {} if given is None else {"trade_off": given}

    def load(self, run: Run, folder: Path) -> list[list[Retrieved]]:
        bank, found = run.get(self.bank), load_arrays(folder / "chosen.npz")
        rows = zip(found["positions"], found["relevance"], found["gain"], strict=True)
        return [retrieved(bank, *row) for row in rows]


def _question(example: Example) -> tuple[str, str]:
    return example.input, example.fields.get("schema", "")


def _padded(rows: Sequence[Sequence[float]], empty: float, dtype: DTypeLike) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows), default=0)), empty, dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out


class StoredSets(Stage[CandidateSets]):
    """Candidate sets, kept as arrays."""

    def save(self, folder: Path, found: CandidateSets) -> Mapping[str, Any]:
        save_arrays(
            folder / "sets.npz",
            shortlist=found.shortlist,
            subsets=np.ascontiguousarray(found.subsets),
        )
        return {}

    def load(self, run: Run, folder: Path) -> CandidateSets:
        return CandidateSets(**load_arrays(folder / "sets.npz"))


@dataclass(frozen=True)
class Singles(StoredSets):
    """EPR's candidates: single examples that BM25 finds (`training.candidates.epr_candidates`)."""

    what = "finding single candidates"
    queries: RetrievalTexts
    bank: RetrievalTexts
    count: int

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        return self.save(
            folder, epr_candidates(run.get(self.queries), run.get(self.bank), self.count)
        )


@dataclass(frozen=True)
class NearestSingles(StoredSets):
    """Single candidates that a starting encoder finds nearest."""

    what = "taking the nearest as candidates"
    nearest: Chosen

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        shortlist = shortlists(run.get(self.nearest))
        places = np.arange(shortlist.shape[1], dtype=np.int32)[None, :, None]
        return self.save(
            folder, CandidateSets(shortlist, np.broadcast_to(places, (*shortlist.shape, 1)))
        )


def shortlists(found: Sequence[Sequence[Retrieved]]) -> np.ndarray:
    """Return bank positions, int32 [Q, n]; −1 where fewer were retrieved than for another query."""
    return _padded([[pick.position for pick in picks] for picks in found], -1, np.int32)


@dataclass(frozen=True)
class Sets(StoredSets):
    """CEIL's candidate sets, drawn among the examples that the starting encoder finds nearest."""

    what = "drawing candidate sets"
    nearest: Chosen
    vectors: tuple[Stage[np.ndarray], Stage[np.ndarray]]
    """The vectors of queries and bank, by the starting encoder."""
    subsets: int
    size: int
    sampler: str = "random"
    trade_off: float | Stage[float] | None = None
    """λ of the k-DPP."""
    seed: int = 0

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        near = run.get(self.nearest)
        queries, bank = run.get(self.nearest.queries), run.get(self.nearest.bank)
        nearest, shape = shortlists(near), (self.subsets, self.size)
        if self.sampler == "k_dpp":
            relevance = _padded(
                [[pick.relevance for pick in picks] for picks in near], -np.inf, np.float32
            )
            trade_off = run.value(self.trade_off)
            assert trade_off is not None
            found = k_dpp_sets(
                nearest, run.get(self.vectors[1]), relevance, *shape, trade_off, self.seed
            )
        elif self.sampler == "bank":
            by_start, bank_by_start = (run.get(one) for one in self.vectors)
            found = bank_sets(queries, bank, nearest, by_start, bank_by_start, *shape, self.seed)
        else:
            found = uniform_sets(queries, nearest, *shape, self.seed)
        return self.save(folder, found)


@dataclass(frozen=True)
class MapSets(StoredSets):
    """The MAP set of each λ of the grid for training queries, cut to the prompt's token budget."""

    what = "MAP sets of each λ"
    nearest: Chosen
    vectors: tuple[Stage[np.ndarray], Stage[np.ndarray]]
    size: int
    prompting: Prompting
    queries: Examples
    examples: Examples

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        shortlist, asked = shortlists(run.get(self.nearest)), self.queries.examples
        builder = self.prompting.builder(run, asked)
        remaining = np.array([builder.remaining(query) for query in asked])
        costs = builder.costs(self.examples.examples, shortlist)
        queries, bank = (run.get(one) for one in self.vectors)
        found = map_sets(queries, bank, shortlist, self.size, self.prompting.fit, costs, remaining)
        return self.save(folder, found)
