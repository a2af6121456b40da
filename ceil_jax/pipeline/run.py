"""Which stages a method needs, and running those that are not on disk yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.pipeline import evaluate
from ceil_jax.pipeline.evaluate import Evaluation
from ceil_jax.pipeline.methods import METHODS, TRAINED, Method
from ceil_jax.pipeline.records import beyond_default, record
from ceil_jax.pipeline.trained import Training
from ceil_jax.retrieval.registry import Retrieved, build_retriever
from ceil_jax.selector import Card, CeilSelector
from ceil_jax.skills.gold import DESCRIPTIONS
from ceil_jax.skills.sketches import SKETCHES
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Cost, Rows
from ceil_jax.tasks.example import Example
from ceil_jax.training.config import CEILConfig, EPRConfig


class Pipeline(Training):
    """One run: `evaluate(method)` runs what the method needs and is not on disk, and no more."""

    def retrieve(self, name: str, queries: Sequence[Example]) -> list[list[Retrieved]]:
        """The examples that a method chooses for each query, in greedy order."""
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
        method, config = METHODS[name], self.config
        needs = method.needs
        encoders = None if method.encoder is None else self.encoders(method.encoder)
        retriever = build_retriever(
            method.retriever,
            self.bank_of(method),
            encoder=encoders and encoders.context,
            query_encoder=encoders and encoders.query,
            trade_off=0.0 if needs.trade_off is None else self.trade_off_of(method),
            shortlist=config.shortlist,
            seed=config.data_seed,
            embed=self.embed,
            rewrite=partial(self.inputs.rewrite, orders=self.inputs.orders(name)),
            sketch=SKETCHES.get(self.task.language),
            index=config.index,
            describe=DESCRIPTIONS.get(self.task.language),
            room=self.room(queries) if config.fit == "budget" and needs.budget else None,
        )
        asked = self.inputs.seen(queries) if needs.text else queries
        began = time.perf_counter()
        retrieved = retriever.retrieve(asked, config.shots)
        self.costs[f"retrieving: {name}"] = Cost(time.perf_counter() - began)
        return retrieved

    def bank_of(self, method: Method) -> Sequence[Example]:
        """The bank as a method sees it."""
        if not method.needs.text:
            return self.task.train
        return self.inputs.context if method.encoder in TRAINED else self.inputs.bank

    def trade_off_of(self, method: Method) -> float:
        """λ of a method that ends in MAP or MMR."""
        if isinstance(method.needs.trade_off, float):
            return method.needs.trade_off
        given = self.config.ceil.trade_off if method.encoder == "ceil" else self.config.trade_off
        if given != "tuned":
            return given
        assert method.encoder is not None
        return self.tuned_trade_off(method.encoder)

    def selector(self, name: str = "ceil") -> CeilSelector:
        """A method that ends in DPP-MAP (dpp, tst_map, epr_map, ceil), trained if need be, for an application's use.

        Raises:
            UserError: any other method.
        """
        method = METHODS.get(name)
        if method is None or not method.needs.ends_in_map:
            raise unknown_name("selector", name, [n for n, m in METHODS.items() if m.needs.ends_in_map])
        if self.config.text != "input":
            raise UserError(
                "a selector embeds inputs as they are, not skills: train with --text input for it"
            )
        assert method.encoder is not None
        encoders, task, config = self.encoders(method.encoder), self.task, self.config
        trained = method.encoder != "base"
        return CeilSelector.from_examples(
            task.train,
            encoder=encoders.context,
            query_encoder=encoders.query,
            vectors=self.embed(encoders.context, [example.input for example in self.bank_of(method)]),
            trade_off=self.trade_off_of(method),
            near_duplicate=None,  # what was evaluated passes over nothing
            shortlist=config.shortlist,
            template=task.template,
            context=self.config.context if trained else "input",
            count_tokens=lambda texts: self.lm.count_tokens(texts),
            card=Card(
                title=f"{method.label} on {task.name}",
                training_data=self._training_data(method),
                language_model=config.lm if trained else "",
                metrics=self.measured(name),
            ),
        )

    def _training_data(self, method: Method) -> str:
        """A line for the model card."""
        config, name = self.config, self.task.name
        queries = len(self.task.train)

        def of(one: EPRConfig | CEILConfig, what: str) -> str:
            return f"{name}: {min(one.instances, queries)} queries × {what}"

        data = {
            "tst": of(config.tst, f"{config.tst.candidates} examples by their outputs"),
            "epr": of(config.epr, f"{config.epr.candidates} single examples"),
            "ceil": of(config.ceil, f"{config.ceil.subsets} sets of {config.ceil.size}"),
        }
        stages = (config.ceil.initial, "ceil") if method.encoder == "ceil" else (method.encoder,)
        used = "; then ".join(data[stage] for stage in stages if stage in data)
        return f"from {config.encoder} on {used}" if used else "none: the encoder is as loaded"

    def measured(self, name: str) -> dict[str, float]:
        """The metrics in percent of a method that this run has evaluated already; none if it has not."""
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

    def answers(self, name: str, queries: Sequence[Example]) -> tuple[Rows, str]:
        """The LM's answer to each query with the method's examples, and the name of their stage."""
        retrieved = self.retrieve(name, queries)
        rows, stage = self.answers_with(retrieved, queries, f"{METHODS[name].label} on {self.task.name}")
        self.costs[f"answering: {name}"] = Cost(rows.seconds, rows.tokens)
        return rows, stage

    def answers_with(
        self, retrieved: Sequence[Sequence[Retrieved]], queries: Sequence[Example], what: str
    ) -> tuple[Rows, str]:
        """The LM's answer to each query with these examples, and the name of their stage."""
        with self.store.stage("predictions", self._predictions_key(queries, retrieved)) as stage:
            rows = evaluate.predict(
                stage,
                self.task,
                queries,
                retrieved,
                self.task.train,
                self.lm,
                self.builder(queries, self.config.token_budget),
                fit=self._cut,
                order=self.config.order,
                what=what,
            )
            return rows, stage.name

    def evaluate(self, name: str, queries: Sequence[Example] | None = None) -> Evaluation:
        """The method's predictions on the queries (the validation examples by default) and their metric."""
        queries = self.task.validation if queries is None else queries
        rows, predictions = self.answers(name, queries)
        with self.store.stage("metrics", self._metrics_key(predictions)) as stage:
            evaluation = evaluate.measure(stage, self.task, queries, rows)
            metrics = stage.name
        answering = self.costs[f"answering: {name}"]
        needed = self.needed(name)
        before = [cost for what, cost in self.costs.items() if what in needed and cost is not answering]
        run = record(
            self.store,
            self.config,
            self.task,
            queries,
            name,
            self.lm.name,
            predictions=predictions,
            metrics=metrics,
            preparing=Cost(sum(cost.seconds for cost in before), sum(cost.tokens for cost in before)),
            answering=answering,
        )
        return evaluation._replace(run=run)

    def needed(self, name: str) -> set[str]:
        """The names in `costs` of what a method needs."""
        source = METHODS[name].encoder
        initial = self.config.ceil.initial
        trained = {"tst": {"training TST"}, "epr": {"scoring EPR candidates", "training EPR"}}
        trained["ceil"] = {f"scoring λ of {initial}", "scoring CEIL subsets", "training CEIL"}
        trained["ceil"] |= trained.get(initial, set())
        rewriting = {f"rewriting, order {order}" for order in self.inputs.orders(name)}
        tuning = {f"scoring λ of {source}"} if METHODS[name].needs.trade_off == "tunable" else set()
        return (
            trained.get(source or "", set())
            | rewriting
            | tuning
            | {f"retrieving: {name}", f"answering: {name}"}
        )

    def _predictions_key(
        self, queries: Sequence[Example], retrieved: Sequence[Sequence[Retrieved]]
    ) -> dict[str, Any]:
        return {
            **self.task_key,
            **beyond_default(self.config, "token_budget", "order"),
            "queries": digest(list(queries)),
            "bank": self.bank_digest,
            "chosen": digest([[pick.id, round(pick.relevance, 6)] for picks in retrieved for pick in picks]),
            "answers": [self.task.max_new_tokens, list(self.task.stop)],
        }

    def _metrics_key(self, predictions: str) -> dict[str, Any]:
        return {
            "predictions": predictions,
            "metrics": [self.task.metric, *self.task.more_metrics],
            "keeps": "scores and statistics",
        }
