"""The search: candidates race on tuning rows within a budget, and the final rows are looked at
once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ceil_jax.lm.price import Price
from ceil_jax.methods.registry import CLASSIFIER_ROW, usable_with
from ceil_jax.methods.row import Row
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import duration
from ceil_jax.pipeline.ways import Reply
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tuning.budget import Budget, token_limit
from ceil_jax.tuning.candidates import Candidate, plain, possible_ks, searched
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.extent import FIRST_ROWS, Extent
from ceil_jax.tuning.field import Entrant, Field, ScoredReplies
from ceil_jax.tuning.field_race import FieldRace, Finalist
from ceil_jax.tuning.final_rows import (
    answer_final_rows,
    notes_on_number,
    notes_on_troubles,
    shown_rows,
    troubles_of,
)
from ceil_jax.tuning.finals import Finals, WithoutLM
from ceil_jax.tuning.fitting import FEWEST_IN_BANK, Costs, with_fewer_texts
from ceil_jax.tuning.forecast import Forecast, forecast_of
from ceil_jax.tuning.outcome import Outcome
from ceil_jax.tuning.probe import measured_costs
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.standing import Standing
from ceil_jax.tuning.verdict import judge
from ceil_jax.tuning.without_lm import replies_without_lm, result_without_lm, row_without_lm

log = logging.getLogger(__name__)

_WRONG = 5
"""How many wrong answers are shown."""


@dataclass
class _Plan:
    """How large a search can be, and what that follows from. The last two change once the bank is
    encoded."""

    whole: Extent
    """The search without any cut."""
    costs: Costs
    """What prompts and texts cost here."""
    forecast: Forecast


class Search:
    """One search: its forecast, the race and the final rows.

    Args:
        config: the settings that all candidates share.
        task: the rows.
        search: the candidates and the budget.
        models: loads LMs and encoders.
        began: the start of the minutes, by `time.perf_counter`; by default now.
        price: the price of the LM's tokens: prompts are then compared by money, and tables show it.

    Raises:
        UserError: an unknown method, too few rows, a single label, or a bank that is too small for
            every K.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        search: TuneConfig,
        models: Models | None = None,
        began: float | None = None,
        price: Price | None = None,
    ) -> None:
        self.config = config
        self.search = search
        self.price = price
        methods = searched(search, config, task)
        self.task, self.tuning, repeated = split_rows(
            task, search.tuning_rows, search.final_rows, config.data_seed
        )
        self.ks = possible_ks(search, self.task)
        lm_tokens = token_limit(search.lm_tokens, search.minutes, config.lm)
        budget = Budget(lm_tokens, search.minutes, began)
        self.field = Field(config, self.task, budget, models)
        self.task = self.field.task
        self.held_out = list(self.task.validation)
        self.notes: list[str] = []
        if repeated:
            self.notes.append(
                f"{repeated:,} held-out rows were left out, for they repeat others or stand in the "
                "bank."
            )
        self.methods, left_out = usable_with(self.field.base.lm.get(), methods)
        if left_out:
            self.notes.append(left_out)
        trained = [method for method in self.methods if method.learns_from_lm]
        if trained and len(self.task.train) < FEWEST_IN_BANK:
            self.notes.append(
                f"A bank of {len(self.task.train)} examples is too small to train on."
            )
            self.methods = tuple(method for method in self.methods if method not in trained)

    @property
    def forecast(self) -> Forecast:
        """The largest search that the budget pays for. It is made when it is first looked at: the LM
        then answers a few rows, to measure its speed."""
        return self._plan.forecast

    @cached_property
    def _plan(self) -> _Plan:
        log.info("measuring how fast %s answers", self.field.base.lm.key)
        costs = measured_costs(self.field, self.ks, self.tuning, self.held_out)
        whole = self._available()
        costs = self._without_what_is_on_disk(costs, whole)
        self._leave_texts_out(whole, costs)
        return _Plan(whole, costs, self._largest(whole, costs))

    def _available(self) -> Extent:
        """The search with all methods, and with the rows that there are now."""
        return Extent(
            methods=tuple(method for method in self.methods if not Candidate(method, 1).prepared),
            ks=self.ks,
            trade_offs=self.search.trade_offs,
            encoders=self.search.encoders,
            first=min(FIRST_ROWS, len(self.tuning)),
            final=len(self.held_out),
            bank=len(self.task.train),
            tuning=len(self.tuning),
        )

    def _without_what_is_on_disk(self, costs: Costs, whole: Extent) -> Costs:
        """The costs without what an earlier search has encoded and learnt."""
        nearest = plain(whole)
        if self.field.has(nearest, self.tuning):
            encoded = whole.bank + whole.tuning
            if self.field.has(nearest, self.held_out):
                encoded += whole.final
            costs = costs._replace(encoded=encoded)
        if costs.classifies:
            classifier = Candidate(CLASSIFIER_ROW, 0)
            costs = costs._replace(learnt=self.field.has(classifier, self.held_out))
        return costs

    def _leave_texts_out(self, whole: Extent, costs: Costs) -> None:
        """Go on with a random part of the bank and of the rows, if encoding all of them would take
        too long."""
        smaller = with_fewer_texts(whole, costs, self.field.budget.seconds_left)
        if smaller.bank < whole.bank:
            self.field.cut_bank(smaller.bank)
            self.task = self.field.task
        # both are in random order
        self.tuning = self.tuning[: smaller.tuning]
        self.held_out = self.held_out[: smaller.final]

    def _largest(self, whole: Extent, costs: Costs) -> Forecast:
        """The largest search that what is left of the budget pays for."""
        return forecast_of(
            whole,
            self._available(),
            costs,
            self.field.budget,
            lm=self.field.base.lm.key,
            joining=[method.name for method in self.methods if Candidate(method, 1).prepared],
        )

    def _encode_and_plan_again(self) -> None:
        """Encode the bank, and plan the search again with the time that it took, which was
        estimated from a few texts before."""
        plan = self._plan
        earlier = plan.forecast.extent
        nearest = plain(earlier)
        self.field.enter(nearest, self.tuning)
        if self.field.budget.minutes is None or plan.costs.encoded:
            return
        seconds = self.field.took(nearest, self.tuning)
        texts = earlier.bank + earlier.tuning
        plan.costs = plan.costs._replace(encoding=seconds / texts, encoded=texts)
        plan.forecast = self._largest(plan.whole, plan.costs)
        if plan.forecast.extent != earlier:
            log.info(
                "encoding took %s; %s",
                duration(seconds),
                plan.forecast.cut or "nothing has to be cut",
            )

    def run(self) -> Outcome:
        """Race, let the best answer the final rows, and return the outcome. The budget is exceeded
        only if it is too small for the smallest search."""
        self._encode_and_plan_again()
        if not self.forecast.fits:
            self.notes.append("Even the smallest search takes more than the budget.")
        self.race = FieldRace(
            self.field,
            self.tuning,
            self.forecast.extent,
            self.methods,
            self.ks,
            self._plan.costs.zero,
            self.search.tolerance,
            self.price,
            self.notes,
        )
        # encoding and the answers without an LM go first: the race is given the time that is left
        self.field.enter(self.race.plain.candidate, self.held_out)
        without_lm = self._replies_without_lm()
        self.race.hold()
        # the tokens that the race has left pay for as many final rows as there are
        finalists = self.race.finalists()
        standings = self.race.standings()
        entrants = [self.field.enter(finalist.candidate, self.held_out) for finalist in finalists]
        answers = answer_final_rows(self.field, entrants, self.held_out)
        queries = self.held_out[: len(answers[0].scores)]
        self._note_final_rows(entrants, answers)
        finals = self._finals(finalists, entrants, answers, queries, without_lm)
        best = finals.verdict.recommended
        rows = shown_rows(queries, entrants[best], answers[best])
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=self.field.base.lm.key,
            bank_rows=len(self.task.train),
            tuning_rows=len(self.tuning),
            race=standings,
            finals=finals,
            spent=str(self.field.budget),
            tokens=self.field.budget.tokens,
            notes=tuple(self.notes),
            example=rows[0],
            wrong=tuple(row for row in rows if not row.right)[:_WRONG],
        )

    @cached_property
    def _row_without_lm(self) -> Row | None:
        """The row that answers the task without an LM; None if there is none."""
        return row_without_lm(self.task)

    def _replies_without_lm(self) -> list[Reply] | None:
        """The answers to the final rows without an LM; None if the task has none, or if there is no
        time to train a classifier."""
        row = self._row_without_lm
        if row is None:
            return None
        costs = self._plan.costs
        learns = costs.classifies and not costs.learnt
        if learns and self.field.budget.seconds_left < costs.encoding * len(self.task.train):
            self.notes.append("There was no time to train a classifier of the labels.")
            return None
        return replies_without_lm(self.field, row, self.held_out)

    def _note_final_rows(
        self, entrants: Sequence[Entrant], answers: Sequence[ScoredReplies]
    ) -> None:
        """Note what was cut from the search, how many final rows were answered, and which answers
        had troubles."""
        count = len(answers[0].scores)
        planned = self.forecast.extent.final
        cut = self.forecast.cut_after(max(planned, count))
        if cut:
            self.notes.insert(0, f"{cut[0].upper()}{cut[1:]}.")
        self.notes += notes_on_number(count, planned, entrants, self.field.budget)
        replies = [
            reply for answers_of_finalist in answers for reply in answers_of_finalist.replies
        ]
        self.notes += notes_on_troubles(replies, self.task.max_new_tokens)

    def _finals(
        self,
        finalists: Sequence[Finalist],
        entrants: Sequence[Entrant],
        answers: Sequence[ScoredReplies],
        queries: Sequence[Example],
        without_lm: Sequence[Reply] | None,
    ) -> Finals:
        """Judge the finalists by their answers.

        Args:
            finalists: the finalists, with their scores in the race.
            entrants: the same with their prompts for all final rows.
            answers: their answers to `queries`.
            queries: the final rows that all have answered.
            without_lm: the answers without an LM to at least these rows; None without any.
        """
        groups, raced_groups = self._groups(queries)
        verdict = judge(
            [answers_of_finalist.sample for answers_of_finalist in answers],
            [entrant.cost(self.price) for entrant in entrants],
            self.search.tolerance / 100,
            groups,
            raced=[finalist.raced for finalist in finalists],
            raced_groups=raced_groups,
        )
        standings = [
            Standing(
                entrant.candidate,
                score,
                len(queries),
                entrant.usage,
                entrant.preparing,
                finalist.role,
                troubles_of(answers_of_finalist.replies),
            )
            for entrant, finalist, score, answers_of_finalist in zip(
                entrants, finalists, verdict.scores, answers, strict=True
            )
        ]
        result: WithoutLM | None = None
        row = self._row_without_lm
        if without_lm is not None and row is not None:
            scored = self.field.score(without_lm[: len(queries)], queries)
            result = result_without_lm(row, scored, answers[verdict.recommended], groups)
        return Finals(tuple(standings), verdict, result, self.search.tolerance, self.price)

    def _groups(self, queries: Sequence[Example]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """A number for each final row and for each tuning row, equal for rows with one program;
        None if outputs are no programs."""
        groups = programs([*self.tuning, *queries], self.task.train)
        if groups is None:
            return None, None
        return groups[len(self.tuning) :], groups[: len(self.tuning)]
