"""The field of a race: each candidate's prompts for some rows, what the LM answers to them, and
what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Sample
from ceil_jax.pipeline import rows
from ceil_jax.pipeline.answering import Predictions, Reply, ask, way_of_answering
from ceil_jax.pipeline.choosing import Choose
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import Setup, open_run, setup_of
from ceil_jax.pipeline.views import Examples
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import bar
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import ZERO, Candidate

_CHUNK = 32
"""Prompts between two looks at the clock."""

_SPECIAL = 2
"""Tokens that a tokenizer may put around a text."""

MARGIN = 1.25
"""The factor on the estimates of dry runs, which count a sample."""


class OutOfTime(UserError):
    """The minutes have passed."""


class Entrant(NamedTuple):
    """A candidate with its prompts for some rows."""

    candidate: Candidate
    prompts: list[str]
    lengths: np.ndarray
    """float [N]: tokens of each prompt, which is what it costs to use."""
    tokens: np.ndarray
    """float [N]: the largest number of LM tokens that each row takes, the answer included."""


class Answered(NamedTuple):
    """The LM's answers to some prompts, scored."""

    scores: np.ndarray
    """float [N]: the metric of each row."""
    sample: Sample
    """The rows' statistics, with the metric as a function of their sums."""
    replies: Sequence[Reply]


class Field:
    """Candidates over one bank, with one LM.

    What two candidates ask alike is read, and paid for from the budget, once. An answer that was
    read before costs what it cost then, so that a search that was killed and goes on takes the same
    decisions.
    """

    def __init__(
        self, config: RunConfig, task: Task, budget: Budget, models: Models | None = None
    ) -> None:
        self.config, self.task, self.budget = config, task, budget
        self.run = open_run(config, task, models).run
        self._setups: dict[RunConfig, Setup] = {}
        self._builders: dict[tuple[str, ...], PromptBuilder] = {}
        self._answers: dict[tuple[str, ...], Reply] = {}
        self._paid: set[str] = set()
        self.base = self.setup(ZERO)
        self.lm = self.run.lm(self.base.lm)

    def setup(self, candidate: Candidate) -> Setup:
        """Return the setup of a candidate's settings; candidates of equal settings share it."""
        config = candidate.config(self.config)
        if config not in self._setups:
            self._setups[config] = setup_of(config, self.task, self.run.models)
        return self._setups[config]

    def enter(self, candidate: Candidate, queries: Sequence[Example]) -> Entrant:
        """Return a candidate's prompts for N rows. Of those that have to be prepared, each stage is
        paid for once."""
        ids = tuple(query.id for query in queries)
        if ids not in self._builders:
            # counts the bank's tokens once for all candidates
            self._builders[ids] = self.base.answering.builder(self.run, queries)
        setup = self.setup(candidate)
        stage = rows.predictions(setup, setup.row(candidate.method), Examples(queries))
        assert isinstance(stage, Predictions), "the LM answers every candidate"
        choice = self.run.get(stage.choice)
        builder = self._builders[ids]
        prompts = [prompt.text for prompt in stage.prompts(self.run, queries, choice, builder)]
        if candidate.prepared:
            for key, cost in self._unpaid(stage.choice).items():
                self._paid.add(key)
                self.budget.spend(cost, cost.tokens)
        lengths = np.asarray(self.lm.count_tokens(prompts), np.float64)
        return Entrant(
            candidate, prompts, lengths, lengths + self._answer_tokens(queries) + _SPECIAL
        )

    def _unpaid(self, choice: Choose) -> dict[str, Cost]:
        """The costs of the stages on disk, by key, that choosing some examples needs and nothing
        was spent on yet."""
        costs = self.run.costs([choice])
        return {
            key: cost for key, (_, cost) in costs.items() if cost.tokens and key not in self._paid
        }

    def _answer_tokens(self, queries: Sequence[Example]) -> np.ndarray:
        """The largest number of tokens of each answer."""
        way = way_of_answering(self.lm, self.base.answering, self.task.stop, queries)
        return way.most_tokens(self.lm, queries)

    def answer(
        self, entrants: Sequence[Entrant], queries: Sequence[Example], span: slice, what: str
    ) -> list[Answered]:
        """Return what the LM answers to a span of the rows of each entrant; OutOfTime once the
        minutes have passed.

        `what` labels the progress bar.
        """
        asked = queries[span]
        keys = [
            [
                (prompt, *query.choices)
                for prompt, query in zip(one.prompts[span], asked, strict=True)
            ]
            for one in entrants
        ]
        new = {
            key: (key[0], query, tokens)
            for one, own in zip(entrants, keys, strict=True)
            for key, query, tokens in zip(own, asked, one.tokens[span], strict=True)
            if key not in self._answers
        }
        with bar(len(new), what) as shown:
            for start in range(0, len(new), _CHUNK):
                if self.budget.out_of_time:
                    raise OutOfTime(
                        f"--minutes {self.budget.minutes:g} had passed before {what}; give more "
                        "(answers are kept)"
                    )
                chunk = list(new)[start : start + _CHUNK]
                prompts, rows, tokens = zip(*(new[key] for key in chunk), strict=True)
                with self.lm.metered(what) as spent:
                    replies = ask(self.lm, self.base.answering, self.task.stop, prompts, rows)
                self.budget.spend(spent.cost, sum(tokens))
                self._answers |= zip(chunk, replies, strict=True)
                shown.update(len(chunk))
        return [self.score([self._answers[key] for key in own], asked) for own in keys]

    def score(self, replies: Sequence[Reply], queries: Sequence[Example]) -> Answered:
        """Return answers to some rows with the task's metric of them."""
        predictions = [reply.prediction for reply in replies]
        metric = METRICS[self.task.metric]
        scores = metric.scored(predictions, queries)
        sample = Sample(metric.statistics(scores, predictions, queries), metric.from_sums)
        return Answered(scores, sample, replies)

    def preparation(self, candidate: Candidate) -> float:
        """Return the LM tokens that preparing a candidate may take; a UserError if they cannot be
        counted."""
        setup = self.setup(candidate)
        choice = rows.choice(setup, setup.row(candidate.method))
        found = plan(self.run, [choice])
        if not all(self.run.models.counting(lm).exact for stage in found for lm in stage.lms):
            raise UserError("its cost cannot be counted here")
        return MARGIN * found.tokens + sum(cost.tokens for cost in self._unpaid(choice).values())
