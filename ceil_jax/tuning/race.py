"""A race of candidates, from which clearly worse ones are dropped round by round.

All answer a few rows, clearly worse ones are dropped, and the others answer more.

A race does no input or output: it returns which candidates should answer which rows next, and takes
their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ceil_jax.tuning.paired import chances, draws_for

FIRST_ROWS = 16
"""Rows of the first round of a race."""

MISTAKES = 0.05
"""The largest probability, over all tests of a race, that the best candidate is dropped."""

NEAR = 0.05
"""The uncorrected p-value at or below which a candidate counts as worse than the winner at the end."""

State = Literal["racing", "worse", "aside"]
"""The state of a candidate: racing; dropped as clearly worse than another; or set aside because the
budget pays for fewer candidates."""


class Round(NamedTuple):
    """One round of a race, in which the candidates in `racers` answer rows `start` to `stop`."""

    racers: tuple[int, ...]
    start: int
    stop: int


class Race:
    """A race of candidates that answer the same rows in rounds.

    The first 16 rows, the first 32, 64, … up to all.

    A candidate is clearly worse if a paired test says so at MISTAKES / (tests that could drop the
    best one). This is Bonferroni's correction over rounds and rivals: the best candidate is dropped
    with a probability of at most MISTAKES, however many there are. If the budget does not pay for
    all remaining candidates, each remaining round gets an equal share of it, and the best-ranked
    candidates that fit the share go on (sequential halving; Karnin, Koren and Somekh, 2013). The
    others are set aside, which says nothing about how good they are.

    Args:
        tokens: float [A, N], upper bound of the LM tokens of each candidate on each row.
        rivals: the most candidates there can be, with those that join later; by default A.
        first_rows: rows of the first round; each later round doubles the number of answered rows.
    """

    def __init__(
        self, tokens: np.ndarray, *, rivals: int | None = None, first_rows: int = FIRST_ROWS
    ) -> None:
        self.tokens = np.asarray(tokens, np.float64)
        self.rows = self.tokens.shape[1]
        self.stops = checkpoints(self.rows, first_rows)
        self.scores: list[np.ndarray] = [np.zeros(0) for _ in self.tokens]
        self.states: list[State] = ["racing" for _ in self.tokens]
        # the probability of a mistake is shared among all comparisons with the leader at all stops
        comparisons = max(1, (rivals or len(self.tokens)) - 1) * len(self.stops)
        self.level = MISTAKES / comparisons

    def join(self, tokens: np.ndarray) -> int:
        """Add a candidate, given the tokens of its rows, float [N], and return its number.

        It answers the rows of earlier rounds first.
        """
        self.tokens = np.concatenate([self.tokens, np.asarray(tokens, np.float64)[None]])
        self.scores.append(np.zeros(0))
        self.states.append("racing")
        return len(self.scores) - 1

    def set_aside(self) -> list[int]:
        """Return the candidates that were set aside, the best by their own rows first."""
        aside = [i for i, state in enumerate(self.states) if state == "aside"]
        return sorted(aside, key=lambda i: (-self.scores[i].mean(), self.mean_tokens(i), i))

    def resume(self, racer: int) -> None:
        """Let a candidate that was set aside answer the rows that it lacks."""
        self.states[racer] = "racing"

    def next_round(self, affordable: float) -> Round | None:
        """Return the next round, or None if the race is over.

        Candidates for which the affordable tokens are not enough are set aside.
        """
        racing = self.racing
        start = min(len(self.scores[i]) for i in racing)
        if len(racing) < 2 or start == self.rows:
            return None
        stop = next(stop for stop in self.stops if stop > start)
        rounds_left = sum(stop > start for stop in self.stops)
        waiting = [i for i in self.ranked(start) if len(self.scores[i]) == start]
        costs = {i: self.tokens[i, start:stop].sum() for i in waiting}
        share = affordable
        # all candidates take part in the first round
        if start > 0 and rounds_left > 1:
            share = min(affordable, max(affordable / rounds_left, costs[waiting[0]]))
        racers: list[int] = []
        for i in waiting:
            if costs[i] <= share:
                racers.append(i)
                share -= costs[i]
        without_rival = len(racers) == 1 and all(len(self.scores[i]) == start for i in racing)
        if not racers or without_rival:
            return None
        for i in set(waiting) - set(racers):
            self.states[i] = "aside"
        return Round(tuple(sorted(racers)), start, stop)

    def tell(self, scores: Mapping[int, np.ndarray]) -> None:
        """Add the scores of a round, and drop the candidates that are clearly worse.

        The scores are float [stop − start] each.
        """
        for i, values in scores.items():
            self.scores[i] = np.concatenate([self.scores[i], np.asarray(values, np.float64)])
        count = min(len(self.scores[i]) for i in scores)
        best = self.ranked(count)[0]
        others = [i for i in scores if i != best]
        if not others:
            return
        ahead = np.stack([self.scores[best][:count] - self.scores[i][:count] for i in others])
        for i, p in zip(others, chances(ahead, draws_for(self.level)), strict=True):
            if p <= self.level:
                self.states[i] = "worse"

    @property
    def racing(self) -> list[int]:
        return [i for i, state in enumerate(self.states) if state == "racing"]

    def ranked(self, count: int | None = None) -> list[int]:
        """Return the racing candidates by their mean score, best first.

        Of equal ones, the one with fewer tokens first.

        Only candidates that have answered the first `count` rows are compared, and on these rows;
        by default as many as any has answered.
        """
        racing = self.racing
        count = max(len(self.scores[i]) for i in racing) if count is None else count
        means = {
            i: self.scores[i][:count].mean() if count else 0.0
            for i in racing
            if len(self.scores[i]) >= count
        }
        return sorted(means, key=lambda i: (-means[i], self.mean_tokens(i), i))

    def winner(self) -> int:
        """Return the best of the candidates that have answered the most rows."""
        return self.ranked()[0]

    def near(self, points: float = 1.0, costs: Sequence[float] | None = None) -> list[int]:
        """Return the winner and the candidates that are not clearly behind it, the cheapest first.

        They are at most `points` and noise behind. The winner alone is returned if no row has been
        answered.

        Args:
            points: how far below the winner's mean score they may be.
            costs: the cost of each candidate; by default its mean tokens.
        """
        winner = self.winner()
        count = len(self.scores[winner])
        near_the_winner = [winner]
        for i, values in enumerate(self.scores):
            answered = 0 < count <= len(values)
            if i == winner or not answered or self.states[i] == "worse":
                continue
            ahead = self.scores[winner] - values[:count]
            if ahead.mean() <= points and chances(ahead[None])[0] > NEAR:
                near_the_winner.append(i)
        return sorted(
            near_the_winner, key=lambda i: (self.mean_tokens(i) if costs is None else costs[i], i)
        )

    def dearest(self) -> float:
        """Return the mean LM tokens of the most expensive candidate that is still racing."""
        return max(self.mean_tokens(i) for i in self.racing)

    def mean_tokens(self, racer: int) -> float:
        return float(self.tokens[racer].mean())


def checkpoints(rows: int, first_rows: int = FIRST_ROWS) -> list[int]:
    """Return how many rows are answered after each round.

    The number doubles from round to round. A short last round is merged into the one before.

    >>> checkpoints(100), checkpoints(70), checkpoints(10)
    ([16, 32, 64, 100], [16, 32, 70], [10])
    """
    stops = [min(first_rows, rows)]
    while stops[-1] < rows:
        stops.append(min(2 * stops[-1], rows))
    if len(stops) > 2 and 4 * (stops[-1] - stops[-2]) < stops[-2]:
        del stops[-2]
    return stops


def hold(
    race: Race, ask: Callable[[Round], Mapping[int, np.ndarray]], left: Callable[[], float]
) -> None:
    """Run a race to its end.

    `left` returns how many LM tokens remain; `ask` returns the scores of a round, or {} to end the
    race.
    """
    next_round = race.next_round(left())
    while next_round is not None:
        scores = ask(next_round)
        if not scores:
            return
        race.tell(scores)
        next_round = race.next_round(left())
