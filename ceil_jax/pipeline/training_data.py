"""The training data of encoders: training queries, their candidate sets, and the score of each set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from ceil_jax.dpp.kernel import similarity
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Encoders, RunModels, RunPrompts
from ceil_jax.pipeline.search import Search, TextViews, shortlists
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Cost, Engine, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets, ScoredSets, best_single, log_probs, nearest_first
from ceil_jax.training.config import CEILConfig, EPRConfig
from ceil_jax.training.samplers import ceil_candidates
from ceil_jax.training.scoring import score_sets

log = logging.getLogger(__name__)


class Supervision(Protocol):
    """The data that a trainer learns from: one task (`TaskSupervision`), or several (`compose.JointSupervision`)."""

    @property
    def tst(self) -> ScoredSets:
        """TST's training queries and candidates, scored by the similarity of outputs."""

    @property
    def epr(self) -> ScoredSets:
        """EPR's training queries and candidates, scored by the LM."""

    @property
    def context(self) -> Sequence[Example]:
        """The bank as trained encoders see it."""

    def seen(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Training queries as retrievers see them."""

    def ceil(self, initial: Callable[[], Encoders], config: CEILConfig) -> ScoredSets:
        """CEIL's training queries and sets, scored by the LM."""

    def trade_off(self, source: str, encoders: Callable[[], Encoders]) -> float:
        """The tuned λ of an encoder."""


class TaskSupervision:
    """The training data of one task. It depends on `data_seed` and not on `seed`, so that runs that differ in `seed`
    alone rank the same sets and the LM reads them once.

    Args:
        config: how many queries and sets there are, and the seed that draws them.
        task: the bank that training queries are taken from.
        models: the LM that scores, the encoder of outputs for TST.
        views: the retrieval text.
        prompts: the prompts that are scored.
        search: finds candidates and draws sets.
        store: keeps the scores.
        costs: the ledger that scoring is entered in.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        models: RunModels,
        views: TextViews,
        prompts: RunPrompts,
        search: Search,
        store: Store,
        costs: dict[str, Cost],
    ) -> None:
        self.config, self.task, self.models, self.views = config, task, models, views
        self.prompts, self.search, self.store, self.costs = prompts, search, store, costs
        self._trade_offs: dict[str, float] = {}

    @cached_property
    def order(self) -> np.ndarray:
        """int [N]: bank positions in the order in which training takes its queries; tuning takes the last."""
        return np.random.default_rng([self.config.data_seed, 3]).permutation(len(self.task.train))

    def positions(self, count: int) -> np.ndarray:
        """Return the bank positions of `count` training queries, int32, ascending; fewer queries are among more."""
        return np.sort(self.order[:count]).astype(np.int32)

    def instances(self, count: int) -> list[Example]:
        """Return `count` training queries in bank order."""
        return [self.task.train[i] for i in self.positions(count)]

    @property
    def context(self) -> Sequence[Example]:
        """The bank as trained encoders see it."""
        return self.views.context

    def seen(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return training queries as retrievers see them."""
        return self.views.seen(examples)

    def candidates(self, config: EPRConfig) -> tuple[list[Example], CandidateSets]:
        """Return training queries and their candidates, single examples."""
        instances = self.instances(config.instances)
        return instances, self.search.candidates(
            self.views.seen(instances), self.views.bank, config.candidates
        )

    def subsets(
        self, initial: Callable[[], Encoders], config: CEILConfig
    ) -> tuple[list[Example], CandidateSets]:
        """Return training queries and their candidate sets, drawn among what the initial encoder finds nearest."""
        encoder = initial().context
        instances = self.instances(config.instances)
        seen = self.views.seen(instances)
        return instances, self.search.subsets(encoder, self.context, seen, config, self.config.data_seed)

    @cached_property
    def tst(self) -> ScoredSets:
        """TST's training queries and candidates; the similarity of outputs stands in place of an LM's scores."""
        from ceil_jax.training.contrastive import output_similarity

        instances, proposal = self.candidates(self.config.tst)
        base, embed = self.models.base, self.models.embed
        similar = output_similarity(
            unit_rows(embed(base, [query.output for query in instances])),
            unit_rows(embed(base, [example.output for example in self.task.train])),
            proposal.shortlist,
        )
        rows = Rows([{"output_similarity": row} for row in similar], [])
        positions = self.positions(self.config.tst.instances)
        return ScoredSets(instances, positions, proposal, rows, digest([similar, proposal.shortlist]))

    @cached_property
    def epr(self) -> ScoredSets:
        """EPR's training queries and candidates with the LM's scores."""
        instances, proposal = self.candidates(self.config.epr)
        positions = self.positions(self.config.epr.instances)
        return ScoredSets(instances, positions, proposal, *self.scores(instances, proposal, "EPR candidates"))

    def ceil(self, initial: Callable[[], Encoders], config: CEILConfig) -> ScoredSets:
        """Return CEIL's training queries and sets with the LM's scores.

        Args:
            initial: gives the encoder that training starts from, which shortlists.
            config: with λ as a number.
        """
        if config.scores == "singles":
            return self._of_singles(initial().context, config)
        instances, proposal = self.subsets(initial, config)
        positions = self.positions(config.instances)
        return ScoredSets(instances, positions, proposal, *self.scores(instances, proposal, "CEIL subsets"))

    def _of_singles(self, encoder: Encoder, config: CEILConfig) -> ScoredSets:
        """CEIL's sets among EPR's candidates, each with the score of its best example."""
        if config.sampler == "bank":
            raise UserError(
                "--ceil.sampler bank: --ceil.scores singles has scores of EPR's candidates only; take random or k_dpp"
            )
        if config.size > self.config.epr.candidates:
            raise UserError(
                f"--ceil.size {config.size}: with --ceil.scores singles, sets are drawn among the "
                f"{self.config.epr.candidates} of --epr.candidates"
            )
        scored, embed = self.epr, self.models.embed
        seen = self.views.seen(scored.instances)
        asked, bank = (
            unit_rows(embed(encoder, [example.input for example in examples]))
            for examples in (seen, self.context)
        )
        found, singles = nearest_first(scored.candidates.shortlist, log_probs(scored.rows), asked, bank)
        cosines = np.einsum("qd,qnd->qn", asked, bank[found])
        cosines[found < 0] = -np.inf
        proposal = ceil_candidates(
            seen,
            self.context,
            found,
            similarity(cosines),
            lambda: (asked, bank),
            config,
            self.config.data_seed,
        )
        rows = [{"log_prob": row} for row in best_single(singles, proposal.subsets)]
        name = digest([scored.stage, proposal.shortlist, proposal.subsets])
        return ScoredSets(scored.instances, scored.positions, proposal, Rows(rows, []), name)

    def scores(
        self, queries: Sequence[Example], proposal: CandidateSets, what: str, shard: Shard | None = None
    ) -> tuple[Rows, str]:
        """Return the LM's scores of candidate sets, and the name of their stage, which stands for all they depend on.

        Args:
            queries: Q queries.
            proposal: their sets.
            what: names the sets on the progress bar and in the ledger.
            shard: the part of the rows to score; all by default.
        """
        key = {
            **self.prompts.key,
            "queries": digest(list(queries)),
            "bank": self.prompts.bank_digest,
            "shortlist": proposal.shortlist,
            "subsets": np.ascontiguousarray(proposal.subsets),
        }
        builder = self.prompts.builder(queries)
        with self.store.stage("scores", key, shard) as stage:
            rows = score_sets(
                stage,
                queries,
                self.task.train,
                proposal,
                self.models.lm,
                builder,
                fit=self.config.fit,
                what=f"scoring {what}",
                shard=shard,
                per_token=self.task.per_token,
                engine=self._engine(queries, proposal, builder),
            )
            self.costs[f"scoring {what}"] = Cost(rows.seconds, rows.tokens)
            return rows, stage.name

    def _engine(
        self, queries: Sequence[Example], proposal: CandidateSets, builder: PromptBuilder
    ) -> Engine | None:
        config = self.config
        if config.engine == "local":
            return None
        from ceil_jax.training.ray_scoring import ScoringJob, actor_pool

        load = partial(
            load_lm,
            config.lm,
            dtype=config.dtype,
            device_map=config.device_map,
            endpoint=config.endpoint,
        )
        task = self.task
        job = ScoringJob(
            load,
            self.models.lm.name,
            queries,
            task.train,
            proposal,
            task.template,
            builder.reserve,
            task.few_shot,
            self.config.fit,
            task.per_token,
        )
        return actor_pool(job, config.actors)

    def trade_off(self, source: str, encoders: Callable[[], Encoders]) -> float:
        """Return the tuned λ of an encoder: the one whose MAP sets the LM likes best, on queries of the bank.

        Args:
            source: base, tst, epr or ceil, the encoder's name.
            encoders: gives the encoders of the first seed, whose λ all seeds share.
        """
        if source not in self._trade_offs:
            self._trade_offs[source] = self._best_trade_off(source, encoders())
        return self._trade_offs[source]

    def _best_trade_off(self, source: str, encoders: Encoders) -> float:
        from ceil_jax.training.tuning import TRADE_OFFS, TUNING_QUERIES, best_trade_off, map_sets

        bank = self.views.bank if source == "base" else self.context
        # training takes its queries from the beginning of the order, tuning from its end
        asked = [self.task.train[i] for i in np.sort(self.order[-TUNING_QUERIES:])]
        queries, embed = self.views.seen(asked), self.models.embed
        shortlist = shortlists(self.search.nearest(encoders, bank, queries, self.config.shortlist))
        proposal = map_sets(
            unit_rows(embed(encoders.query, [query.input for query in queries])),
            unit_rows(embed(encoders.context, [example.input for example in bank])),
            shortlist,
            self.config.shots,
            self.prompts.limit(asked, shortlist),
        )
        rows, _ = self.scores(asked, proposal, f"λ of {source}")
        chosen = best_trade_off(np.array([row.get("choice", row["log_prob"]) for row in rows]))
        log.info("%s: λ = %g of %s", source, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS))
        return chosen
