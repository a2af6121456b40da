"""One run: a task, an LM and an encoder; each method's examples, answers and metric, computed once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from ceil_jax.distributed.machine import device
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import unknown_name
from ceil_jax.lm import LanguageModel
from ceil_jax.lm.voting import Voting
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.pipeline import evaluate
from ceil_jax.pipeline.methods import METHODS, TRAINED, Guard, Method, entry, whose
from ceil_jax.pipeline.models import Encoders, RunModels
from ceil_jax.pipeline.records import Evaluation, beyond_default, record
from ceil_jax.pipeline.trained import Trainer
from ceil_jax.pipeline.training_data import TaskSupervision
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.skills.gold import DESCRIPTIONS
from ceil_jax.skills.sketches import SKETCHES
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Cost, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example


class Run:
    """One run, put together from its parts; `compose.open_run` does that from a configuration.

    `evaluate(method)` computes what the method needs and is not on disk, and no more.

    Args:
        models: the LM and the untrained encoder.
        store: the stages on disk.
        training_data: what encoders are trained on and λ is tuned on.
        trainer: gives the trained encoders; another run's, to see what its encoders are worth here.
    """

    def __init__(
        self, models: RunModels, store: Store, training_data: TaskSupervision, trainer: Trainer
    ) -> None:
        self.models, self.store, self.training_data, self.trainer = models, store, training_data, trainer
        self.config, self.task = training_data.config, training_data.task
        self.views, self.prompts = training_data.views, training_data.prompts
        self.search = training_data.search
        self.costs = training_data.costs
        """The cost of each stage by name, in the order in which they were asked for."""
        guarded = self.config.guard and trainer.data is training_data
        self.guard = Guard(trainer.starts, trainer.held_out, self._on_training_queries) if guarded else None

    @property
    def lm(self) -> LanguageModel:
        """The LM that scores and answers."""
        return self.models.lm

    @property
    def base(self) -> Encoder:
        """The untrained encoder."""
        return self.models.base

    def load(self, methods: Iterable[str]) -> None:
        """Load the encoder, if a method compares vectors, and the LM, so that a missing one is named before any work.

        Args:
            methods: rows of METHODS.
        """
        if any(self.method(method).encoder for method in methods):
            _ = self.base
        _ = self.lm

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, float32 [N, D], computed once."""
        return self.models.embed(encoder, texts)

    def encoders(self, source: str) -> Encoders:
        """Return the encoders of `base`, `tst`, `epr` or `ceil`, trained if they are not on disk."""
        return Encoders(self.base, self.base) if source == "base" else self.trainer.encoders(source)

    def method(self, name: str) -> Method:
        """Return a method by its name; with --shots 0 every method is the one that has zero examples.

        Raises:
            UserError: a name that is not known.
        """
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
        method = METHODS[name]
        if self.config.shots or method.answers == "majority":
            return method
        return METHODS["zero"]._replace(label=method.label)

    def used(self, name: str) -> Method:
        """Return a method with the encoder that it uses: its own, or the one that the guard takes instead."""
        method = self.method(name)
        if self.guard is None or method.encoder is None:
            return method
        return method._replace(encoder=self.guard.used(method.encoder))

    def _on_training_queries(self, judged: str, name: str, positions: np.ndarray) -> Sample:
        """The answers to queries of the bank with a method's examples, and their metric."""
        queries, method = [self.task.train[i] for i in positions], self.method(name)
        (retrieved, seconds), what = self._chosen(method, queries), entry(judged, name)
        rows, _ = self.answers_with(retrieved, queries, what)
        self.costs[what] = Cost(seconds + rows.seconds, rows.tokens)
        return evaluate.scored(self.task, queries, rows)[1]

    def retrieve(self, name: str, queries: Sequence[Example]) -> list[list[Retrieved]]:
        """Return the examples that a method chooses for each query, in the order in which it chose them.

        Args:
            name: a row of METHODS.
            queries: Q queries.

        Raises:
            UserError: an unknown method, or one that needs what the task does not have.
        """
        retrieved, seconds = self._chosen(self.used(name), queries)
        self.costs[f"retrieving: {name}"] = Cost(seconds)
        return retrieved

    def _chosen(self, method: Method, queries: Sequence[Example]) -> tuple[list[list[Retrieved]], float]:
        """The examples, and the seconds without what is shared with other methods, such as tuning λ."""
        config, language, needs = self.config, self.task.language, method.needs
        encoders = None if method.encoder is None else self.encoders(method.encoder)
        bank = self.bank_of(method)
        given: dict[str, Any] = {
            "encoder": encoders and encoders.context,
            "query_encoder": encoders and encoders.query,
            "trade_off": 0.0 if needs.trade_off is None else self.trade_off_of(method),
            "shortlist": config.shortlist,
            "seed": config.data_seed,
            "rewrite": partial(self.views.rewrite, orders=self.views.orders(method)),
            "sketch": SKETCHES.get(language),
            "describe": DESCRIPTIONS.get(language),
        }
        asked = self.views.seen(queries) if needs.text else queries
        began = time.perf_counter()
        retrieved = self.search.choose(method.retriever, bank, asked, config.shots, **given)
        return retrieved, time.perf_counter() - began

    def bank_of(self, method: Method) -> Sequence[Example]:
        """Return the bank as a method sees it."""
        if not method.needs.text:
            return self.task.train
        return self.views.context if method.encoder in TRAINED else self.views.bank

    def trade_off_of(self, method: Method) -> float:
        """Return λ of a method: its retriever's own, the one that CEIL was trained with, the configured one, or the
        one tuned for its encoder."""
        if isinstance(method.needs.trade_off, float):
            return method.needs.trade_off
        given: float | Literal["tuned"] = self.config.trade_off
        if method.encoder == "ceil":
            given = self.config.ceil_map_trade_off or self.trainer.ceil_config.trade_off
        if given != "tuned":
            return float(given)
        assert method.encoder is not None
        return self.tuned_trade_off(method.encoder)

    def tuned_trade_off(self, source: str) -> float:
        """Return the λ tuned for an encoder; seeds share that of the first one's encoder."""

        def encoders() -> Encoders:
            return self.encoders(source) if source == "base" else self.trainer.first.encoders(source)

        return self.training_data.trade_off(source, encoders)

    def score(self, source: str, shard: Shard | None = None) -> Rows:
        """Return the LM's scores that training `epr` or `ceil` needs; a shard makes its part of them only."""
        return self.trainer.score(self.training_data, source, shard)

    def measured(self, name: str) -> dict[str, float]:
        """Return the metrics, in percent, of a method that this run has evaluated; none if it has not."""
        if not any(self.store.root.glob("predictions-*/rows.jsonl")):
            return {}  # so that an encoder that needs no training needs no LM either
        queries, task = self.task.validation, self.task
        key = self._predictions_key(queries, self.retrieve(name, queries))
        predictions = f"predictions-{digest(key)}"
        stage = self.store.finished("metrics", self._metrics_key(predictions))
        if stage is None or stage.summary is None:
            return {}
        values = {task.metric: stage.summary["value"], **stage.summary["more"]}
        settings = (
            f"percent of {len(queries):,} held-out queries, {self.config.shots} examples, {self.lm.name}"
        )
        return {f"{metric} ({settings})": 100 * value for metric, value in values.items()}

    def answers(self, name: str) -> tuple[Rows, str]:
        """Return the LM's answer to each validation example with the method's, and the name of their stage."""
        queries, method = self.task.validation, self.method(name)
        what = f"{method.label} on {self.task.name}"
        retrieved = self.retrieve(name, queries)
        if method.answers == "majority":
            key = {"majority of": self.prompts.bank_digest, "queries": digest(list(queries))}
            with self.store.stage("predictions", key) as kept:
                rows, stage = evaluate.answer_with_majority(kept, self.task, queries, what=what), kept.name
        else:
            rows, stage = self.answers_with(retrieved, queries, what)
        self.costs[f"answering: {name}"] = Cost(rows.seconds, rows.tokens)
        return rows, stage

    def answers_with(
        self, retrieved: Sequence[Sequence[Retrieved]], queries: Sequence[Example], what: str
    ) -> tuple[Rows, str]:
        """Return the LM's answer to each query with these examples, and the name of their stage."""
        with self.store.stage("predictions", self._predictions_key(queries, retrieved)) as stage:
            rows = evaluate.predict(
                stage,
                self.task,
                queries,
                retrieved,
                self.task.train,
                self.lm,
                self.prompts.builder(queries, self.config.token_budget),
                fit=self.config.fit,
                what=what,
                voting=self.voting,
            )
            return rows, stage.name

    @property
    def voting(self) -> Voting:
        """How a query's answers are collected."""
        config = self.config
        return Voting(config.answers, config.answers_by, config.temperature, config.data_seed)

    def evaluate(self, name: str) -> Evaluation:
        """Return the method's predictions on the validation examples, and their metric."""
        queries, method = self.task.validation, self.method(name)
        metric_named(self.task.metric).check(queries)
        rows, predictions = self.answers(name)
        with self.store.stage("metrics", self._metrics_key(predictions)) as stage:
            value = evaluate.measure(stage, self.task, queries, rows)
            scores, metrics = np.array(stage.load("scores.npy")), stage.name
        answering = self.costs[f"answering: {name}"]
        needed = self.needed(name)
        before = [cost for what, cost in self.costs.items() if what in needed and cost is not answering]
        recorded = record(
            self.store,
            self.config,
            self.task,
            name,
            self.lm.name,
            predictions=predictions,
            metrics=metrics,
            preparing=Cost(sum(cost.seconds for cost in before), sum(cost.tokens for cost in before)),
            answering=answering,
            kept=self.kept(name),
            trade_off=self.trade_off_of(self.used(name)) if method.needs.trade_off else None,
            device=device(),
        )
        return Evaluation(rows, scores, value, recorded)

    def kept(self, name: str) -> str:
        """Return a remark on a method that does not use what training gave its encoder; else ""."""
        source, used = self.method(name).encoder or "base", self.used(name).encoder or "base"
        if used != source:
            return f"the guard took {whose(used)} encoder"
        return self.trainer.kept(source)

    def needed(self, name: str) -> set[str]:
        """Return the names in `costs` of what a method needs."""
        method, used = self.method(name), self.used(name)
        trained = {source for source in (method.encoder, used.encoder) if source in TRAINED}
        needed = {what for source in trained for what in self.trainer.needed(source)}
        needed |= {f"rewriting, order {order}" for order in self.views.orders(method)}
        if method.needs.trade_off == "tunable":
            needed.add(f"scoring λ of {used.encoder}")
        if self.guard is not None and method.encoder in TRAINED:
            needed |= self.guard.needed(method.encoder)
        return needed | {f"retrieving: {name}", f"answering: {name}"}

    def _predictions_key(
        self, queries: Sequence[Example], retrieved: Sequence[Sequence[Retrieved]]
    ) -> dict[str, Any]:
        return {
            **self.prompts.key,
            **beyond_default(self.config, "token_budget"),
            "queries": digest(list(queries)),
            "bank": self.prompts.bank_digest,
            "chosen": digest([[pick.id, round(pick.relevance, 6)] for picks in retrieved for pick in picks]),
            "answers": [self.task.max_new_tokens, list(self.task.stop)],
            **self.voting.key(),
        }

    def _metrics_key(self, predictions: str) -> dict[str, Any]:
        return {
            "predictions": predictions,
            "metrics": [self.task.metric, *self.task.more_metrics],
            "keeps": "scores, statistics and overlap",
        }
