"""The search: candidates race on tuning rows within a budget, and the final rows are looked at
once."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.price import Price
from ceil_jax.methods.free import no_labels
from ceil_jax.methods.registry import CLASSIFIER_ROW, RANDOM_ROW, scorable
from ceil_jax.metrics.bootstrap import (
    Sample,
    bootstrap_interval,
    by_group,
    mean,
    metric_interval,
    paired,
)
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.plan import duration
from ceil_jax.pipeline.views import Examples
from ceil_jax.pipeline.ways import TROUBLE_COLUMNS, Reply, trouble_in_words
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import programs
from ceil_jax.tuning.budget import Budget, token_limit
from ceil_jax.tuning.candidates import (
    PLAIN,
    ZERO,
    Candidate,
    candidates,
    plain,
    possible_ks,
    prepared,
    searched,
)
from ceil_jax.tuning.config import TuneConfig
from ceil_jax.tuning.extent import FIRST_ROWS, Extent
from ceil_jax.tuning.field import Entrant, Field
from ceil_jax.tuning.fitting import (
    LEAST_FINAL,
    ROUNDS,
    Costs,
    Forecast,
    Need,
    smaller,
    without_vectors,
)
from ceil_jax.tuning.loss import loss_of
from ceil_jax.tuning.outcome import Alone, Outcome, Shown, Standing
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.verdict import FEWEST_ROWS, judge

log = logging.getLogger(__name__)

_WARM = 2
"""Rows that the LM answers before its speed is measured: the first prompts pay for its start."""

_PROBE = 6
"""Rows with which its speed is measured, without examples and with random ones."""

ENOUGH_ROWS = 50
"""Final rows below which an outcome is said to prove little."""

_WRONG = 5
"""Wrong answers that are shown."""

_CHOOSING = 0.05
"""The share of the minutes in which the finalists' examples are chosen."""

_LEAST_BANK = 96
"""Examples of the smallest bank that is learnt from with an LM's scores."""


class Search:
    """One search, from the first row to the outcome.

    Args:
        config: the settings that all candidates share.
        task: the rows.
        search: what is searched, and the budget.
        models: loads LMs and encoders.
        began: when the minutes began, as `time.perf_counter` has it; by default now.
        price: of the LM's tokens: the cheapest is then by money, and tables show it.

    Raises:
        UserError: an unknown method, too few rows, a single label, or a bank that is smaller than
            each K.
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
        self.config, self.search = config, search
        self.price = price
        wanted = searched(search, config, task)
        rows = search.tuning_rows, search.final_rows
        self.task, self.tuning, repeated = split_rows(task, *rows, config.data_seed)
        self.ks = possible_ks(search, self.task)
        lm_tokens = token_limit(search.lm_tokens, search.minutes, config.lm)
        budget = Budget(lm_tokens, search.minutes, began)
        self.field = Field(config, self.task, budget, models)
        self.held_out = list(self.task.validation)
        self.final = self.held_out
        self.notes: list[str] = []
        if repeated:
            why = "were left out, for they repeat others or stand in the bank."
            self.notes.append(f"{repeated:,} held-out rows {why}")
        self.table_rows, left_out = scorable(self.field.base.lm.get(), wanted)
        self.notes += [left_out] if left_out else []
        learning = [row for row in self.table_rows if row.learns_from_lm]
        if learning and len(self.task.train) < _LEAST_BANK:
            small = f"A bank of {len(self.task.train)} examples is too small to train on."
            self.notes.append(small)
            self.table_rows = tuple(row for row in self.table_rows if row not in learning)

    costs: Costs
    """What prompts and texts cost here; measured for the forecast."""

    @cached_property
    def forecast(self) -> Forecast:
        """Measure how fast the LM is, and take the largest search that the budget pays for."""
        log.info("measuring how fast %s answers", self.field.base.lm.key)
        self.costs = self._measured()
        return self._planned()

    def _planned(self) -> Forecast:
        """The largest search that what is left of the budget pays for."""
        budget, costs = self.field.budget, self.costs
        whole = Extent(
            tuple(row for row in self.table_rows if not Candidate(row, 1).prepared),
            self.ks,
            self.search.trade_offs,
            self.search.encoders,
            min(FIRST_ROWS, len(self.tuning)),
            len(self.held_out),
        )
        fits, extent, need = self._fitted(whole, costs)
        if not fits and not costs.done and need.encoding > max(0.0, budget.seconds_left) / 2:
            fits, extent, need = self._fitted(without_vectors(whole), costs)
        everything = costs.need(whole)
        all_of_it = budget.needed(everything.tokens, everything.seconds)
        text = self._expected(extent, costs, need)
        return Forecast(whole, extent, text, budget.flags(), all_of_it, fits)

    def _planned_again(self) -> None:
        """Encode, and take the largest search that is paid for now: what encoding took is known,
        and not only what a few texts took."""
        first = self.forecast
        if not first.extent.vectors:
            return
        nearest = plain(first.extent)
        self.field.enter(nearest, self.tuning)
        if self.field.budget.minutes is None:
            return
        done = self.field.took(nearest, self.tuning)
        texts = len(self.task.train) + len(self.tuning)
        everything = done * (texts + len(self.held_out)) / texts
        self.costs = self.costs._replace(encoding=everything, done=done)
        self.forecast = self._planned()
        if self.forecast.extent != first.extent:
            log.info(
                "encoding took %s; %s",
                duration(done),
                self.forecast.cut or "nothing has to be cut",
            )

    def _fitted(self, whole: Extent, costs: Costs) -> tuple[bool, Extent, Need]:
        """Whether any search fits into the budget; the largest one that does, else the smallest;
        and what it needs."""
        budget = self.field.budget
        for extent in smaller(whole):
            need = costs.need(extent)
            if need.tokens <= budget.tokens_left() and need.seconds <= budget.seconds_left:
                return True, extent, need
        return False, extent, need

    def _measured(self) -> Costs:
        """Measure what prompts and texts cost here."""
        field = self.field
        shots = [k for k in {*self.ks, PLAIN.shots} if k < len(self.task.train)]
        self.zero = field.enter(ZERO, self.tuning)
        random = {k: field.enter(Candidate(RANDOM_ROW, k), self.tuning) for k in shots}
        what = "a look at the LM's speed"
        field.answer([self.zero], self.tuning, slice(0, _WARM), what, least=_WARM, paced=False)
        probes = [self.zero, random[self.ks[len(self.ks) // 2]]]
        field.answer(probes, self.tuning, slice(_WARM, _WARM + _PROBE), what, least=1)
        return Costs(
            float(self.zero.tokens.mean()),
            {k: float(entrant.tokens.mean()) for k, entrant in random.items()},
            field.budget.pace,
            field.encoding([*self.tuning, *self.held_out]),
            classifies=not no_labels(self.task),
        )

    def _expected(self, extent: Extent, costs: Costs, need: Need) -> str:
        """A line on what a search is expected to take."""
        budget, number = self.field.budget, len(candidates(extent))
        speed = f"{1 / costs.pace:,.0f}" if costs.pace else "too many to measure"
        # the race goes on until rows or budget are spent
        most = need.tokens * len(self.tuning) / max(1.0, ROUNDS * extent.first)
        tokens = min(max(need.tokens, most), max(need.tokens, budget.tokens_left()))
        seconds = tokens * costs.pace + need.encoding
        if budget.minutes is not None:
            seconds = min(seconds, max(need.seconds, budget.seconds_left))
            tokens = (seconds - need.encoding) / costs.pace if costs.pace else tokens
        race = f"{number} prompts race on up to {len(self.tuning)} rows, then "
        return (
            f"forecast: {self.field.base.lm.key} reads about {speed} tokens a second; "
            f"{race if extent.first else 'no race; '}the best ones answer {extent.final} final "
            f"rows: at most about {float(f'{tokens:.2g}'):,.0f} LM tokens and {duration(seconds)}"
            + (f", {duration(need.encoding)} of it for encoding" if need.encoding >= 5 else "")
        )

    def run(self) -> Outcome:
        """Race, look at the final rows, and return what was found: within the budget, or as soon as
        a few rows allow where it is too small for anything."""
        self._planned_again()
        extent = self.forecast.extent
        if not self.forecast.fits:
            self.notes.append("Even the smallest search takes more than the budget.")
        self.final = self.held_out[: extent.final]
        self.plain = self.field.enter(plain(extent), self.tuning)
        self.entrants = [self.plain]
        if extent.first:
            entrants = [
                self.field.enter(candidate, self.tuning) for candidate in candidates(extent)
            ]
            # the first of those whose prompts are all the same
            distinct = {tuple(entrant.prompts): entrant for entrant in reversed(entrants)}
            self.entrants = list(distinct.values())[::-1] or self.entrants
        # what the end needs beside the LM is done before the race, which is given the time left
        self.field.enter(self.plain.candidate, self.held_out)
        predicted = self._classified()
        learning = prepared(self.table_rows, extent, PLAIN.shots) if extent.first else []
        self.race = Race(
            np.stack([entrant.tokens for entrant in self.entrants]),
            rivals=len(self.entrants) + len(learning) + len(self.ks) - len(extent.ks),
            first_rows=extent.first or FIRST_ROWS,
        )
        # encoding may have taken longer than expected: at most half of what is left is for the end
        while len(self.final) > FEWEST_ROWS and self._reserve() > self._left():
            self.final = self.final[: max(FEWEST_ROWS, int(0.9 * len(self.final)))]
        if extent.first:
            hold(self.race, self._ask, self._left)
            if self.field.budget.out_of_time() and not any(map(len, self.race.scores)):
                self.notes.append("The minutes had passed before the race began.")
            for entrant in self._with_more_examples(extent):
                self._join(entrant)
            shots = self.entrants[self.race.winner()].candidate.shots or PLAIN.shots
            for entrant in self._prepared(prepared(self.table_rows, extent, shots)):
                self._join(entrant)
        # what the race has not spent pays for final rows, as many as there are
        self.final = self.held_out
        return self._finish(predicted)

    def _join(self, entrant: Entrant) -> None:
        """Let another candidate race."""
        self.race.join(entrant.tokens)
        self.entrants.append(entrant)
        hold(self.race, self._ask, self._left)

    def _with_more_examples(self, extent: Extent) -> Iterator[Entrant]:
        """The best candidate that has examples, with each larger K that was cut from the search,
        while that wins, and while what the race has left pays for it."""
        for k in self.ks:
            ranked = [self.entrants[i].candidate for i in self.race.ranked()]
            best = next((candidate for candidate in ranked if candidate.shots), None)
            if best is None:
                return
            shots = k + best.row.method.behind
            if k in extent.ks or best.shots >= shots:
                continue
            entrant = self.field.enter(replace(best, shots=shots), self.tuning)
            dearest = max(self.race.mean_tokens(i) for i in self.race.racing)
            # the final rows are answered by two of the dearest
            dearer = max(0.0, float(entrant.tokens.mean()) - dearest)
            needed = float(entrant.tokens.sum()) + 2 * 1.1 * len(self.final) * dearer
            if needed > self._left():
                return
            self.notes.append(
                f"{entrant.candidate.label} joined when the race was over, for what was left of the "
                "budget paid for it."
            )
            yield entrant
            if self.entrants[self.race.winner()] is not entrant:
                return

    def _reserve(self) -> float:
        """LM tokens that the final rows may take: zero examples, the plain prompt, and two that are
        still in the race."""
        dearest = max(self.race.mean_tokens(i) for i in self.race.racing)
        each = 2 * dearest + self.zero.tokens.mean() + self.plain.tokens.mean()
        return 1.1 * len(self.final) * float(each)

    @property
    def _choosing(self) -> float:
        """Seconds that are kept for choosing the finalists' examples. A fast LM could read more in
        them than the tokens of the budget, so that they are no part of `_reserve`."""
        return _CHOOSING * 60 * (self.field.budget.minutes or 0.0)

    def _left(self) -> float:
        """LM tokens that the race may take."""
        return self.field.budget.left(self._reserve(), self._choosing)

    def _ask(self, next_round: Round) -> Mapping[int, np.ndarray]:
        racers, start, stop = next_round
        states, budget = self.race.states, self.field.budget
        log.info(
            "race, rows %d to %d: %d prompts, %d clearly worse, %d set aside; %s; %s",
            *(start + 1, stop, len(racers), states.count("worse"), states.count("aside")),
            *(budget, budget.remaining()),
        )
        answered = self.field.answer(
            [self.entrants[i] for i in racers],
            self.tuning,
            slice(start, stop),
            f"row {stop} of the race",
            reserve=self._reserve(),
            reserve_seconds=self._choosing,
        )
        rows = len(answered[0].scores)
        if rows < stop - start:
            self.notes.append("The minutes had passed before the race was over.")
        if rows == 0:
            return {}
        if start == 0 and len(racers) > 1 and not any(entrant.scores.any() for entrant in answered):
            query, answer = self.tuning[0], answered[-1].replies[0].prediction
            self.notes.insert(
                0,
                f"{self.field.base.lm.key} scores 0 on {rows} rows with each of {len(racers)} "
                f"prompts; where {query.output!r} was right it answered {answer!r}: try another "
                "--lm, --template or --metric.",
            )
            return {}
        return {i: entrant.scores for i, entrant in zip(racers, answered, strict=True)}

    def _prepared(self, waiting: list[Candidate]) -> Iterator[Entrant]:
        """Those that the budget pays for, each when it is its turn."""
        budget = self.field.budget
        for candidate in waiting:
            shots = candidate.shots
            reference = min(self.entrants, key=lambda other: abs(other.candidate.shots - shots))
            left = self._left()
            try:
                tokens, seconds = self.field.preparation(candidate, reference)
                while tokens + reference.tokens.sum() > left and self.field.lighten(candidate):
                    tokens, seconds = self.field.preparation(candidate, reference)
            except UserError as error:
                self.notes.append(f"{candidate.label} was not tried: {error}.")
                continue
            needed = tokens + float(reference.tokens.sum())
            if needed > left:
                self.notes.append(
                    f"{candidate.label} was not tried: it takes {needed:,.0f} LM tokens, and what is "
                    f"left pays for {left:,.0f}."
                )
                continue
            if budget.out_of_time(needed + self._reserve(), seconds + self._choosing):
                self.notes.append(
                    f"{candidate.label} was not tried: training takes about {duration(seconds)}, and "
                    f"{budget.remaining()}."
                )
                continue
            yield self.field.enter(candidate, self.tuning)

    def _finalists(self) -> dict[Candidate, str]:
        """The prompts that answer the final rows, the winner first, each with why it does."""
        named = [("plain prompt", self.plain.candidate), ("", ZERO)]
        if any(len(scores) for scores in self.race.scores):
            costs = [entrant.cost(self.price) for entrant in self.entrants]
            near = self.race.near(self.search.tolerance / 100, costs)[0]
            winner = self.race.winner()
            named[:0] = [
                ("winner of the race", self.entrants[winner].candidate),
                ("cheapest within noise", self.entrants[near].candidate),
            ]
        roles: dict[Candidate, list[str]] = {}
        for role, candidate in named:
            roles.setdefault(candidate, []).append(role)
        return {candidate: ", ".join(filter(None, words)) for candidate, words in roles.items()}

    def _finish(self, predicted: dict[str, Reply] | None) -> Outcome:
        """Let the finalists answer the final rows; `predicted` are the classifier's answers."""
        field, budget = self.field, self.field.budget
        roles = self._finalists()
        entered = [field.enter(candidate, self.final) for candidate in roles]
        each = np.sum([entrant.tokens for entrant in entered], axis=0)
        paid = int((np.cumsum(each) <= budget.tokens_left()).sum())
        paid = min(len(self.final), max(LEAST_FINAL, paid))
        log.info("final rows: %d prompts on %d rows; %s", len(entered), paid, budget.remaining())
        answered = field.answer(
            entered, self.final, slice(0, paid), "the final rows", least=LEAST_FINAL
        )
        rows = self.final[: len(answered[0].scores)]
        planned = self.forecast.extent.final
        if cut := self.forecast.cut_after(max(planned, len(rows))):
            self.notes.insert(0, f"{cut[0].upper()}{cut[1:]}.")
        if len(rows) < planned:
            rest = (planned - len(rows)) * float(each.mean())
            seconds = max(rest * budget.pace, 60 * ((budget.minutes or 0.0) - budget.elapsed))
            more = budget.needed(rest, seconds)
            self.notes.append(
                f"The budget ended after {len(rows)} of {planned} final rows; {more} pays for all "
                "of them (answers are kept)."
            )
        if len(rows) < ENOUGH_ROWS:
            # two proportions of a half: 1.96 √(2 · ¼ / n)
            noise = 139 / math.sqrt(len(rows))
            self.notes.append(
                f"{len(rows)} final rows prove little: differences below about {noise:.0f} points "
                "cannot be told from noise."
            )
        samples = [answers.sample for answers in answered]
        self._note_troubles([reply for answers in answered for reply in answers.replies])
        groups, raced_groups = self._same_programs(rows)
        costs = [entrant.cost(self.price) for entrant in entered]
        verdict = judge(
            samples,
            costs,
            self.search.tolerance / 100,
            groups,
            raced=[self._raced_scores(candidate) for candidate in roles],
            raced_groups=raced_groups,
        )
        best = verdict.recommended
        answered_rows = [
            Shown(row.input, prompt, reply.prediction, row.output, bool(score == 1))
            for row, prompt, reply, score in zip(
                rows,
                entered[best].prompts,
                answered[best].replies,
                answered[best].scores,
                strict=False,
            )
        ]
        alone = None
        if predicted is not None:
            classified = field.score([predicted[row.id] for row in rows], rows)
            difference = paired(classified.sample, samples[best])
            alone = Alone(
                metric_interval(classified.sample, groups),
                bootstrap_interval(*by_group(difference, groups)),
                loss_of(answered[best].scores - classified.scores, groups),
            )
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=field.base.lm.key,
            bank=len(self.task.train),
            tuning=len(self.tuning),
            final=len(rows),
            race=self._raced(),
            finals=tuple(
                Standing(
                    entrant.candidate,
                    score,
                    len(rows),
                    entrant.usage,
                    entrant.preparing,
                    role,
                    _troubles(answers.replies),
                )
                for entrant, role, score, answers in zip(
                    entered, roles.values(), verdict.scores, answered, strict=True
                )
            ),
            verdict=verdict,
            spent=str(budget),
            tokens=budget.tokens,
            tolerance=self.search.tolerance,
            price=self.price,
            notes=tuple(self.notes),
            alone=alone,
            example=answered_rows[0],
            wrong=tuple(row for row in answered_rows if not row.right)[:_WRONG],
        )

    def _same_programs(
        self, rows: Sequence[Example]
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Numbers of the final rows, and of those of the race, that are equal for rows with one
        program; None where outputs are no programs."""
        together = programs([*self.tuning, *rows], self.task.train)
        if together is None:
            return None, None
        return together[len(self.tuning) :], together[: len(self.tuning)]

    def _raced_scores(self, candidate: Candidate) -> np.ndarray:
        """The scores of a candidate in the race, float [m]; none where it did not take part."""
        for entrant, scores in zip(self.entrants, self.race.scores, strict=True):
            if entrant.candidate == candidate:
                return scores
        return np.zeros(0)

    def _note_troubles(self, replies: Sequence[Reply]) -> None:
        """Note how many answers to the final rows can hardly be right, and why."""
        for trouble, count in _troubles(replies).items():
            words = trouble_in_words(trouble, self.task.max_new_tokens)
            column = TROUBLE_COLUMNS[trouble].capitalize()
            self.notes.append(
                f"{column}: answers to the final rows that are {words}: {count:,} of "
                f"{len(replies):,}."
            )

    def _classified(self) -> dict[str, Reply] | None:
        """The answers of a classifier of the bank's labels to the final rows, by id; None where
        there are no labels, or no time to encode texts or to learn from them."""
        if not self.costs.classifies or not self.forecast.extent.vectors:
            return None
        if self.field.budget.seconds_left < self.costs.encoding:
            self.notes.append("There was no time to train a classifier of the labels.")
            return None
        base = self.field.base
        stage = row_stages.predictions(base, CLASSIFIER_ROW, Examples(self.held_out))
        return {row["id"]: Reply(row["prediction"]) for row in self.field.run.get(stage)}

    def _raced(self) -> tuple[Standing, ...]:
        """The candidates that raced: those that stayed to the end first, by rows and score."""
        ends = {
            "racing": "stayed to the end",
            "aside": "set aside for the budget",
            "worse": "clearly worse",
        }
        standings = []
        for entrant, scores, state in zip(
            self.entrants, self.race.scores, self.race.states, strict=True
        ):
            if len(scores):
                score = metric_interval(Sample(scores[:, None], mean))
                standings.append(
                    Standing(
                        entrant.candidate,
                        score,
                        len(scores),
                        entrant.usage,
                        entrant.preparing,
                        ends[state],
                    )
                )
        order = list(ends.values())
        standings.sort(
            key=lambda standing: (
                order.index(standing.remark),
                -standing.rows,
                -standing.score.mean,
                standing.tokens,
            )
        )
        return tuple(standings)


def _troubles(replies: Sequence[Reply]) -> dict[str, int]:
    """How many answers had each kind of trouble."""
    return dict(Counter(reply.trouble for reply in replies if reply.trouble))
