"""The stages of one run's rows: which values a configuration and a task make, and what each of them
needs.

Every method of `Graph` only puts values together; `stage.Run.get` computes them. They stand in the
order of the picture in docs/architecture.md, from a row's metric down to the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.metrics import METRICS
from ceil_jax.pipeline.answering import Answers, Classified, Majority, Measurement, Predictions
from ceil_jax.pipeline.choosing import Chosen, MapSets
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.encoders import AskedByBank, Encoded, Encoders, Untrained, Weights
from ceil_jax.pipeline.methods import METHODS, TRAININGS, Method, load_own, method_named
from ceil_jax.pipeline.models import LM, Models, Pretrained
from ceil_jax.pipeline.scoring import Prompting, Scores, TradeOff
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.views import (
    Examples,
    Inputs,
    RetrievalTexts,
    Rewritten,
    Skills,
    TrainingQueries,
    WithOutputs,
)
from ceil_jax.skills.rewriter import load_demonstrations
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.own_file import separated
from ceil_jax.tasks.registry import TASKS
from ceil_jax.training.candidates import ScoredSets
from ceil_jax.training.loop import split_held_out
from ceil_jax.training.tuning import TRADE_OFFS, TUNING_QUERIES


class Graph:
    """The stages of one task under one configuration.

    Args:
        config: everything that a number depends on besides the task's data.
        task: the bank, the queries, the template and the metric.
        models: loads LMs and encoders; shared with other graphs.
        trained_by: the graph whose trained encoders this one takes; by default its own.

    Raises:
        UserError: an unknown metric, or settings that do not fit the task.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        models: Models | None = None,
        trained_by: Graph | None = None,
    ) -> None:
        load_own()
        self.config, self.task, self.models = config, task, models or Models()
        self.trained_by = trained_by
        for metric in (task.metric, *task.more_metrics):
            METRICS[metric]  # a misspelt name ends here, before the LM has answered anything
        if not 0 <= config.shots < len(task.train):
            raise UserError(
                f"--shots {config.shots}: the bank of {task.name} has {len(task.train)} examples; "
                f"ask for 0 to {len(task.train) - 1}"
            )
        self.bank, self.queries = Examples(task.train), Examples(task.validation)
        self._asked: dict[bytes, TrainingQueries] = {}
        self._settings: dict[str, Any] = {}

    # a row: its metric, its answers, its examples, and the encoders and λ that choose these

    def method(self, name: str) -> Method:
        """Return a method by its name; with --shots 0 every method is the one that has zero
        examples.

        Raises:
            UserError: a name that is not known.
        """
        method = method_named(name)
        if self.config.shots or method.answers != "lm":
            return method
        return METHODS["zero"]._replace(label=method.label)

    def metric(self, name: str) -> Measurement:
        """Return the task's metrics of a method's answers."""
        return Measurement(self.predictions(name), self.task.metric, tuple(self.task.more_metrics))

    def predictions(self, name: str, queries: Sequence[Example] | None = None) -> Answers:
        """Return the answer to each query with a method's examples; by default to the task's
        queries."""
        method = self.method(name)
        asked = self.queries if queries is None else Examples(queries)
        if method.answers == "majority":
            return Majority(asked, self.bank)
        if method.answers == "classifier":
            assert method.encoder is not None
            return Classified(asked, self.bank, self.encoders(method.encoder))
        shots = 0 if method.retriever == "zero" else self.config.shots
        chosen, stop = self.chosen(name, queries), tuple(self.task.stop)
        return Predictions(asked, self.bank, self.answering, chosen, stop, shots, method.label)

    def chosen(self, name: str, queries: Sequence[Example] | None = None) -> Chosen:
        """Return the examples that a method chooses for queries; by default for the task's."""
        method, config = self.method(name), self.config
        needs, rows = method.needs, self.queries if queries is None else Examples(queries)
        encoders = None if method.encoder is None else self.encoders(method.encoder)
        bank: RetrievalTexts = Inputs(self.bank)
        asked: RetrievalTexts = Inputs(rows)
        vectors: tuple[Stage[np.ndarray], ...] = ()
        if needs.text:
            bank, asked = self.bank_texts(method.encoder), self.texts(rows)
            if encoders is not None:
                vectors = Encoded(encoders, asked), Encoded(encoders, bank, "context")
        trade_off: float | Stage[float] | None = None
        if isinstance(needs.trade_off, float):
            trade_off = needs.trade_off
        elif needs.trade_off == "tunable" and method.encoder is not None:
            trade_off = self.map_trade_off(method.encoder)
        orders = config.skills.orders
        taken = {"all": range(orders), "one": [config.seed % orders]}.get(needs.skills, ())
        return Chosen(
            method.retriever,
            bank,
            asked,
            config.shots,
            encoders,
            vectors,
            trade_off=trade_off,
            shortlist=config.shortlist if needs.shortlist else None,
            seed=config.seed if needs.seeded else config.data_seed,
            skills=tuple(self.skills(side, taken) for side in (self.bank, rows)) if taken else (),
            language=self.task.language if needs.sketch else "",
        )

    def map_trade_off(self, source: str) -> float | Stage[float]:
        """Return λ of a MAP row with the encoders of `base` or a training: the λ that these learnt
        sets with, else the configured one."""
        encoders = self.encoders(source)
        if (
            isinstance(encoders, Weights)
            and encoders.training.sets
            and encoders.trade_off is not None
        ):
            return encoders.trade_off
        return self.trade_off(self.config.trade_off, source)

    def trade_off(self, given: float | Literal["tuned"], source: str) -> float | Stage[float]:
        """Return λ as it is given; "tuned" is chosen for the encoders of `base` or a training, for
        all seeds."""
        if given != "tuned":
            return given
        # training takes its queries from the beginning of the order, tuning from its end
        asked, first, shots = (
            self._bank_queries(self._order[-TUNING_QUERIES:]),
            self.first,
            self.config.shots,
        )
        nearest, vectors = (
            first.nearest(source, asked, self.config.shortlist),
            first.encoded(source, asked),
        )
        sets = MapSets(nearest, vectors, shots, self.answering, asked, self.bank)
        # neighbouring values of λ often choose the same set: of five, 2.0 to 3.0 differed on five
        # tasks
        shape, label = (len(TRADE_OFFS), shots), f"λ of {source}"
        scores = Scores(
            self.prompting,
            asked,
            self.bank,
            sets,
            shape,
            label,
            differing=0.47,
            all_choices=True,
        )
        return TradeOff(scores, source)

    # trained encoders: their weights, the scored candidates that they learn from, the nearest
    # examples among which these are drawn by the encoders that training starts from

    def encoders(self, source: str) -> Stage[Encoders]:
        """Return the encoders of `base` or of a training, as training left them.

        Raises:
            UserError: an unknown name, a task that it cannot be trained on, or settings that cannot
                be.
        """
        if source == "base":
            return Untrained(self.pretrained)
        if self.trained_by:
            return self.trained_by.encoders(source)
        training, settings, start = TRAININGS[source], self.settings(source), self.start(source)
        if why := training.refusal(self.task):
            raise UserError(f"{training.title}: {why}")
        begins, bank = self.encoders(start), self.bank_texts(source)
        if training.scored is None:
            return Weights(training, None, None, bank, begins, settings, self.config.data_seed)
        training.check(self, settings)
        given = getattr(settings, "trade_off", None)
        asked, by_bank = self._learns_from(source), self.asked_by_bank(start)
        return Weights(
            training,
            self.scored(source),
            self.texts(asked),
            bank,
            begins,
            _without_instances(settings),
            seed=self.config.seed,
            trade_off=None if given is None else self.trade_off(given, start),
            seen=self._learnt_before(source),
            asked=None if by_bank == begins else by_bank,
        )

    def asked_by_bank(self, source: str) -> Stage[Encoders]:
        """Return the encoders of `base` or a training for queries of the bank: those of `encoders`,
        but that a free method among its starts is cross-fitted, so that no query sees its own
        output."""
        encoders, starts = self.encoders(source), [] if self.trained_by else self._starts(source)
        for free in starts:
            if cross_fitted := TRAININGS[free].cross_fitted:
                return AskedByBank(
                    encoders, self.bank_texts(free), cross_fitted(self.encoders(free))
                )
        return encoders

    @cached_property
    def first(self) -> Graph:
        """The graph with `data_seed` as its seed, which draws candidate sets and sets λ for all
        seeds, so that these share the LM's work."""
        if self.config.seed == self.config.data_seed:
            return self
        config = replace(self.config, seed=self.config.data_seed)
        first = Graph(config, self.task, self.models, self.trained_by and self.trained_by.first)
        first.bank, first.queries, first._asked = self.bank, self.queries, self._asked
        return first

    def settings(self, source: str) -> Any:
        """Return the settings of a training: RunConfig's field of that name, or the training's
        own."""
        if source not in self._settings:
            own = getattr(self.config, source, TRAININGS[source].settings)
            self._settings[source] = own(self) if callable(own) else own
        return self._settings[source]

    def start(self, source: str) -> str:
        """Return the name of the encoders that a training starts from.

        Raises:
            UserError: no such encoders, or a training that would start from itself.
        """
        return [*self._starts(source), "base"][1]

    def _starts(self, source: str) -> list[str]:
        """A training, the one that it starts from, and so on down to the untrained encoders,
        without `base`."""
        chain = [source]
        while (one := chain[-1]) != "base":
            if one not in TRAININGS:
                raise unknown_name(
                    "encoders", one, ("base", *TRAININGS), f"--{chain[-2]}.initial names them."
                )
            chain.append(getattr(self.settings(one), "initial", "base"))
            if chain[-1] in chain[:-1]:
                raise UserError(f"--{one}.initial {chain[-1]}: a training cannot start from itself")
        return chain[:-1]

    def scored(self, source: str) -> Stage[ScoredSets]:
        """Return the candidate sets with their scores that a training learns from; the same for all
        seeds."""
        scored = TRAININGS[source].scored
        assert scored is not None, f"{source} learns from the bank's outputs"
        return scored(self.first, self.settings(source))

    def nearest(self, source: str, queries: Examples, n: int) -> Chosen:
        """Return the n nearest examples of each query of the bank, never the query itself."""
        bank, asked, n = self.bank_texts(source), self.texts(queries), min(n, len(self.bank) - 1)
        encoders, vectors = self.asked_by_bank(source), self.encoded(source, queries)
        return Chosen("dense", bank, asked, n, encoders, vectors)

    def encoded(
        self, source: str, queries: Examples
    ) -> tuple[Stage[np.ndarray], Stage[np.ndarray]]:
        """Return the vectors of queries of the bank, and of the bank, by the encoders of `base` or
        a training."""
        bank = Encoded(self.encoders(source), self.bank_texts(source), "context")
        return Encoded(self.asked_by_bank(source), self.texts(queries)), bank

    # the queries of the bank that training and tuning use

    @cached_property
    def _order(self) -> np.ndarray:
        """int [N]: bank positions in the order in which training takes its queries."""
        return np.random.default_rng([self.config.data_seed, 3]).permutation(len(self.bank))

    def training_queries(self, count: int) -> TrainingQueries:
        """Return `count` queries of the bank, in its order; fewer queries are among more."""
        return self._bank_queries(self._order[:count])

    def _bank_queries(self, positions: np.ndarray) -> TrainingQueries:
        positions = np.sort(positions).astype(np.int32)
        rows = TrainingQueries([self.task.train[i] for i in positions], positions)
        return self._asked.setdefault(positions.tobytes(), rows)

    def _learns_from(self, source: str) -> TrainingQueries:
        """The training queries of a training."""
        return self.training_queries(getattr(self.settings(source), "instances", len(self.bank)))

    def learns(self, source: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the bank positions of the queries that a training learns from, and of those that
        it holds out."""
        positions = self._learns_from(source).positions
        learnt, held_out = split_held_out(
            len(positions), self.config.seed, self._learnt_before(source)
        )
        return positions[learnt], positions[held_out]

    def _learnt_before(self, source: str) -> np.ndarray | None:
        """bool [Q]: the training queries that the encoders it starts from have learnt from; None
        for untrained."""
        start = self.start(source)
        if start == "base" or TRAININGS[start].scored is None:
            return None
        positions = self._learns_from(source).positions
        return np.isin(positions, self.learns(start)[0])

    # the retrieval texts

    def texts(self, rows: Examples) -> RetrievalTexts:
        """Return the retrieval texts of rows: by `--text`, inputs or the skills that they need."""
        if self.config.text == "input":
            return Inputs(rows)
        [skills] = self.skills(rows, [0])
        return Rewritten(rows, skills)

    def bank_texts(self, source: str | None) -> RetrievalTexts:
        """Return the bank's texts for the encoders of a training, by `--context` with outputs;
        without for `base` and for free methods, which learn to tell a query's output from its
        text."""
        plain, training = self.texts(self.bank), TRAININGS.get(source or "")
        seen = (
            training is not None
            and training.scored is not None
            and self.config.context == "example"
        )
        return WithOutputs(plain) if seen else plain

    def skills(self, rows: Examples, orders: Iterable[int]) -> tuple[Skills, ...]:
        """Return the skills of rows for some orders of the demonstrations.

        Raises:
            UserError: the task has no demonstrations of its own and none are given.
        """
        config = self.config.skills
        source = config.demonstrations or self.task.language
        if not source:
            raise UserError(
                f"{self.task.name} has no demonstrations of skills: give --skills.demonstrations "
                "FILE"
            )
        lm = self._lm_named(config.lm or self.config.lm)
        shown, seed = tuple(load_demonstrations(source)), self.config.data_seed
        return tuple(Skills(rows, lm, shown, config.orders, order, seed) for order in orders)

    # the models and the prompts

    def _lm_named(self, spec: str) -> LM:
        config = self.config
        return LM(self.models, spec, config.dtype, config.device_map, config.endpoint)

    @cached_property
    def lm(self) -> LM:
        """The LM that scores and answers."""
        return self._lm_named(self.config.lm)

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


def _without_instances(settings: Any) -> Any:
    """Settings with `instances` at its default: what it decides is in the key of the queries."""
    fields = type(settings).__dataclass_fields__
    return (
        replace(settings, instances=fields["instances"].default)
        if "instances" in fields
        else settings
    )


class Opened(NamedTuple):
    """A run and the stages of its task."""

    run: Run
    graph: Graph


def open_run(
    config: RunConfig, task: Task, models: Models | None = None, trained_by: Graph | None = None
) -> Opened:
    """Return what computes stages, and the stages of a task (see `Graph`). Nothing is computed and
    no model is loaded yet. The bank of a task of your own loses what shows a query's text
    (`tasks.own_file.separated`).

    Example:
        >>> from ceil_jax import load_task
        >>> task = load_task("movie_reviews", limit=4, bank_limit=50)
        >>> run, graph = open_run(RunConfig(encoder="tiny", lm="tiny"), task)
        >>> graph.chosen("bm25").k
        8
    """
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file; name a folder")
    graph = Graph(config, task if task.name in TASKS else separated(task), models, trained_by)
    engine = None
    if config.engine == "ray":
        from ceil_jax.lm.ray_reading import actor_pool

        engine = lambda lm: actor_pool(lm.loader(), lm.key, config.actors)  # noqa: E731
    return Opened(Run(config.out, graph.models, engine=engine), graph)
