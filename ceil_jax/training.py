"""The stages that give a run its trained encoders: LM scores, EPR on them, CEIL on sets of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax import proposals
from ceil_jax.config import CEILConfig, RunConfig
from ceil_jax.embedded_bank import unit_rows
from ceil_jax.encoder import Encoder
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.inputs import JoinedInputs
from ceil_jax.runs import Cost, Rows, Stage, digest
from ceil_jax.scored import Scored, joined
from ceil_jax.shards import Shard
from ceil_jax.tasks.base import Example, Task
from ceil_jax.train import QUALITY, Trained
from ceil_jax.workspace import Encoders, Models, Workspace

log = logging.getLogger(__name__)


class Training(Workspace):
    """A run's encoders: as loaded, or trained if they are not on disk.

    Args:
        trained_by: another run whose EPR and CEIL encoders this one takes instead of training its own: to see
            what they are worth on this run's task or to its LM.
        members: other runs on whose scores together this one trains, in place of its own: one retriever for all
            their tasks. λ in training is the middle one of theirs, should it be tuned.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        models: Models | None = None,
        trained_by: Training | None = None,
        members: Sequence[Training] = (),
    ) -> None:
        super().__init__(config, task, models)
        self.trained_by = trained_by
        self.members = members
        if members:
            self.inputs = JoinedInputs(self.inputs, [member.inputs for member in members])
        self._histories: dict[str, list[dict[str, float]]] = {}
        self._trade_offs: dict[str, float] = {}

    def encoders(self, source: str) -> Encoders:
        """The encoders of `base`, `epr` or `ceil`, trained if they are not on disk."""
        if source == "base":
            return Encoders(self.base, self.base)
        if source not in ("epr", "ceil"):
            raise unknown_name("encoder source", source, ("base", "epr", "ceil"))
        if self.trained_by is not None:
            return self.trained_by.encoders(source)
        self.base.require_network()
        return self._epr if source == "epr" else self._ceil

    def history(self, source: str) -> list[dict[str, float]]:
        """Of training `epr` or `ceil`, trained if need be: the loss and the held-out ranking, row by row."""
        self.encoders(source)
        return (self.trained_by or self)._histories[source]

    @cached_property
    def epr_scores(self) -> Scored:
        """EPR's training queries and candidates with the LM's scores."""
        if self.members:
            return self._joined([member.epr_scores for member in self.members])
        instances, proposal, what = self._epr_sets
        return Scored(instances, proposal, *self.scores(instances, proposal, what))

    @cached_property
    def ceil_scores(self) -> Scored:
        """CEIL's training queries and subsets with the LM's scores; the same for all seeds of training.

        What is drawn, the shortlists included, is drawn by the run whose seed is `data_seed`, so that runs
        that differ in `seed` alone rank the same subsets and the LM reads them once.
        """
        if self.members:
            return self._joined([member.ceil_scores for member in self.members])
        if self._first_seed is not self:
            return self._first_seed.ceil_scores
        instances, proposal, what = self._ceil_sets
        return Scored(instances, proposal, *self.scores(instances, proposal, what))

    def _joined(self, parts: Sequence[Scored]) -> Scored:
        return joined(parts, [len(member.task.train) for member in self.members])

    def score(self, source: str, shard: Shard | None = None) -> Rows:
        """The LM's scores that training `epr` or `ceil` needs; a shard makes its part of them only.

        CEIL's subsets come from EPR's encoder, so that EPR is trained first, by the first shard that gets there.
        """
        if source not in ("epr", "ceil"):
            raise unknown_name("scores", source, ("epr", "ceil"))
        sets = self._epr_sets if source == "epr" else self._first_seed._ceil_sets
        return self.scores(*sets, shard)[0]

    @cached_property
    def _epr_sets(self) -> tuple[list[Example], proposals.Proposal, str]:
        instances = self.instances(self.config.epr.instances)
        queries = self.inputs.seen(instances)
        proposal = proposals.propose_single(queries, self.inputs.bank, self.config.epr.candidates)
        return instances, proposal, "EPR candidates"

    @cached_property
    def _ceil_sets(self) -> tuple[list[Example], proposals.Proposal, str]:
        config = self._ceil_config
        encoder = self.encoders(config.initial).context
        instances = self.instances(config.instances)
        return instances, self._propose(encoder, self.inputs.seen(instances), config), "CEIL subsets"

    @cached_property
    def _first_seed(self) -> Training:
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

    def sibling(self, config: RunConfig) -> Training:
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

    @cached_property
    def _epr(self) -> Encoders:
        from ceil_jax.epr import train_epr

        config, encoder = self.config.epr, self.base
        scored = self.epr_scores
        queries = self.inputs.seen(scored.instances)

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            trained = train_epr(
                stage,
                encoder,
                queries,
                self.inputs.context,
                scored.proposal.shortlist,
                self.signal(scored.rows),
                config,
                self.config.seed,
            )
            return {"encoder": encoder.with_params(trained.params)}, trained

        key = self._training_key(scored.stage, encoder, replace(config, instances=0))
        [query] = self._train("EPR", key, ("encoder",), train)
        return Encoders(query, query)

    @cached_property
    def _ceil(self) -> Encoders:
        from ceil_jax.ceil import train_ceil

        scored, config = self.ceil_scores, self._ceil_config
        bank = self.inputs.context
        encoder = self.encoders(config.initial).context
        queries = self.inputs.seen(scored.instances)

        def train(stage: Stage) -> tuple[dict[str, Encoder], Trained]:
            vectors = unit_rows(self.embed(encoder, [example.input for example in bank]))
            scores = self.signal(scored.rows)
            trained = train_ceil(
                stage, encoder, queries, bank, vectors, scored.proposal, scores, config, self.config.seed
            )
            return {name: encoder.with_params(params) for name, params in trained.params.items()}, trained

        key = self._training_key(scored.stage, encoder, replace(config, instances=0))
        names = ("query", "context") if config.train_context == "both" else ("query",)
        query, *context = self._train("CEIL", key, names, train)
        frozen = encoder if config.train_context == "frozen" else query
        return Encoders(query, context[0] if context else frozen)

    def _train(
        self,
        name: str,
        key: dict[str, Any],
        parts: Sequence[str],
        train: Callable[[Stage], tuple[dict[str, Encoder], Trained]],
    ) -> list[Encoder]:
        """The encoders that training leaves in its stage, trained if they are not there."""
        with self.store.stage(name.lower(), key) as stage:
            if stage.summary is None:
                began = time.perf_counter()
                encoders, trained = train(stage)
                if stage.leads:
                    for part, encoder in encoders.items():
                        encoder.save_pretrained(stage.folder / part)
                files = [
                    f for part in encoders for f in sorted((stage.folder / part).rglob("*")) if f.is_file()
                ]
                # with that the checkpoints it was picked from are gone
                stage.finish(
                    {"seconds": time.perf_counter() - began, "history": trained.history},
                    tuple(str(file.relative_to(stage.folder)) for file in files),
                )
            assert stage.summary is not None
            self.costs[f"training {name}"] = Cost(stage.summary["seconds"])
            self._histories[name.lower()] = stage.summary["history"]
            first, *later = [row[QUALITY] for row in stage.summary["history"]]
            if first >= max(later):
                log.warning(
                    "training %s: no step ranked held-out sets better; the starting weights are kept", name
                )
            return [
                self.models.trained(
                    stage.folder / part, self.config.encoder, name.strip() if i == 0 else f"{name} {part}"
                )
                for i, part in enumerate(parts)
            ]

    def _propose(
        self, encoder: Encoder, queries: Sequence[Example], config: CEILConfig
    ) -> proposals.Proposal:
        bank = self.inputs.context
        if not config.size <= min(config.shortlist, len(bank) - 1):
            raise UserError(
                f"--ceil.size {config.size}: subsets are drawn from {min(config.shortlist, len(bank) - 1)} examples; "
                "lower it or raise --ceil.shortlist"
            )
        retrieved = self.nearest(Encoders(encoder, encoder), bank, queries, config.shortlist)
        shortlist = np.array([[pick.position for pick in picks] for picks in retrieved], np.int32)
        seed = self.config.data_seed
        if config.sampler == "bank":
            shortlist = proposals.widened(queries, shortlist, config.size, bank, seed)
        if config.sampler != "k_dpp":
            draw = proposals.propose_tree if config.sampler == "tree" else proposals.propose_random
            return draw(queries, shortlist, config.subsets, config.size, seed)
        assert config.trade_off != "tuned"
        vectors = unit_rows(self.embed(encoder, [example.input for example in bank]))
        relevance = np.array([[pick.relevance for pick in picks] for picks in retrieved], np.float32)
        return proposals.propose_k_dpp(
            shortlist, vectors[shortlist], relevance, config.subsets, config.size, config.trade_off, seed
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
        from ceil_jax.tuning import TRADE_OFFS, TUNING_QUERIES, best_trade_off, propose_map

        encoders = self.encoders(source)
        bank = self.inputs.bank if source == "base" else self.inputs.context
        # the end of the order that training takes its queries from the beginning of
        asked = [self.task.train[i] for i in np.sort(self.order[-TUNING_QUERIES:])]
        queries = self.inputs.seen(asked)
        retrieved = self.nearest(encoders, bank, queries, self.config.shortlist)
        shortlist = np.array([[pick.position for pick in picks] for picks in retrieved], np.int32)
        proposal = propose_map(
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

    def _training_key(self, scored: str, encoder: Encoder, config: Any) -> dict[str, Any]:
        # how many instances there are is in the scores already; the texts are where they are the inputs
        as_is = self.config.text == self.config.context == "input"
        texts = {} if as_is else {"texts": digest(list(self.inputs.context))}
        return {
            **texts,
            "scores": scored,
            "signal": self.config.signal,
            "encoder": encoder.fingerprint,
            "config": config,
            "seed": self.config.seed,
        }
