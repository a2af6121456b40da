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
from ceil_jax.tuning.field import Answered, Entrant, Field
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
from ceil_jax.tuning.outcome import ClassifierResult, Outcome, ShownRow, Standing
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.rows import split_rows
from ceil_jax.tuning.verdict import FEWEST_ROWS, judge

log = logging.getLogger(__name__)

_WARM = 2
"""Rows that the LM answers before its speed is measured: the first prompts pay for its start."""

_PROBE = 6
"""Rows that measure its speed, without examples and with random ones."""

ENOUGH_ROWS = 50
"""With fewer final rows, a note says that they prove little."""

_WRONG = 5
"""How many wrong answers are shown."""

_CHOOSING = 0.05
"""The share of the minutes that is kept for choosing the finalists' examples."""

_LEAST_BANK = 96
"""The smallest bank on which methods are trained with an LM's scores."""


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
        self.final = self.held_out
        self.notes: list[str] = []
        if repeated:
            self.notes.append(
                f"{repeated:,} held-out rows were left out, for they repeat others or stand in the "
                "bank."
            )
        self.methods, left_out = scorable(self.field.base.lm.get(), methods)
        if left_out:
            self.notes.append(left_out)
        trained = [method for method in self.methods if method.learns_from_lm]
        if trained and len(self.task.train) < _LEAST_BANK:
            self.notes.append(
                f"A bank of {len(self.task.train)} examples is too small to train on."
            )
            self.methods = tuple(method for method in self.methods if method not in trained)

    costs: Costs
    """The costs of prompts and texts here, measured for the forecast."""

    @cached_property
    def forecast(self) -> Forecast:
        """The largest search that the budget pays for, after a measurement of the LM's speed."""
        log.info("measuring how fast %s answers", self.field.base.lm.key)
        self.costs = self._measured()
        return self._planned()

    def _planned(self) -> Forecast:
        """The largest search that what is left of the budget pays for."""
        budget = self.field.budget
        costs = self.costs
        whole = Extent(
            methods=tuple(method for method in self.methods if not Candidate(method, 1).prepared),
            ks=self.ks,
            trade_offs=self.search.trade_offs,
            encoders=self.search.encoders,
            first=min(FIRST_ROWS, len(self.tuning)),
            final=len(self.held_out),
        )
        fits, extent, need = self._fitted(whole, costs)
        if not fits and not costs.done and need.encoding > max(0.0, budget.seconds_left) / 2:
            fits, extent, need = self._fitted(without_vectors(whole), costs)
        need_of_whole = costs.need(whole)
        return Forecast(
            whole,
            extent,
            text=self._expected(extent, costs, need),
            flags=budget.flags(),
            all_of_it=budget.needed(need_of_whole.tokens, need_of_whole.seconds),
            fits=fits,
        )

    def _planned_again(self) -> None:
        """Encode the bank, and plan the search again with the time that it took, which was
        estimated from a few texts before."""
        first = self.forecast
        if not first.extent.vectors:
            return
        nearest = plain(first.extent)
        self.field.enter(nearest, self.tuning)
        if self.field.budget.minutes is None:
            return
        done = self.field.took(nearest, self.tuning)
        texts = len(self.task.train) + len(self.tuning)
        seconds = done * (texts + len(self.held_out)) / texts
        self.costs = self.costs._replace(encoding=seconds, done=done)
        self.forecast = self._planned()
        if self.forecast.extent != first.extent:
            log.info(
                "encoding took %s; %s",
                duration(done),
                self.forecast.cut or "nothing has to be cut",
            )

    def _fitted(self, whole: Extent, costs: Costs) -> tuple[bool, Extent, Need]:
        """Whether the budget pays for any search; the largest that it pays for, else the smallest;
        and what that needs."""
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
        what = "the LM's speed"
        field.answer([self.zero], self.tuning, slice(0, _WARM), what, least=_WARM, measured=False)
        probes = [self.zero, random[self.ks[len(self.ks) // 2]]]
        field.answer(probes, self.tuning, slice(_WARM, _WARM + _PROBE), what, least=1)
        return Costs(
            zero=float(self.zero.tokens.mean()),
            tokens={k: float(entrant.tokens.mean()) for k, entrant in random.items()},
            pace=field.budget.pace,
            encoding=field.encoding([*self.tuning, *self.held_out]),
            classifies=not no_labels(self.task),
        )

    def _expected(self, extent: Extent, costs: Costs, need: Need) -> str:
        """A line with the forecast of a search's tokens and time."""
        budget = self.field.budget
        speed = f"{1 / costs.pace:,.0f}" if costs.pace else "too many to measure"
        # the race goes on until rows or budget are spent
        most = need.tokens * len(self.tuning) / max(1.0, ROUNDS * extent.first)
        tokens = min(max(need.tokens, most), max(need.tokens, budget.tokens_left()))
        seconds = tokens * costs.pace + need.encoding
        if budget.minutes is not None:
            seconds = min(seconds, max(need.seconds, budget.seconds_left))
            tokens = (seconds - need.encoding) / costs.pace if costs.pace else tokens
        race = "no race; "
        if extent.first:
            number = len(candidates(extent))
            race = f"{number} prompts race on up to {len(self.tuning)} rows, then "
        encoding = ""
        if need.encoding >= 5:
            encoding = f", {duration(need.encoding)} of it for encoding"
        return (
            f"forecast: {self.field.base.lm.key} reads about {speed} tokens a second; {race}the "
            f"best ones answer {extent.final} final rows: at most about "
            f"{float(f'{tokens:.2g}'):,.0f} LM tokens and {duration(seconds)}{encoding}"
        )

    def run(self) -> Outcome:
        """Race, let the best answer the final rows, and return the outcome. The budget is exceeded
        only if it is too small for the smallest search."""
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
            # of candidates with the same prompts, only the first races
            distinct = {tuple(entrant.prompts): entrant for entrant in reversed(entrants)}
            self.entrants = list(distinct.values())[::-1] or self.entrants
        # encoding and the classifier go first: the race is given the time that is left
        self.field.enter(self.plain.candidate, self.held_out)
        predicted = self._classified()
        joining = prepared(self.methods, extent, PLAIN.shots) if extent.first else []
        self.race = Race(
            np.stack([entrant.tokens for entrant in self.entrants]),
            rivals=len(self.entrants) + len(joining) + len(self.ks) - len(extent.ks),
            first_rows=extent.first or FIRST_ROWS,
        )
        # if encoding took longer than expected, final rows get at most half of what is left
        while len(self.final) > FEWEST_ROWS and self._reserve() > self._left():
            self.final = self.final[: max(FEWEST_ROWS, int(0.9 * len(self.final)))]
        if extent.first:
            hold(self.race, self._ask, self._left)
            if self.field.budget.out_of_time() and not any(map(len, self.race.scores)):
                self.notes.append("The minutes had passed before the race began.")
            for entrant in self._with_more_examples(extent):
                self._join(entrant)
            shots = self.entrants[self.race.winner()].candidate.shots or PLAIN.shots
            for entrant in self._prepared(prepared(self.methods, extent, shots)):
                self._join(entrant)
        # the tokens that the race has left pay for as many final rows as there are
        self.final = self.held_out
        return self._finish(predicted)

    def _join(self, entrant: Entrant) -> None:
        """Let another candidate join the race."""
        self.race.join(entrant.tokens)
        self.entrants.append(entrant)
        hold(self.race, self._ask, self._left)

    def _with_more_examples(self, extent: Extent) -> Iterator[Entrant]:
        """Yield the best candidate that has examples with each larger K that was cut from the
        search, as long as it wins and the race has tokens left for it."""
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
            # two candidates as dear as the dearest answer the final rows
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
        """LM tokens that the final rows may take, for zero examples, the plain prompt and two
        candidates of the race."""
        dearest = max(self.race.mean_tokens(i) for i in self.race.racing)
        tokens_of_row = 2 * dearest + self.zero.tokens.mean() + self.plain.tokens.mean()
        return 1.1 * len(self.final) * float(tokens_of_row)

    @property
    def _choosing(self) -> float:
        """Seconds that are kept for choosing the finalists' examples. They are no part of
        `_reserve`, because a fast LM could read more in them than all tokens of the budget."""
        return _CHOOSING * 60 * (self.field.budget.minutes or 0.0)

    def _left(self) -> float:
        """LM tokens that the race may take."""
        return self.field.budget.left(self._reserve(), self._choosing)

    def _ask(self, next_round: Round) -> Mapping[int, np.ndarray]:
        """Return the scores of each racer on the rows of a round; {} to end the race."""
        racers, start, stop = next_round
        states = self.race.states
        budget = self.field.budget
        log.info(
            "race, rows %d to %d: %d prompts, %d clearly worse, %d set aside; %s; %s",
            start + 1,
            stop,
            len(racers),
            states.count("worse"),
            states.count("aside"),
            budget,
            budget.remaining(),
        )
        answered = self.field.answer(
            [self.entrants[i] for i in racers],
            self.tuning,
            slice(start, stop),
            f"the race, up to row {stop}",
            reserve=self._reserve(),
            reserve_seconds=self._choosing,
        )
        rows = len(answered[0].scores)
        if rows < stop - start:
            self.notes.append("The minutes had passed before the race was over.")
        if rows == 0:
            return {}
        if start == 0 and len(racers) > 1 and not any(entrant.scores.any() for entrant in answered):
            query = self.tuning[0]
            answer = answered[-1].replies[0].prediction
            self.notes.insert(
                0,
                f"{self.field.base.lm.key} scores 0 on {rows} rows with each of {len(racers)} "
                f"prompts; where {query.output!r} was right it answered {answer!r}: try another "
                "--lm, --template or --metric.",
            )
            return {}
        return {i: entrant.scores for i, entrant in zip(racers, answered, strict=True)}

    def _prepared(self, waiting: list[Candidate]) -> Iterator[Entrant]:
        """Prepare candidates, and yield each one that the budget pays for; notes say why the others
        were not tried."""
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
        """The candidates that answer the final rows, the winner first, each with the reasons."""
        finalists = [(self.plain.candidate, "plain prompt"), (ZERO, "")]
        if any(len(scores) for scores in self.race.scores):
            costs = [entrant.cost(self.price) for entrant in self.entrants]
            winner = self.race.winner()
            cheapest = self.race.near(self.search.tolerance / 100, costs)[0]
            finalists = [
                (self.entrants[winner].candidate, "winner of the race"),
                (self.entrants[cheapest].candidate, "cheapest within noise"),
                *finalists,
            ]
        roles: dict[Candidate, list[str]] = {}
        for candidate, role in finalists:
            roles.setdefault(candidate, []).append(role)
        return {candidate: ", ".join(filter(None, words)) for candidate, words in roles.items()}

    def _finish(self, predicted: dict[str, Reply] | None) -> Outcome:
        """Let the finalists answer the final rows, and judge them; `predicted` are the classifier's
        answers."""
        roles = self._finalists()
        entrants = [self.field.enter(candidate, self.final) for candidate in roles]
        answered = self._answer_final(entrants)
        rows = self.final[: len(answered[0].scores)]
        self._note_troubles([reply for answers in answered for reply in answers.replies])
        groups, raced_groups = self._same_programs(rows)
        verdict = judge(
            [answers.sample for answers in answered],
            [entrant.cost(self.price) for entrant in entrants],
            self.search.tolerance / 100,
            groups,
            raced=[self._raced_scores(candidate) for candidate in roles],
            raced_groups=raced_groups,
        )
        finals = [
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
                entrants, roles.values(), verdict.scores, answered, strict=True
            )
        ]
        best = verdict.recommended
        shown = _shown(rows, entrants[best], answered[best])
        return Outcome(
            task=self.task.name,
            metric=self.task.metric,
            lm=self.field.base.lm.key,
            bank=len(self.task.train),
            tuning=len(self.tuning),
            final=len(rows),
            race=self._raced(),
            finals=tuple(finals),
            verdict=verdict,
            spent=str(self.field.budget),
            tokens=self.field.budget.tokens,
            tolerance=self.search.tolerance,
            price=self.price,
            notes=tuple(self.notes),
            classifier=self._classifier_result(predicted, rows, answered[best], groups),
            example=shown[0],
            wrong=tuple(row for row in shown if not row.right)[:_WRONG],
        )

    def _answer_final(self, entrants: Sequence[Entrant]) -> list[Answered]:
        """Let the finalists answer as many final rows as the budget pays for, and note what it did
        not pay for."""
        budget = self.field.budget
        tokens_of_rows = np.sum([entrant.tokens for entrant in entrants], axis=0)
        paid = int((np.cumsum(tokens_of_rows) <= budget.tokens_left()).sum())
        paid = min(len(self.final), max(LEAST_FINAL, paid))
        log.info("final rows: %d prompts on %d rows; %s", len(entrants), paid, budget.remaining())
        answered = self.field.answer(
            entrants, self.final, slice(0, paid), "the final rows", least=LEAST_FINAL
        )
        count = len(answered[0].scores)
        planned = self.forecast.extent.final
        if cut := self.forecast.cut_after(max(planned, count)):
            self.notes.insert(0, f"{cut[0].upper()}{cut[1:]}.")
        if count < planned:
            tokens = (planned - count) * float(tokens_of_rows.mean())
            seconds = max(tokens * budget.pace, 60 * ((budget.minutes or 0.0) - budget.elapsed))
            self.notes.append(
                f"The budget ended after {count} of {planned} final rows; "
                f"{budget.needed(tokens, seconds)} pays for all of them (answers are kept)."
            )
        if count < ENOUGH_ROWS:
            # two proportions of a half: 1.96 √(2 · ¼ / n)
            noise = 139 / math.sqrt(count)
            self.notes.append(
                f"{count} final rows prove little: differences below about {noise:.0f} points "
                "cannot be told from noise."
            )
        return answered

    def _classifier_result(
        self,
        predicted: Mapping[str, Reply] | None,
        rows: Sequence[Example],
        recommended: Answered,
        groups: np.ndarray | None,
    ) -> ClassifierResult | None:
        """The classifier's score on the final rows, beside that of the recommended prompt."""
        if predicted is None:
            return None
        answers = self.field.score([predicted[row.id] for row in rows], rows)
        difference = paired(answers.sample, recommended.sample)
        return ClassifierResult(
            metric_interval(answers.sample, groups),
            bootstrap_interval(*by_group(difference, groups)),
            loss_of(recommended.scores - answers.scores, groups),
        )

    def _same_programs(
        self, rows: Sequence[Example]
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """A number for each final row and for each row of the race, equal for rows with one
        program; None if outputs are no programs."""
        together = programs([*self.tuning, *rows], self.task.train)
        if together is None:
            return None, None
        return together[len(self.tuning) :], together[: len(self.tuning)]

    def _raced_scores(self, candidate: Candidate) -> np.ndarray:
        """The scores of a candidate in the race, float [m]; m is 0 if it did not take part."""
        for entrant, scores in zip(self.entrants, self.race.scores, strict=True):
            if entrant.candidate == candidate:
                return scores
        return np.zeros(0)

    def _note_troubles(self, replies: Sequence[Reply]) -> None:
        """Note how many answers to the final rows have each kind of trouble."""
        for trouble, count in _troubles(replies).items():
            words = trouble_in_words(trouble, self.task.max_new_tokens)
            column = TROUBLE_COLUMNS[trouble].capitalize()
            self.notes.append(
                f"{column}: answers to the final rows that are {words}: {count:,} of "
                f"{len(replies):,}."
            )

    def _classified(self) -> dict[str, Reply] | None:
        """A classifier's answers to the final rows, by id; None if there are no labels, or no time
        to encode texts or to train."""
        if not self.costs.classifies or not self.forecast.extent.vectors:
            return None
        if self.field.budget.seconds_left < self.costs.encoding:
            self.notes.append("There was no time to train a classifier of the labels.")
            return None
        base = self.field.base
        stage = row_stages.predictions(base, CLASSIFIER_ROW, Examples(self.held_out))
        return {row["id"]: Reply(row["prediction"]) for row in self.field.run.get(stage)}

    def _raced(self) -> tuple[Standing, ...]:
        """The candidates of the race, those that stayed to the end first, then by rows and
        score."""
        remarks = {
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
                        remarks[state],
                    )
                )
        order = list(remarks.values())
        standings.sort(
            key=lambda standing: (
                order.index(standing.remark),
                -standing.rows,
                -standing.score.mean,
                standing.tokens,
            )
        )
        return tuple(standings)


def _shown(rows: Sequence[Example], entrant: Entrant, answers: Answered) -> list[ShownRow]:
    """The final rows with a candidate's prompts and the LM's answers."""
    return [
        ShownRow(row.input, prompt, reply.prediction, row.output, bool(score == 1))
        for row, prompt, reply, score in zip(
            rows, entrant.prompts, answers.replies, answers.scores, strict=False
        )
    ]


def _troubles(replies: Sequence[Reply]) -> dict[str, int]:
    """How many answers had each kind of trouble (`pipeline.ways`)."""
    return dict(Counter(reply.trouble for reply in replies if reply.trouble))
