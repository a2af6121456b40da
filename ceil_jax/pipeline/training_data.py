"""What encoders are trained on: sets of examples for training queries, and what says how good each set is."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Encoders, Models, Workspace
from ceil_jax.pipeline.text_views import JoinedInputs
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Rows
from ceil_jax.store.shards import Shard
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets, ScoredSets, epr_candidates, join_tasks
from ceil_jax.training.config import CEILConfig, EPRConfig
from ceil_jax.training.samplers import ceil_candidates

log = logging.getLogger(__name__)


class Supervision(Workspace):
    """A run's training queries with their candidates or subsets, and the scores of these.

    Args:
        trained_by: another run whose trained encoders this one takes instead of training its own: to see what they
            are worth on this run's task or to its LM.
        members: other runs on whose scores together this one trains, in place of its own: one retriever for all
            their tasks. λ in training is the middle one of theirs, should it be tuned.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        models: Models | None = None,
        trained_by: Self | None = None,
        members: Sequence[Self] = (),
    ) -> None:
        super().__init__(config, task, models)
        self.trained_by = trained_by
        self.members = members
        if members:
            self.inputs = JoinedInputs(self.inputs, [member.inputs for member in members])
        self._trade_offs: dict[str, float] = {}

    @abstractmethod
    def encoders(self, source: str) -> Encoders:
        """The encoders of `base`, `tst`, `epr` or `ceil`: subsets are drawn among what EPR's finds nearest."""

    @cached_property
    def tst_scores(self) -> ScoredSets:
        """TST's training queries and candidates, with how alike their outputs are in place of an LM's scores."""
        if self.members:
            return self._joined([member.tst_scores for member in self.members])
        from ceil_jax.training.contrastive import output_similarity

        instances, proposal, _ = self._single_sets(self.config.tst)
        similar = output_similarity(
            unit_rows(self.embed(self.base, [query.output for query in instances])),
            unit_rows(self.embed(self.base, [example.output for example in self.task.train])),
            proposal.shortlist,
        )
        rows = Rows([{"output_similarity": row} for row in similar], [])
        positions = self.positions(self.config.tst.instances)
        return ScoredSets(instances, positions, proposal, rows, digest([similar, proposal.shortlist]))

    @cached_property
    def epr_scores(self) -> ScoredSets:
        """EPR's training queries and candidates with the LM's scores."""
        if self.members:
            return self._joined([member.epr_scores for member in self.members])
        instances, proposal, what = self._single_sets(self.config.epr)
        positions = self.positions(self.config.epr.instances)
        return ScoredSets(instances, positions, proposal, *self.scores(instances, proposal, what))

    @cached_property
    def ceil_scores(self) -> ScoredSets:
        """CEIL's training queries and subsets with the LM's scores; the same for all seeds of training.

        What is drawn, the shortlists included, is drawn by the run whose seed is `data_seed`, so that runs
        that differ in `seed` alone rank the same subsets and the LM reads them once.
        """
        if self.members:
            return self._joined([member.ceil_scores for member in self.members])
        if self._first_seed is not self:
            return self._first_seed.ceil_scores
        instances, proposal, what = self._ceil_sets
        positions = self.positions(self.config.ceil.instances)
        return ScoredSets(instances, positions, proposal, *self.scores(instances, proposal, what))

    def _joined(self, parts: Sequence[ScoredSets]) -> ScoredSets:
        return join_tasks(parts, [len(member.task.train) for member in self.members])

    def score(self, source: str, shard: Shard | None = None) -> Rows:
        """The LM's scores that training `epr` or `ceil` needs; a shard makes its part of them only.

        CEIL's subsets come from EPR's encoder, so that EPR is trained first, by the first shard that gets there.
        """
        if source not in ("epr", "ceil"):
            raise unknown_name("scores", source, ("epr", "ceil"))
        sets = self._single_sets(self.config.epr) if source == "epr" else self._first_seed._ceil_sets
        return self.scores(*sets, shard)[0]

    def _single_sets(self, config: EPRConfig) -> tuple[list[Example], CandidateSets, str]:
        instances = self.instances(config.instances)
        queries = self.inputs.seen(instances)
        return (
            instances,
            epr_candidates(queries, self.inputs.bank, config.candidates),
            "EPR candidates",
        )

    @cached_property
    def _ceil_sets(self) -> tuple[list[Example], CandidateSets, str]:
        config = self._ceil_config
        encoder = self.encoders(config.initial).context
        instances = self.instances(config.instances)
        return instances, self._propose(encoder, self.inputs.seen(instances), config), "CEIL subsets"

    @cached_property
    def _first_seed(self) -> Self:
        """This run with the seed that subsets are drawn by."""
        if self.config.seed == self.config.data_seed:
            return self
        first = self.sibling(replace(self.config, seed=self.config.data_seed))
        # one ledger: what its stages cost belongs to the run that asked for them
        first.costs = self.costs
        first.inputs = self.inputs
        # the λ of another run's encoders is that of its first seed's
        first.trained_by = self.trained_by and self.trained_by._first_seed
        first.members = [member._first_seed for member in self.members]
        return first

    def sibling(self, config: RunConfig) -> Self:
        """A run of another configuration on the same task with the same models."""
        return type(self)(config, self.task, self.models)

    @cached_property
    def _ceil_config(self) -> CEILConfig:
        """With λ as a number."""
        config = self.config.ceil
        if config.trade_off != "tuned":
            return config
        if self.members:
            given = [float(member._ceil_config.trade_off) for member in self.members]
            return replace(config, trade_off=sorted(given)[len(given) // 2])
        return replace(config, trade_off=self.tuned_trade_off(config.initial))

    def _propose(self, encoder: Encoder, queries: Sequence[Example], config: CEILConfig) -> CandidateSets:
        bank = self.inputs.context
        if not config.size <= min(config.shortlist, len(bank) - 1):
            raise UserError(
                f"--ceil.size {config.size}: subsets are drawn from {min(config.shortlist, len(bank) - 1)} examples; "
                "lower it or raise --ceil.shortlist"
            )

        def embedded(examples: Sequence[Example]) -> np.ndarray:
            return unit_rows(self.embed(encoder, [example.input for example in examples]))

        retrieved = self.nearest(Encoders(encoder, encoder), bank, queries, config.shortlist)
        fewest = min(map(len, retrieved))
        if fewest < config.size:
            raise UserError(
                f"--index {self.config.index} found {fewest} neighbours of a training query where subsets have "
                f"{config.size} examples; use --index exact"
            )
        return ceil_candidates(
            queries,
            bank,
            _shortlists(retrieved),
            _padded([[pick.relevance for pick in picks] for picks in retrieved], -np.inf, np.float32),
            lambda: (embedded(queries), embedded(bank)),
            config,
            self.config.data_seed,
        )

    def tuned_trade_off(self, source: str) -> float:
        """λ for an encoder: the one whose MAP sets the LM likes best, on queries of the bank.

        Seeds share the λ of the first one's encoder.
        """
        if self._first_seed is not self:
            return self._first_seed.tuned_trade_off(source)
        if source not in self._trade_offs:
            self._trade_offs[source] = self._best_trade_off(source)
        return self._trade_offs[source]

    def _best_trade_off(self, source: str) -> float:
        from ceil_jax.training.tuning import TRADE_OFFS, TUNING_QUERIES, best_trade_off, map_sets

        encoders = self.encoders(source)
        bank = self.inputs.bank if source == "base" else self.inputs.context
        # the end of the order that training takes its queries from the beginning of
        asked = [self.task.train[i] for i in np.sort(self.order[-TUNING_QUERIES:])]
        queries = self.inputs.seen(asked)
        retrieved = self.nearest(encoders, bank, queries, self.config.shortlist)
        shortlist = _shortlists(retrieved)
        proposal = map_sets(
            unit_rows(self.embed(encoders.query, [query.input for query in queries])),
            unit_rows(self.embed(encoders.context, [example.input for example in bank])),
            shortlist,
            self.config.shots,
            self.limit(asked, shortlist),
        )
        rows, _ = self.scores(asked, proposal, f"λ of {source}")
        chosen = best_trade_off(np.array([row.get("choice", row["log_prob"]) for row in rows]))
        log.info("%s: λ = %g of %s", source, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS))
        return chosen

    def signal(self, rows: Rows) -> np.ndarray:
        """float32 [Q, M]: the column of scores that training ranks by."""
        signal = self.config.signal
        if not all(signal in row for row in rows):
            raise UserError(f"--signal {signal}: {self.task.name} has no choices; use log_prob")
        return np.array([row[signal] for row in rows], np.float32)


def _shortlists(retrieved: Sequence[Sequence[Retrieved]]) -> np.ndarray:
    """int32 [Q, n]: bank positions, −1 where an approximate index found fewer than for another query."""
    return _padded([[pick.position for pick in picks] for picks in retrieved], -1, np.int32)


def _padded(rows: Sequence[Sequence[float]], empty: float, dtype: DTypeLike) -> np.ndarray:
    out = np.full((len(rows), max(map(len, rows))), empty, dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out
