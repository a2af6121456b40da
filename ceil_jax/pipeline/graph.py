"""The stages of one run's rows: which values a configuration and a task make, and what each of them needs.

Every method here only puts values together; `stage.Run.get` computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.voting import Voting
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.answering import Classified, Majority, Metric, MetricSample, Predictions
from ceil_jax.pipeline.choosing import Chosen, MapSets
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.encoders import (
    Encoded,
    Encoders,
    Guarded,
    GuardedTradeOff,
    Training,
    Untrained,
    Weights,
)
from ceil_jax.pipeline.methods import METHODS, TRAININGS, Method, load_own, method_named
from ceil_jax.pipeline.models import LM, Models, Pretrained
from ceil_jax.pipeline.scoring import Joined, Middle, Prompting, Scores, TradeOff
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.views import Given, Rewritten, Rows, Skills, Together, View, WithOutputs
from ceil_jax.skills.rewriter import load_demonstrations
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.own_file import separated
from ceil_jax.tasks.registry import TASKS
from ceil_jax.training.candidates import CandidateSets, ScoredSets
from ceil_jax.training.loop import split_held_out
from ceil_jax.training.tuning import TRADE_OFFS, TUNING_QUERIES


class TrainingQueries(NamedTuple):
    """Queries of the bank that training or tuning uses."""

    positions: np.ndarray
    """int32 [Q]: their bank positions, ascending."""
    rows: Rows
    seen: View
    """The queries as retrievers see them."""


class Graph:
    """The stages of one task under one configuration.

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric.
        models: loads LMs and encoders; shared with other graphs.
        trained_by: the graphs whose trained encoders this one takes; with several, the encoders are trained on the
            scores of all of them. By default its own.

    Raises:
        UserError: an unknown metric, or settings that do not fit the task.
    """

    def __init__(
        self, config: RunConfig, task: Task, models: Models | None = None, trained_by: Sequence[Graph] = ()
    ) -> None:
        load_own()
        self.config, self.task, self.models = config, task, models or Models()
        self.trained_by = tuple(trained_by)
        for metric in (task.metric, *task.more_metrics):
            metric_named(metric)  # a misspelt name ends here, before the LM has answered anything
        if not 0 <= config.shots < len(task.train):
            raise UserError(
                f"--shots {config.shots}: the bank of {task.name} has {len(task.train)} examples; "
                f"ask for 0 to {len(task.train) - 1}"
            )
        choices = bool(task.validation and task.validation[0].choices)
        if config.answers > 1 and config.answers_by == "samples" and choices:
            raise UserError(
                f"--answers {config.answers}: {task.name} chooses among given answers, so there is nothing to "
                "sample; take --answers-by orders"
            )
        if len(self.trained_by) > 1 and config.text != "input":
            raise UserError(f"--text {config.text}: tasks are trained on together with --text input only")
        self.bank, self.queries = Rows(task.train), Rows(task.validation)
        self._rows: dict[bytes, Rows] = {}

    # the models and the prompts

    def lm_named(self, spec: str) -> LM:
        """Return another LM with this run's dtype, device map and endpoint."""
        config = self.config
        return LM(self.models, spec, config.dtype, config.device_map, config.endpoint)

    @cached_property
    def lm(self) -> LM:
        """The LM that scores and answers."""
        return self.lm_named(self.config.lm)

    @cached_property
    def pretrained(self) -> Pretrained:
        """The untrained encoder."""
        return Pretrained(self.models, self.config.encoder, self.config.endpoint)

    @cached_property
    def prompting(self) -> Prompting:
        """The prompts that candidate sets are scored with."""
        task, config = self.task, self.config
        return Prompting(
            self.lm,
            task.template,
            tuple(task.few_shot),
            config.fit,
            config.order,
            per_token=task.per_token,
            max_new_tokens=task.max_new_tokens,
        )

    @cached_property
    def answering(self) -> Prompting:
        """The prompts that queries are answered with."""
        return replace(self.prompting, token_budget=self.config.token_budget)

    @cached_property
    def voting(self) -> Voting:
        """How a query's answers are collected."""
        config = self.config
        if config.answers == 1:
            return Voting()
        return Voting(config.answers, config.answers_by, config.temperature, config.data_seed)

    # the retrieval text

    def skills(self, rows: Rows, orders: Iterable[int]) -> tuple[Skills, ...]:
        """Return the skills of rows for some orders of the demonstrations.

        Raises:
            UserError: the task has no demonstrations of its own and none are given; an order out of range.
        """
        config = self.config.skills
        source = config.demonstrations or self.task.language
        if not source:
            raise UserError(
                f"{self.task.name} has no demonstrations of skills: give --skills.demonstrations FILE"
            )
        if not 0 <= config.order < config.orders:
            raise UserError(
                f"--skills.order {config.order}: expected a number from 0 to below --skills.orders ({config.orders})"
            )
        lm = self.lm_named(config.lm or self.config.lm)
        shown, seed = tuple(load_demonstrations(source)), self.config.data_seed
        return tuple(Skills(rows, lm, shown, config.orders, order, seed) for order in orders)

    def seen(self, rows: Rows) -> View:
        """Return rows as retrievers see them: by `--text`, with a skill in place of the input."""
        if self.config.text == "input":
            return Given(rows)
        [skills] = self.skills(rows, [self.config.skills.order])
        return Rewritten(rows, skills)

    @cached_property
    def bank_view(self) -> View:
        """The bank as retrievers see it."""
        return self.seen(self.bank)

    @cached_property
    def context_view(self) -> View:
        """The bank as trained encoders see it: by `--context`, with the output after the input."""
        return self.bank_view if self.config.context == "input" else WithOutputs(self.bank_view)

    def view_of(self, source: str | None) -> View:
        """Return the bank as `base` or a training's encoders see it."""
        return self.context_view if source in TRAININGS else self.bank_view

    def orders(self, method: Method) -> list[int]:
        """Return the orders of the demonstrations whose skills a method compares, if any."""
        needs, config = method.needs, self.config
        if needs.skills == "all":
            return list(range(config.skills.orders))
        return [config.skills.order] if needs.skills == "one" else []

    # training

    @cached_property
    def _order(self) -> np.ndarray:
        """int [N]: bank positions in the order in which training takes its queries; tuning takes the last."""
        return np.random.default_rng([self.config.data_seed, 3]).permutation(len(self.bank))

    def training_queries(self, count: int) -> TrainingQueries:
        """Return `count` queries of the bank, in its order; fewer queries are among more."""
        return self._queries(self._order[:count])

    def _queries(self, positions: np.ndarray) -> TrainingQueries:
        positions = np.sort(positions).astype(np.int32)
        known = self._rows.setdefault(positions.tobytes(), Rows([self.task.train[i] for i in positions]))
        return TrainingQueries(positions, known, self.seen(known))

    @cached_property
    def first(self) -> Graph:
        """The graph whose seed is `data_seed`: its encoders draw the sets and set λ for all seeds."""
        if self.config.seed == self.config.data_seed:
            return self
        first = Graph(
            replace(self.config, seed=self.config.data_seed),
            self.task,
            self.models,
            [one.first for one in self.trained_by],
        )
        first.bank, first.queries, first._rows = self.bank, self.queries, self._rows
        return first

    def settings(self, source: str) -> Any:
        """Return the settings of a training: RunConfig's field of that name, or the training's own."""
        if source not in TRAININGS:
            return None
        own = getattr(self.config, source, TRAININGS[source].settings)
        return own(self) if callable(own) else own

    def start(self, source: str) -> str:
        """Return the name of the encoders that a training starts from.

        Raises:
            UserError: no such encoders, or a training that would start from itself.
        """
        chain = [source]
        while (one := chain[-1]) != "base":
            if one not in TRAININGS:
                raise unknown_name(
                    "encoders", one, ("base", *TRAININGS), f"--{chain[-2]}.initial names them."
                )
            chain.append(TRAININGS[one].start(self.settings(one)))
            if chain[-1] in chain[:-1]:
                raise UserError(f"--{one}.initial {chain[-1]}: a training cannot start from itself")
        return chain[1]

    def starts(self, source: str) -> tuple[str, ...]:
        """Return the encoders that a guard goes back to: those that the training starts from, and the untrained ones.
        What has learnt from all of the bank's outputs cannot be judged by the bank's queries, and is left out."""
        start = self.start(source)
        return (start, "base") if start != "base" and self.asks(start) else ("base",)

    @property
    def _by(self) -> tuple[Graph, ...]:
        """The graphs whose scores this one's encoders are trained on."""
        return self.trained_by or (self,)

    def learns(self, source: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the bank positions of the queries that a training learns from, and of those that it holds out."""
        positions = self._positions(source)
        learnt, held_out = split_held_out(len(positions), self._by[0].config.seed, self._seen(source))
        return positions[learnt], positions[held_out]

    def asks(self, source: str) -> bool:
        """Whether a training learns from some of the bank's queries and holds others out, rather than from all
        outputs, with a choice by cross-validation of its own (`training.free.choice`)."""
        return hasattr(self.settings(source), "instances")

    def _positions(self, source: str) -> np.ndarray:
        """int32 [Q]: the positions of a training's queries in its bank, or in the banks of all tasks laid end to
        end."""
        starts = np.cumsum([0, *(len(one.bank) for one in self._by)])
        count = self._by[0].settings(source).instances
        own = [np.sort(one._order[:count]) + start for one, start in zip(self._by, starts, strict=False)]
        return np.concatenate(own).astype(np.int32)

    def _seen(self, source: str) -> np.ndarray | None:
        """bool [Q]: the training queries that the encoders it starts from have learnt from; None for untrained."""
        start = self._by[0].start(source)
        if start == "base" or not self._by[0].asks(start):
            return None
        return np.isin(self._positions(source), self.learns(start)[0])

    def encoders(self, source: str) -> Stage[Encoders]:
        """Return the encoders of `base` or of a training, as training left them."""
        if source == "base":
            return Untrained(self.pretrained)
        if source not in TRAININGS:
            raise unknown_name("encoders", source, ("base", *TRAININGS))
        return self._weights(source)

    def _weights(self, source: str) -> Weights:
        """The encoders of a training; on several tasks' scores the first one's settings apply."""
        lead, training = self._by[0], TRAININGS[source]
        for one in self._by:
            if why := training.applies(one.task):
                raise UserError(f"{training.title}: {why}")
        if training.scored is None:
            return self._unscored(training, lead)
        settings, start, view = lead.settings(source), self.encoders(lead.start(source)), self._context
        learns = lead.asks(source)
        queries = [one.training_queries(settings.instances if learns else len(one.bank)) for one in self._by]
        for one in self._by:
            training.check(one, settings)
        scored = [one.scored(source) for one in self._by]
        trade_offs = [one.training_trade_off(source) for one in self._by]
        several = len(self._by) > 1
        return Weights(
            training,
            Joined(tuple(scored), tuple(len(one.bank) for one in self._by)) if several else scored[0],
            Together(tuple(one.seen for one in queries)) if several else queries[0].seen,
            view,
            start,
            _without(settings, "instances"),
            lead.config.seed,
            Middle(tuple(trade_offs)) if several and None not in trade_offs else trade_offs[0],  # type: ignore[arg-type]
            self._seen(source) if learns else None,
            sum(len(one.rows) for one in queries),
        )

    def _unscored(self, training: Training, lead: Graph) -> Weights:
        """The encoders of a training that learns from the bank alone."""
        start = self.encoders(lead.start(training.name))
        settings = lead.settings(training.name)
        return Weights(training, None, None, self._context, start, settings, lead.config.data_seed)

    @property
    def _context(self) -> View:
        """The bank, or the banks of all tasks, as trained encoders see them while they are trained."""
        views = tuple(one.context_view for one in self._by)
        return views[0] if len(views) == 1 else Together(views)

    def trade_off_for(self, settings: Any) -> float | Stage[float]:
        """Return λ of settings that name their start."""
        return self.tuned(settings.initial) if settings.trade_off == "tuned" else settings.trade_off

    def training_trade_off(self, source: str) -> float | Stage[float] | None:
        """Return λ that a training is done with."""
        given = TRAININGS[source].trade_off(self.settings(source))
        return self.tuned(self.start(source)) if given == "tuned" else given  # type: ignore[return-value]

    def scores(self, queries: Rows, sets: Stage[CandidateSets], shape: tuple[int, int], label: str) -> Scores:
        """Return the LM's scores of candidate sets, M sets of k examples each."""
        return Scores(self.prompting, queries, self.bank, sets, shape, label)

    def compared(self, source: str, queries: View) -> tuple[Stage[np.ndarray], Stage[np.ndarray]]:
        """Return the vectors of queries and of the bank by the encoders of `base` or a training."""
        encoders = self.encoders(source)
        return Encoded(encoders, queries), Encoded(encoders, self.view_of(source), "context")

    def nearest(self, source: str, queries: View, n: int) -> Chosen:
        """Return the n nearest examples of each query, never the query itself."""
        return Chosen(
            "dense",
            self.view_of(source),
            queries,
            min(n, len(self.bank) - 1),
            self.encoders(source),
            self.compared(source, queries),
            index=self.config.index,
        )

    def scored(self, source: str) -> Stage[ScoredSets]:
        """Return the candidate sets with their scores that a training learns from; the same for all seeds."""
        scored = TRAININGS[source].scored
        if scored is None:
            raise UserError(f"{source} learns from the bank's outputs, not from scores")
        return scored(self.first, self.settings(source))

    # λ

    def tuned(self, source: str) -> TradeOff:
        """Return λ chosen for the encoders of `base` or a training; seeds share that of the first one's."""
        first, config = self.first, self.config
        # training takes its queries from the beginning of the order, tuning from its end
        asked = self._queries(self._order[-TUNING_QUERIES:])
        sets = MapSets(
            first.nearest(source, asked.seen, config.shortlist),
            first.compared(source, asked.seen),
            config.shots,
            self.answering,
            asked.rows,
            self.bank,
        )
        # neighbouring values of λ often choose the same set, which is read once
        distinct = len(TRADE_OFFS) // 2
        scores = self.scores(asked.rows, sets, (distinct, config.shots), f"λ of {source}")
        return TradeOff(scores, source)

    def trade_off_of(self, method: Method) -> float | Stage[float] | None:
        """Return λ of a method: its retriever's own, the one that its encoders were trained with, the configured one,
        or the one tuned for its encoders; None for a method without one."""
        if isinstance(method.needs.trade_off, float):
            return method.needs.trade_off
        if method.needs.trade_off is None or method.encoder is None:
            return None
        encoders = self.used(method)
        if isinstance(encoders, Guarded):
            found = tuple(self._own_trade_off(name) for name in encoders.names)
            return GuardedTradeOff(encoders, found)
        return self._own_trade_off(method.encoder)

    def _own_trade_off(self, source: str) -> float | Stage[float]:
        given: float | Literal["tuned"] | Stage[float] = self.config.trade_off
        if source in TRAININGS and TRAININGS[source].sets:
            trained = self.config.ceil_map_trade_off or TRAININGS[source].trade_off(self.settings(source))
            if self.config.ceil_map_trade_off is None and trained == "tuned":
                return self._trained_trade_off(source)
            given = trained if trained is not None else given  # type: ignore[assignment]
        return self.tuned(source) if given == "tuned" else given

    def _trained_trade_off(self, source: str) -> float | Stage[float]:
        found = [one.training_trade_off(source) for one in self._by]
        return found[0] if len(found) == 1 else Middle(tuple(found))  # type: ignore[arg-type,return-value]

    # what a method chooses, what is answered, and the metric

    def method(self, name: str) -> Method:
        """Return a method by its name; with --shots 0 every method is the one that has zero examples.

        Raises:
            UserError: a name that is not known.
        """
        method = method_named(name)
        if self.config.shots or method.answers != "lm":
            return method
        return METHODS["zero"]._replace(label=method.label)

    def used(self, method: Method) -> Stage[Encoders]:
        """Return the encoders that a method uses: its own, or with --guard perhaps those before them."""
        assert method.encoder is not None
        own = self.encoders(method.encoder)
        guarded = self.config.guard and method.trains and not self.trained_by
        if not (guarded and self.asks(method.encoder)):
            return own
        training = TRAININGS[method.encoder]
        names = (method.encoder, *self.starts(method.encoder))
        retriever = "dpp" if training.sets else "dense"
        _, held_out = self.learns(method.encoder)
        asked = self._queries(held_out)
        answers = tuple(
            MetricSample(
                self._metric(self._predictions(chosen, asked.rows, f"{name} to judge {training.title}"))
            )
            for name in names
            for chosen in [
                self._chosen(
                    Method(retriever, name, name), self.encoders(name), asked, self._own_trade_off(name)
                )
            ]
        )
        return Guarded(tuple(self.encoders(name) for name in names), names, answers)

    def chosen(self, name: str, queries: Rows | None = None) -> Chosen:
        """Return the examples that a method chooses for queries; by default for the task's."""
        method, rows = self.method(name), queries or self.queries
        asked = TrainingQueries(np.array([]), rows, self.seen(rows) if method.needs.text else Given(rows))
        encoders = None if method.encoder is None else self.used(method)
        return self._chosen(method, encoders, asked, self.trade_off_of(method))

    def _chosen(
        self,
        method: Method,
        encoders: Stage[Encoders] | None,
        asked: TrainingQueries,
        trade_off: float | Stage[float] | None,
    ) -> Chosen:
        needs, config = method.needs, self.config
        bank = self.view_of(method.encoder) if needs.text else Given(self.bank)
        tunable = needs.trade_off == "tunable"
        vectors: tuple[Stage[np.ndarray], ...] = ()
        if encoders is not None and needs.text:
            vectors = Encoded(encoders, asked.seen), Encoded(encoders, bank, "context")
        orders = self.orders(method)
        return Chosen(
            method.retriever,
            bank,
            asked.seen,
            config.shots,
            encoders,
            vectors,
            trade_off if tunable or isinstance(needs.trade_off, float) else None,
            config.shortlist if needs.shortlist else None,
            config.data_seed,
            config.index,
            tuple(self.skills(rows, orders) for rows in (self.bank, asked.rows)) if orders else (),
            self.task.language if needs.sketch else "",
        )

    def _predictions(self, chosen: Chosen, rows: Rows, label: str) -> Predictions:
        return Predictions(
            self.answering,
            rows,
            self.bank,
            chosen,
            tuple(self.task.stop),
            self.voting,
            0 if chosen.retriever == "zero" else self.config.shots,
            label,
        )

    def predictions(self, name: str, queries: Rows | None = None) -> Stage[list[dict[str, Any]]]:
        """Return the answer to each query with a method's examples; by default to the task's queries."""
        method, rows = self.method(name), queries or self.queries
        if method.answers == "majority":
            return Majority(rows, self.bank)
        if method.answers == "classifier":
            assert method.encoder is not None
            return Classified(rows, self.bank, self.encoders(method.encoder))
        return self._predictions(self.chosen(name, rows), rows, method.label)

    def _metric(self, predictions: Stage[list[dict[str, Any]]]) -> Metric:
        return Metric(predictions, self.task.metric, tuple(self.task.more_metrics))

    def metric(self, name: str) -> Metric:
        """Return the task's metrics of a method's answers."""
        return self._metric(self.predictions(name))


class Opened(NamedTuple):
    """A run and the stages of its task."""

    run: Run
    graph: Graph


def open_run(
    config: RunConfig, task: Task, models: Models | None = None, trained_by: Sequence[Graph] = ()
) -> Opened:
    """Return what computes stages, and the stages of a task. Nothing is computed and no model is loaded yet.

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric. The bank of a task of your own loses what shows a
            query's text (`tasks.own_file.separated`).
        models: shared with other runs; by default the run's own.
        trained_by: see `Graph`.

    Example:
        >>> from ceil_jax import load_task
        >>> task = load_task("scan.simple", limit=4, bank_limit=50)
        >>> run, graph = open_run(RunConfig(encoder="tiny", lm="tiny"), task)
        >>> graph.chosen("bm25").k
        8
    """
    graph = Graph(config, task if task.name in TASKS else separated(task), models, trained_by)
    engine = None
    if config.engine == "ray":
        from ceil_jax.lm.ray_reading import actor_pool

        engine = lambda lm: actor_pool(lm.loader(), lm.key, config.actors)  # noqa: E731
    return Opened(Run(config.out, graph.models, engine=engine), graph)


def _without(settings: Any, name: str) -> Any:
    """Settings with a field at its default: what it decides is in the key of the queries."""
    if not hasattr(settings, name):
        return settings
    return replace(settings, **{name: type(settings).__dataclass_fields__[name].default})
