"""The field of a race: each candidate's prompts for some rows, and what the LM answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.graph import Graph, open_run
from ceil_jax.pipeline.models import Models
from ceil_jax.racing.budget import Meter
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.answers import Answers
from ceil_jax.tuning.candidates import ZERO, Candidate


class Entrant(NamedTuple):
    """A candidate with its prompts for some rows."""

    candidate: Candidate
    prompts: list[str]
    lengths: np.ndarray
    """float [N]: tokens of each prompt, which is what it costs to use."""
    tokens: np.ndarray
    """float [N]: the largest number of LM tokens that each row takes, the answer included."""


class Scored(NamedTuple):
    """The LM's answers to some prompts, scored."""

    scores: np.ndarray
    """float [N]: the metric of each row."""
    statistics: np.ndarray
    """float [N, s]: what the metric is a function of the sums of."""
    predictions: list[str]


class Field:
    """Candidates over one bank, with one LM.

    Args:
        config: the settings of all candidates.
        task: the bank, the template and the metric.
        meter: what is spent is entered here.
        models: shared with other fields; by default its own.
    """

    def __init__(self, config: RunConfig, task: Task, meter: Meter, models: Models | None = None) -> None:
        self.config, self.task, self.meter = config, task, meter
        self.run = open_run(config, task, models).run
        self._graphs: dict[RunConfig, Graph] = {}
        self._builders: dict[tuple[str, ...], PromptBuilder] = {}

    def graph(self, candidate: Candidate) -> Graph:
        """Return the stages of a candidate's settings; candidates of equal settings share them."""
        config = candidate.config(self.config)
        if config not in self._graphs:
            self._graphs[config] = Graph(config, self.task, self.run.models)
        return self._graphs[config]

    @cached_property
    def base(self) -> Graph:
        """The graph whose LM and prompts all candidates share."""
        return self.graph(Candidate(ZERO, 0))

    @cached_property
    def answers(self) -> Answers:
        """Asks the LM."""
        return Answers(self.run, self.base, self.meter)

    def enter(self, candidate: Candidate, queries: Sequence[Example]) -> Entrant:
        """Return a candidate's prompts for some rows; only encoders work, unless it has to be prepared.

        Args:
            candidate: how examples are chosen.
            queries: N rows.
        """
        builder = self._builder(queries)
        retrieved = self.run.get(self.graph(candidate).chosen(candidate.method, queries))
        prompts = []
        for query, picks in zip(queries, retrieved, strict=True):
            chosen = [self.task.train[pick.position] for pick in picks]
            relevance = [pick.relevance for pick in picks]
            gains = [pick.gain for pick in picks]
            prompts.append(builder.build(query, chosen, relevance, self.config.fit, gains).text)
        lengths = np.asarray(self.answers.lm.count_tokens(prompts), np.float64)
        return Entrant(candidate, prompts, lengths, self.answers.tokens(prompts, queries))

    def _builder(self, queries: Sequence[Example]) -> PromptBuilder:
        """The builder of prompts for some rows, which has counted the bank's tokens once."""
        key = tuple(query.id for query in queries)
        if key not in self._builders:
            self._builders[key] = self.base.answering.builder(self.run, queries)
        return self._builders[key]

    def score(
        self, entrants: Sequence[Entrant], queries: Sequence[Example], span: slice, what: str
    ) -> list[Scored]:
        """Return what the LM answers to some of the rows of each entrant.

        Args:
            entrants: candidates with their prompts for the queries.
            queries: N rows.
            span: the rows that are asked.
            what: the progress bar's label.

        Raises:
            OutOfTime: the seconds of the budget are spent.
        """
        asked = queries[span]
        prompts = [prompt for one in entrants for prompt in one.prompts[span]]
        tokens = np.concatenate([one.tokens[span] for one in entrants])
        answers = self.answers.ask(prompts, [query for _ in entrants for query in asked], tokens, what)
        metric, found = metric_named(self.task.metric), []
        for place in range(len(entrants)):
            predictions = answers[place * len(asked) : (place + 1) * len(asked)]
            scores = np.asarray(metric.per_example(predictions, asked), np.float64)
            found.append(Scored(scores, metric.statistics(scores, predictions, asked), predictions))
        return found
