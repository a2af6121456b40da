"""The race of a search: the candidates of a field answer tuning rows, within the part of the budget
that the final rows do not need.

The statistics of a race are in `race`, which asks no LM.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.price import Price
from ceil_jax.methods.row import Row
from ceil_jax.metrics.bootstrap import Sample, mean, metric_interval
from ceil_jax.pipeline.plan import duration
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.candidates import PLAIN, ZERO, Candidate, candidates, plain, prepared
from ceil_jax.tuning.extent import FIRST_ROWS, Extent
from ceil_jax.tuning.field import Entrant, Field
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.standing import Standing
from ceil_jax.tuning.verdict import FEWEST_ROWS

log = logging.getLogger(__name__)

_CHOOSING = 0.05
"""The share of the minutes that is kept for choosing the finalists' examples."""

_MARGIN = 1.1
"""The factor by which the tokens that are kept for the final rows are raised: their prompts may be
longer than those of the tuning rows."""

_REMARKS = {
    "racing": "stayed to the end",
    "aside": "set aside for the budget",
    "worse": "clearly worse",
}
"""How the race ended for a candidate, in the order of tables."""


class Finalist(NamedTuple):
    """A candidate that answers the final rows."""

    candidate: Candidate
    role: str
    """The reasons why it does."""
    raced: np.ndarray
    """float [m]: its scores in the race; m is 0 if it did not take part."""


class FieldRace:
    """The candidates of a search, their race, and those that join it later.

    First race the candidates that need no preparation by the LM. If the budget has something left,
    the best of them joins with larger K that had been cut, and then candidates join that the LM
    prepares, by scores to learn from or by skills.

    Args:
        field: the prompts, the LM's answers and the budget.
        queries: the tuning rows, in the order in which they are answered.
        extent: the search that the budget pays for.
        methods: the methods of the search, with those that the LM prepares.
        ks: the numbers of examples of the search, with those that were cut.
        tokens_of_zero: the mean LM tokens of a prompt without examples, its answer included.
        tolerance: points of the metric, from 0 to 100, that the cheapest finalist may be behind the
            winner.
        price: the price of tokens, by which the cheapest is found; by tokens if None.
        notes: sentences for the reader of the outcome; the race adds its own.
    """

    def __init__(
        self,
        field: Field,
        queries: Sequence[Example],
        extent: Extent,
        methods: Sequence[Row],
        ks: Sequence[int],
        tokens_of_zero: float,
        tolerance: float,
        price: Price | None,
        notes: list[str],
    ) -> None:
        self.field = field
        self.queries = queries
        self.extent = extent
        self.methods = methods
        self.ks = ks
        self.notes = notes
        self._tokens_of_zero = tokens_of_zero
        self._tolerance = tolerance
        self._price = price
        self._final_rows = extent.final
        """For how many final rows LM tokens are kept."""
        self._over = False
        """Whether the race is over, but for candidates that join."""
        self.plain = field.enter(plain(extent), queries)
        self.entrants = self._entrants()
        """The candidates, numbered as `race` does."""
        joining = prepared(methods, extent, PLAIN.shots) if extent.first else []
        self.race = Race(
            np.stack([entrant.tokens for entrant in self.entrants]),
            rivals=len(self.entrants) + len(joining) + len(ks) - len(extent.ks),
            first_rows=extent.first or FIRST_ROWS,
        )

    def _entrants(self) -> list[Entrant]:
        """The candidates that race from the first round on."""
        if not self.extent.first:
            return [self.plain]
        entrants = [
            self.field.enter(candidate, self.queries) for candidate in candidates(self.extent)
        ]
        # of candidates with the same prompts, only the first races
        distinct = {tuple(entrant.prompts): entrant for entrant in reversed(entrants)}
        return list(distinct.values())[::-1] or [self.plain]

    def hold(self) -> None:
        """Run the race to its end; without a first round there is no race."""
        # if encoding took longer than expected, final rows get at most half of what is left
        while self._final_rows > FEWEST_ROWS and self._reserve() > self._left():
            self._final_rows = max(FEWEST_ROWS, int(0.9 * self._final_rows))
        if not self.extent.first:
            return
        hold(self.race, self._ask, self._left)
        self._over = True
        if self.field.budget.out_of_time() and not any(map(len, self.race.scores)):
            self.notes.append("The minutes had passed before the race began.")
        for entrant in self._with_more_examples():
            self._join(entrant)
        shots = self.winner.candidate.shots or PLAIN.shots
        waiting = prepared(self.methods, self.extent, shots)
        for entrant in self._prepared(waiting):
            self._join(entrant)

    @property
    def winner(self) -> Entrant:
        """The best of the candidates that have answered the most rows."""
        return self.entrants[self.race.winner()]

    @property
    def cheapest(self) -> Entrant:
        """The cheapest candidate that the race could not tell from the winner."""
        costs = [entrant.cost(self._price) for entrant in self.entrants]
        return self.entrants[self.race.near(self._tolerance / 100, costs)[0]]

    def finalists(self) -> list[Finalist]:
        """Return the candidates that answer the final rows, the winner first."""
        finalists = [(self.plain.candidate, "plain prompt"), (ZERO, "")]
        if any(len(scores) for scores in self.race.scores):
            finalists = [
                (self.winner.candidate, "winner of the race"),
                (self.cheapest.candidate, "cheapest within noise"),
                *finalists,
            ]
        roles: dict[Candidate, list[str]] = {}
        for candidate, role in finalists:
            roles.setdefault(candidate, []).append(role)
        raced = {
            entrant.candidate: scores
            for entrant, scores in zip(self.entrants, self.race.scores, strict=True)
        }
        return [
            Finalist(candidate, ", ".join(filter(None, words)), raced.get(candidate, np.zeros(0)))
            for candidate, words in roles.items()
        ]

    def standings(self) -> tuple[Standing, ...]:
        """Return the results of the candidates that raced: those that stayed to the end first, then
        by rows and score."""
        standings = [
            Standing(
                entrant.candidate,
                metric_interval(Sample(scores[:, None], mean)),
                len(scores),
                entrant.usage,
                entrant.preparing,
                _REMARKS[state],
            )
            for entrant, scores, state in zip(
                self.entrants, self.race.scores, self.race.states, strict=True
            )
            if len(scores)
        ]
        order = list(_REMARKS.values())
        standings.sort(
            key=lambda standing: (
                order.index(standing.remark),
                -standing.rows,
                -standing.score.mean,
                standing.tokens,
            )
        )
        return tuple(standings)

    def _join(self, entrant: Entrant) -> None:
        """Let another candidate join the race."""
        self.race.join(entrant.tokens)
        self.entrants.append(entrant)
        joining = float(entrant.tokens.mean())
        hold(
            self.race,
            lambda next_round: self._ask(next_round, joining),
            lambda: self._left(joining),
        )

    def _with_more_examples(self) -> Iterator[Entrant]:
        """Yield the best candidate that has examples with each larger K that was cut from the
        search, as long as it wins and the race has tokens left for it."""
        for k in self.ks:
            ranked = [self.entrants[i].candidate for i in self.race.ranked()]
            best = next((candidate for candidate in ranked if candidate.shots), None)
            if best is None:
                return
            shots = k + best.row.method.near_examples
            if k in self.extent.ks or best.shots >= shots:
                continue
            entrant = self.field.enter(replace(best, shots=shots), self.queries)
            needed = float(entrant.tokens.sum()) + self._reserve(float(entrant.tokens.mean()))
            # it may take more than is expected: the race pays for every round at its longest answers
            if not self.field.budget.pays_for(needed, self._choosing):
                return
            self.notes.append(
                f"{entrant.candidate.label} joined when the race was over, for what was left of the "
                "budget paid for it."
            )
            yield entrant
            if self.winner is not entrant:
                return

    def _prepared(self, waiting: Sequence[Candidate]) -> Iterator[Entrant]:
        """Prepare candidates, and yield each one that the budget pays for; notes say why the others
        were not tried."""
        for candidate in waiting:
            # the candidate with the most similar prompts
            similar = min(
                self.entrants, key=lambda entrant: abs(entrant.candidate.shots - candidate.shots)
            )
            racing = float(similar.tokens.sum())
            joining = float(similar.tokens.mean())
            reserve = self._reserve(joining)
            affordable = self._left(joining)
            try:
                tokens, seconds = self.field.preparation(candidate, similar, affordable - racing)
            except UserError as error:
                self.notes.append(f"{candidate.label} was not tried: {error}.")
                continue
            needed = tokens + racing
            budget = self.field.budget
            if needed > affordable:
                has_tokens = needed <= budget.tokens_left() - budget.expected * reserve
                short = "minutes" if has_tokens else "tokens"
                self.notes.append(
                    f"{candidate.label} was not tried: it takes {needed:,.0f} LM tokens, and the "
                    f"{short} that are left pay for {affordable:,.0f}."
                )
                continue
            if budget.out_of_time(needed + reserve, seconds + self._choosing):
                self.notes.append(
                    f"{candidate.label} was not tried: training takes about {duration(seconds)}, and "
                    f"{budget.remaining()}."
                )
                continue
            yield self.field.enter(candidate, self.queries)

    def _ask(self, next_round: Round, joining: float = 0.0) -> Mapping[int, np.ndarray]:
        """Return the scores of each racer on the rows of a round; {} to end the race. For `joining`
        see `_reserve`."""
        racers, start, stop = next_round
        states = self.race.states
        budget = self.field.budget
        log.info(
            "race, rows %d to %d: %d prompt%s, %d clearly worse, %d set aside; %s; %s",
            start + 1,
            stop,
            len(racers),
            "" if len(racers) == 1 else "s",
            states.count("worse"),
            states.count("aside"),
            budget,
            budget.remaining(),
        )
        answers = self.field.answer(
            [self.entrants[i] for i in racers],
            self.queries,
            slice(start, stop),
            f"the race, up to row {stop}",
            reserve=self._reserve(joining),
            reserve_seconds=self._choosing,
        )
        scores_of_racers = [answers_of_one.scores for answers_of_one in answers]
        rows = len(scores_of_racers[0])
        if rows < stop - start:
            self.notes.append("The minutes had passed before the race was over.")
        if rows == 0:
            return {}
        nothing_right = not any(scores.any() for scores in scores_of_racers)
        if start == 0 and len(racers) > 1 and nothing_right:
            query = self.queries[0]
            answer = answers[-1].replies[0].prediction
            self.notes.insert(
                0,
                f"{self.field.base.lm.key} scores 0 on {rows} rows with each of {len(racers)} "
                f"prompts; where {query.output!r} was right it answered {answer!r}: try another "
                "--lm, --template or --metric.",
            )
            return {}
        return dict(zip(racers, scores_of_racers, strict=True))

    def _reserve(self, joining: float = 0.0) -> float:
        """LM tokens that the final rows may take, for zero examples, the plain prompt and two
        candidates of the race: any two while it goes on, then the winner and the cheapest that it
        cannot be told from.

        Args:
            joining: the mean LM tokens of a row of a candidate that joins, and may win.
        """
        tokens_of_row = self._tokens_of_zero + float(self.plain.tokens.mean()) + joining
        if self._over:
            known = (ZERO, self.plain.candidate)
            others = {entrant.candidate: entrant for entrant in (self.winner, self.cheapest)}
            tokens_of_row += sum(
                float(entrant.tokens.mean())
                for candidate, entrant in others.items()
                if candidate not in known
            )
        else:
            tokens_of_row += 2 * self.race.dearest()
        return _MARGIN * self._final_rows * tokens_of_row

    @property
    def _choosing(self) -> float:
        """Seconds that are kept for choosing the finalists' examples. They are no part of
        `_reserve`, because a fast LM could read more in them than all tokens of the budget."""
        return _CHOOSING * 60 * (self.field.budget.minutes or 0.0)

    def _left(self, joining: float = 0.0) -> float:
        """LM tokens that the race may take. For `joining` see `_reserve`."""
        return self.field.budget.left(self._reserve(joining), self._choosing)
