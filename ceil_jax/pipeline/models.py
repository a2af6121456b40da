"""What all stages of a run share: its LM, its encoders, its store of finished work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.distributed import processes as hosts
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.prompts import Fit, PromptBuilder, Room, answer_reserve
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.text_views import Inputs
from ceil_jax.retrieval.registry import Retrieved, build_retriever
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Cost, Engine, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.scoring import score_sets
from ceil_jax.training.tuning import PromptBudget

KEPT = 8
"""Runs, and trained encoders, held in memory: a table has hundreds of them, and they lie on the disk."""


class Encoders(NamedTuple):
    """What embeds queries and what embeds examples; one and the same unless CEIL froze the latter."""

    query: Encoder
    context: Encoder


class Models:
    """LMs and encoders by name, each loaded when first asked for; runs that are given one `Models` share them."""

    @cache  # noqa: B019  models live as long as their runs
    def lm(self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig) -> LanguageModel:
        return load_lm(spec, dtype=dtype, device_map=device_map, endpoint=endpoint)

    @cache  # noqa: B019
    def encoder(self, name: str, endpoint: EndpointConfig) -> Encoder:
        return load_encoder(name, endpoint=endpoint)

    @lru_cache(maxsize=KEPT)  # noqa: B019
    def trained(self, folder: Path, start: str, name: str) -> Encoder:
        """The weights in a stage's folder; compiled functions are shared with the encoder training began with."""
        encoder = self.encoder(start, EndpointConfig())
        # the user has named the function on the command line already
        trained = load_encoder(folder, allow_import=(encoder.factory,) if encoder.factory else ())
        return encoder.with_params(trained.params).renamed(name)


class Workspace:
    """One run's task, models and store; `Pipeline` is what works with them."""

    def __init__(self, config: RunConfig, task: Task, models: Models | None = None) -> None:
        for metric in (task.metric, *task.more_metrics):
            metric_named(metric)  # a misspelt name ends here, before the LM has answered anything
        self.config = config
        self.task = task
        self.models = models or Models()
        self.store = Store(config.out, leads=hosts.leads())
        self.costs: dict[str, Cost] = {}
        self.inputs = Inputs(config, task, self.store, self._lm, self.costs)
        for flag, trade_off in (("trade-off", config.trade_off), ("ceil.trade-off", config.ceil.trade_off)):
            if trade_off != "tuned" and not trade_off > 0:
                raise UserError(f"--{flag} {trade_off}: λ has to be above 0, or tuned")
        if not 1 <= config.shots < len(task.train):
            raise UserError(
                f"--shots {config.shots}: the bank of {task.name} has {len(task.train)} examples; "
                f"ask for 1 to {len(task.train) - 1}"
            )

    def _lm(self, spec: str) -> LanguageModel:
        config = self.config
        return self.models.lm(spec, config.dtype, config.device_map, config.endpoint)

    @cached_property
    def lm(self) -> LanguageModel:
        return self._lm(self.config.lm)

    @cached_property
    def base(self) -> Encoder:
        return self.models.encoder(self.config.encoder, self.config.endpoint)

    @cached_property
    def task_key(self) -> dict[str, Any]:
        """What scores and predictions depend on besides the examples chosen."""
        return {
            "template": self.task.template,
            "few_shot": list(self.task.few_shot),
            "lm": self.lm.name,
            "fit": self._cut,
        }

    @cached_property
    def bank_digest(self) -> str:
        return digest(list(self.task.train))

    @property
    def _cut(self) -> Fit:
        """What is dropped of given sets: those chosen under a budget drop as the greedy order does."""
        return "greedy" if self.config.fit == "budget" else self.config.fit

    def builder(self, queries: Sequence[Example], token_budget: int | None = None) -> PromptBuilder:
        """Of prompts for these queries."""
        reserve = answer_reserve(self.lm, self.task.template, queries, self.task.max_new_tokens)
        return PromptBuilder(self.lm, self.task.template, reserve, self.task.few_shot, token_budget)

    def room(self, queries: Sequence[Example]) -> Room:
        """What the examples may take of each prompt that a query is answered with."""
        return self.builder(queries, self.config.token_budget).room(queries, self.task.train)

    def limit(self, queries: Sequence[Example], shortlist: np.ndarray) -> PromptBudget | None:
        """What those prompts take of the queries' shortlists; None where the LM's context alone cuts sets."""
        if self.config.fit != "budget" and self.config.token_budget is None:
            return None
        room = self.room(queries)
        left = np.array([room.left[query.id] for query in queries])
        return PromptBudget(self.config.fit, room.costs(shortlist), left)

    @cached_property
    def order(self) -> np.ndarray:
        """The bank's positions in the order in which training takes its queries; tuning takes the last."""
        return np.random.default_rng([self.config.data_seed, 3]).permutation(len(self.task.train))

    def positions(self, count: int) -> np.ndarray:
        """int32 [count]: where training queries stand in the bank, ascending; fewer are among more."""
        return np.sort(self.order[:count]).astype(np.int32)

    def instances(self, count: int) -> list[Example]:
        """Training queries: `count` of the bank, in bank order."""
        return [self.task.train[i] for i in self.positions(count)]

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """`encoder.encode(texts)`, remembered on disk."""
        key = {"encoder": encoder.cached_as, "texts": digest(list(texts))}
        with self.store.stage("vectors", key) as stage:
            if stage.summary is None:
                began = time.perf_counter()
                # skills are often the same
                place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
                own = list(place)
                vectors = hosts.mapped(lambda share: encoder.encode(own[share], progress=True), len(own))
                stage.save("vectors.npy", vectors[[place[text] for text in texts]])
                stage.finish({"seconds": time.perf_counter() - began, "texts": len(texts)}, ("vectors.npy",))
            return np.array(stage.load("vectors.npy"))

    def nearest(
        self, encoders: Encoders, bank: Sequence[Example], queries: Sequence[Example], n: int
    ) -> list[list[Retrieved]]:
        """The n nearest of the bank to each query, never itself."""
        dense = build_retriever(
            "dense",
            bank,
            encoder=encoders.context,
            query_encoder=encoders.query,
            embed=self.embed,
            index=self.config.index,
        )
        return dense.retrieve(queries, min(n, len(bank) - 1))

    def scores(
        self, queries: Sequence[Example], proposal: CandidateSets, what: str, shard: Shard | None = None
    ) -> tuple[Rows, str]:
        """The LM's scores of a proposal and the name of their stage, which stands for all they depend on; of a
        shard only its part."""
        key = {
            **self.task_key,
            "queries": digest(list(queries)),
            "bank": self.bank_digest,
            "shortlist": proposal.shortlist,
            "subsets": np.ascontiguousarray(proposal.subsets),
        }
        builder = self.builder(queries)
        with self.store.stage("scores", key, shard) as stage:
            rows = score_sets(
                stage,
                queries,
                self.task.train,
                proposal,
                self.lm,
                builder,
                fit=self._cut,
                what=f"scoring {what}",
                shard=shard,
                engine=self._engine(queries, proposal, builder),
            )
            self.costs[f"scoring {what}"] = Cost(rows.seconds, rows.tokens)
            return rows, stage.name

    def _engine(
        self, queries: Sequence[Example], proposal: CandidateSets, builder: PromptBuilder
    ) -> Engine | None:
        if self.config.engine == "local":
            return None
        from ceil_jax.training.ray_scoring import ScoringJob, actor_pool

        job = ScoringJob(
            partial(
                load_lm,
                self.config.lm,
                dtype=self.config.dtype,
                device_map=self.config.device_map,
                endpoint=self.config.endpoint,
            ),
            self.lm.name,
            queries,
            self.task.train,
            proposal,
            self.task.template,
            builder.reserve,
            self.task.few_shot,
            self._cut,
        )
        return actor_pool(job, self.config.actors)
