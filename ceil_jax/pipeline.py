"""Which stages a method needs, and running those that are not on disk yet."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ceil_jax import candidates, evaluate, hosts
from ceil_jax.config import CEILConfig, RunConfig
from ceil_jax.encoder import Encoder
from ceil_jax.errors import UserError, unknown_name
from ceil_jax.evaluate import Evaluation
from ceil_jax.inputs import Inputs
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.methods import METHODS, Method
from ceil_jax.pretrained import load_encoder
from ceil_jax.prompts import PromptBuilder, answer_reserve
from ceil_jax.retrievers import Retrieved, build_retriever, unit_rows
from ceil_jax.runs import Cost, Engine, Rows, Stage, Store, digest
from ceil_jax.selector import Card, CeilSelector
from ceil_jax.shards import Shard
from ceil_jax.sketches import SKETCHES
from ceil_jax.tasks.base import Example, Task
from ceil_jax.train import QUALITY

log = logging.getLogger(__name__)


class Encoders(NamedTuple):
    """What embeds queries and what embeds examples; one and the same unless CEIL froze the latter."""

    query: Encoder
    context: Encoder


class Pipeline:
    """One run: `evaluate(method)` runs what the method needs and is not on disk, and no more."""

    def __init__(self, config: RunConfig, task: Task) -> None:
        self.config = config
        self.task = task
        self.store = Store(config.out, leads=hosts.leads())
        self.costs: dict[str, Cost] = {}
        self.inputs = Inputs(config, task, self.store, lambda: self.lm, self.costs)
        if not 1 <= config.shots < len(task.train):
            raise UserError(
                f"--shots {config.shots}: the bank of {task.name} has {len(task.train)} examples; ask for fewer"
            )

    @cached_property
    def lm(self) -> LanguageModel:
        return load_lm(self.config.lm, dtype=self.config.dtype)

    @cached_property
    def base(self) -> Encoder:
        return load_encoder(self.config.encoder)

    @cached_property
    def _task_key(self) -> dict[str, Any]:
        """What scores and predictions depend on besides the examples chosen."""
        return {
            "template": self.task.template,
            "few_shot": list(self.task.few_shot),
            "lm": self.lm.name,
            "fit": self.config.fit,
        }

    def _builder(self, queries: Sequence[Example]) -> PromptBuilder:
        reserve = answer_reserve(self.lm, self.task.template, queries, self.task.max_new_tokens)
        return PromptBuilder(self.lm, self.task.template, reserve, self.task.few_shot)

    def instances(self, count: int) -> list[Example]:
        """Training queries: `count` of the bank, drawn by the seed, in bank order."""
        bank = self.task.train
        drawn = np.random.default_rng([self.config.seed, 3]).permutation(len(bank))[:count]
        return [bank[i] for i in np.sort(drawn)]

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """`encoder.encode(texts)`, remembered on disk."""
        key = {"encoder": encoder.fingerprint, "texts": digest(list(texts))}
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

    def encoders(self, source: str) -> Encoders:
        """The encoders of `base`, `epr` or `ceil`, trained if they are not on disk."""
        if source == "base":
            return Encoders(self.base, self.base)
        if source == "epr":
            return self._epr
        if source == "ceil":
            return self._ceil
        raise unknown_name("encoder source", source, ("base", "epr", "ceil"))

    def score(self, source: str, shard: Shard | None = None) -> Rows:
        """The LM's scores that training `epr` or `ceil` needs; a shard makes its part of them only.

        CEIL's subsets come from EPR's encoder, so that EPR is trained first, by the first shard that gets there.
        """
        if source not in ("epr", "ceil"):
            raise unknown_name("scores", source, ("epr", "ceil"))
        sets, what = {
            "epr": (lambda: self._epr_sets, "EPR candidates"),
            "ceil": (lambda: self._ceil_sets, "CEIL subsets"),
        }[source]
        return self._scores(*sets(), what, shard)[0]

    @cached_property
    def _epr_sets(self) -> tuple[list[Example], candidates.Proposal]:
        instances = self.instances(self.config.epr.instances)
        queries = self.inputs.seen(instances)
        return instances, candidates.propose_single(queries, self.inputs.bank, self.config.epr.candidates)

    @cached_property
    def _ceil_sets(self) -> tuple[list[Example], candidates.Proposal]:
        config = self._ceil_config
        instances = self.instances(config.instances)
        encoder = self.encoders(config.initial).context
        return instances, self._propose(encoder, self.inputs.seen(instances), config)

    @cached_property
    def _ceil_config(self) -> CEILConfig:
        """With λ as a number."""
        config = self.config.ceil
        if config.trade_off != "tuned":
            return config
        return replace(config, trade_off=self._tuned(config.initial))

    @cached_property
    def _epr(self) -> Encoders:
        from ceil_jax.epr import train_epr

        config, bank, encoder = self.config.epr, self.inputs.context, self.base
        instances, proposal = self._epr_sets
        queries = self.inputs.seen(instances)
        rows, scored = self._scores(instances, proposal, "EPR candidates")
        scores = self._signal(rows)

        with self.store.stage(
            "epr", self._training_key(scored, encoder, replace(config, instances=0))
        ) as stage:
            if stage.summary is None:
                began = time.perf_counter()
                trained = train_epr(
                    stage, encoder, queries, bank, proposal.shortlist, scores, config, self.config.seed
                )
                _finish_training(
                    stage, {"encoder": encoder.with_params(trained.params)}, trained.history, began
                )
            self._note("training EPR", stage)
            trained_encoder = load_encoder(stage.folder / "encoder").renamed("EPR")
        return Encoders(trained_encoder, trained_encoder)

    @cached_property
    def _ceil(self) -> Encoders:
        from ceil_jax.ceil import train_ceil

        config, bank = self._ceil_config, self.inputs.context
        encoder = self.encoders(config.initial).context
        instances, proposal = self._ceil_sets
        queries = self.inputs.seen(instances)
        vectors = unit_rows(self.embed(encoder, [example.input for example in bank]))
        rows, scored = self._scores(instances, proposal, "CEIL subsets")
        scores = self._signal(rows)

        with self.store.stage(
            "ceil", self._training_key(scored, encoder, replace(config, instances=0))
        ) as stage:
            if stage.summary is None:
                began = time.perf_counter()
                trained = train_ceil(
                    stage, encoder, queries, bank, vectors, proposal, scores, config, self.config.seed
                )
                made = {name: encoder.with_params(params) for name, params in trained.params.items()}
                _finish_training(stage, made, trained.history, began)
            self._note("training CEIL", stage)
            query = load_encoder(stage.folder / "query").renamed("CEIL")
            context = {
                "frozen": lambda: encoder,
                "shared": lambda: query,
                "both": lambda: load_encoder(stage.folder / "context").renamed("CEIL context"),
            }[config.train_context]()
        return Encoders(query, context)

    def _propose(
        self, encoder: Encoder, queries: Sequence[Example], config: CEILConfig
    ) -> candidates.Proposal:
        bank = self.inputs.context
        if not config.size <= min(config.shortlist, len(bank) - 1):
            raise UserError(
                f"--ceil.size {config.size}: subsets are drawn from {min(config.shortlist, len(bank) - 1)} examples; "
                "lower it or raise --ceil.shortlist"
            )
        retrieved = self._nearest(Encoders(encoder, encoder), bank, queries, config.shortlist)
        shortlist = np.array([[pick.position for pick in picks] for picks in retrieved], np.int32)
        seed = self.config.seed
        if config.sampler == "random":
            return candidates.propose_random(queries, shortlist, config.subsets, config.size, seed)
        vectors = unit_rows(self.embed(encoder, [example.input for example in bank]))
        relevance = np.array([[pick.relevance for pick in picks] for picks in retrieved], np.float32)
        return candidates.propose_k_dpp(
            shortlist, vectors[shortlist], relevance, config.subsets, config.size, config.trade_off, seed
        )

    def _nearest(
        self, encoders: Encoders, bank: Sequence[Example], queries: Sequence[Example], n: int
    ) -> list[list[Retrieved]]:
        dense = build_retriever(
            "dense",
            bank,
            encoder=encoders.context,
            query_encoder=encoders.query,
            embed=self.embed,
            index=self.config.index,
        )
        return dense.retrieve(queries, min(n, len(bank) - 1))

    @cache  # noqa: B019  a pipeline lives as long as its process
    def _tuned(self, source: str) -> float:
        """λ for an encoder: the one whose MAP sets the LM likes best, on queries of the bank."""
        from ceil_jax.tuning import TRADE_OFFS, TUNING_QUERIES, best_trade_off, propose_map

        encoders = self.encoders(source)
        bank = self.inputs.bank if source == "base" else self.inputs.context
        # the end of the order that training takes its queries from the beginning of
        order = np.random.default_rng([self.config.seed, 3]).permutation(len(self.task.train))
        asked = [self.task.train[i] for i in np.sort(order[-TUNING_QUERIES:])]
        queries = self.inputs.seen(asked)
        retrieved = self._nearest(encoders, bank, queries, self.config.shortlist)
        proposal = propose_map(
            unit_rows(self.embed(encoders.query, [query.input for query in queries])),
            unit_rows(self.embed(encoders.context, [example.input for example in bank])),
            np.array([[pick.position for pick in picks] for picks in retrieved], np.int32),
            self.config.shots,
        )
        rows, _ = self._scores(asked, proposal, f"λ of {source}")
        chosen = best_trade_off(np.array([row.get("choice", row["log_prob"]) for row in rows]))
        log.info("%s: λ = %g of %s", source, chosen, ", ".join(f"{value:g}" for value in TRADE_OFFS))
        return chosen

    def _scores(
        self, queries: Sequence[Example], proposal: candidates.Proposal, what: str, shard: Shard | None = None
    ) -> tuple[Rows, str]:
        """The LM's scores of a proposal and the name of their stage, which stands for all they depend on."""
        key = {
            **self._task_key,
            "queries": digest(list(queries)),
            "bank": self._bank_digest,
            "shortlist": proposal.shortlist,
            "subsets": np.ascontiguousarray(proposal.subsets),
        }
        builder = self._builder(queries)
        with self.store.stage("scores", key, shard) as stage:
            rows = candidates.score(
                stage,
                queries,
                self.task.train,
                proposal,
                self.lm,
                builder,
                fit=self.config.fit,
                what=f"scoring {what}",
                shard=shard,
                engine=self._engine(queries, proposal, builder),
            )
            self.costs[f"scoring {what}"] = Cost(rows.seconds, rows.tokens)
            return rows, stage.name

    def _engine(
        self, queries: Sequence[Example], proposal: candidates.Proposal, builder: PromptBuilder
    ) -> Engine | None:
        if self.config.engine == "local":
            return None
        from ceil_jax.ray_scoring import Scorer, actor_pool

        scorer = Scorer(
            partial(load_lm, self.config.lm, dtype=self.config.dtype),
            self.lm.name,
            *(queries, self.task.train, proposal),
            *(self.task.template, builder.reserve, self.task.few_shot, self.config.fit),
        )
        return actor_pool(scorer, self.config.actors)

    @cached_property
    def _bank_digest(self) -> str:
        return digest(list(self.task.train))

    def _signal(self, rows: Rows) -> np.ndarray:
        """float32 [Q, M]: the column of scores that training ranks by."""
        signal = self.config.signal
        if signal not in rows[0]:
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

    def _note(self, what: str, stage: Stage) -> None:
        assert stage.summary is not None
        self.costs[what] = Cost(stage.summary["seconds"])
        first, *later = [row[QUALITY] for row in stage.summary["history"]]
        if first >= max(later):
            log.warning("%s: no step ranked held-out sets better; the starting weights are kept", what)

    def retrieve(self, name: str, queries: Sequence[Example]) -> list[list[Retrieved]]:
        """The examples that a method chooses for each query, in greedy order."""
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
        method, config = METHODS[name], self.config
        encoders = None if method.encoder is None else self.encoders(method.encoder)
        retriever = build_retriever(
            method.retriever,
            self.bank_of(method),
            encoder=encoders and encoders.context,
            query_encoder=encoders and encoders.query,
            trade_off=self.trade_off_of(method) if method.retriever in ("dpp", "mmr") else 0.0,
            shortlist=config.shortlist,
            seed=config.seed,
            embed=self.embed,
            rewrite=partial(self.inputs.rewrite, orders=self.inputs.orders(name)),
            sketch=SKETCHES.get(self.task.language),
            index=config.index,
        )
        asked = self.inputs.seen(queries) if method.sees_text else queries
        began = time.perf_counter()
        retrieved = retriever.retrieve(asked, config.shots)
        self.costs[f"retrieving: {name}"] = Cost(time.perf_counter() - began)
        return retrieved

    def bank_of(self, method: Method) -> Sequence[Example]:
        """The bank as a method sees it."""
        if not method.sees_text:
            return self.task.train
        return self.inputs.context if method.encoder in ("epr", "ceil") else self.inputs.bank

    def trade_off_of(self, method: Method) -> float:
        """λ of a method that ends in MAP or MMR."""
        given = self.config.ceil.trade_off if method.encoder == "ceil" else self.config.trade_off
        if given != "tuned":
            return given
        assert method.encoder is not None
        return self._tuned(method.encoder)

    def selector(self, name: str = "ceil") -> CeilSelector:
        """A method that ends in DPP-MAP (dpp, epr_map, ceil), trained if need be, for an application's use.

        Raises:
            UserError: any other method.
        """
        method = METHODS.get(name)
        if method is None or method.retriever != "dpp":
            raise unknown_name("selector", name, [n for n, m in METHODS.items() if m.retriever == "dpp"])
        assert method.encoder is not None
        encoders, task, config = self.encoders(method.encoder), self.task, self.config
        trained = method.encoder != "base"
        return CeilSelector.from_examples(
            task.train,
            encoder=encoders.context,
            query_encoder=encoders.query,
            vectors=self.embed(encoders.context, [example.input for example in self.bank_of(method)]),
            diversity=self.trade_off_of(method),
            shortlist=config.shortlist,
            template=task.template,
            count_tokens=lambda texts: self.lm.count_tokens(texts),
            card=Card(
                title=f"{method.label} on {task.name}",
                training_data=task.name if trained else "none: the encoder is as loaded",
                language_model=config.lm if trained else "",
            ),
        )

    def evaluate(self, name: str, queries: Sequence[Example] | None = None) -> Evaluation:
        """The method's predictions on the queries (the validation examples by default) and their metric."""
        queries = self.task.validation if queries is None else queries
        retrieved = self.retrieve(name, queries)
        key = {
            **self._task_key,
            "queries": digest(list(queries)),
            "bank": self._bank_digest,
            "chosen": digest([[pick.id, round(pick.relevance, 6)] for picks in retrieved for pick in picks]),
            "answers": [self.task.max_new_tokens, list(self.task.stop)],
        }
        with self.store.stage("predictions", key) as stage:
            rows = evaluate.predict(
                stage,
                self.task,
                queries,
                retrieved,
                self.task.train,
                self.lm,
                self._builder(queries),
                fit=self.config.fit,
                what=f"{METHODS[name].label} on {self.task.name}",
            )
            predictions = stage.name
        self.costs[f"answering: {name}"] = Cost(rows.seconds, rows.tokens)
        measures = {"predictions": predictions, "metrics": [self.task.metric, *self.task.more_metrics]}
        with self.store.stage("metrics", measures) as stage:
            return evaluate.measure(stage, self.task, queries, rows)


def _finish_training(stage: Stage, encoders: dict[str, Encoder], history: list[Any], began: float) -> None:
    """Save what was trained and drop the checkpoints it was picked from."""
    import shutil

    if stage.leads:
        for name, encoder in encoders.items():
            encoder.save_pretrained(stage.folder / name)
    files = tuple(f"{name}/model.safetensors" for name in encoders)
    stage.finish({"seconds": time.perf_counter() - began, "history": history}, files)
    if stage.leads:
        shutil.rmtree(stage.folder / "checkpoints", ignore_errors=True)
