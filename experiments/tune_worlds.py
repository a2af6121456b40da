"""Simulated worlds for `ceil-jax tune`: candidates whose true scores are known race, and the final
rows judge them.

    python experiments/tune_worlds.py            # 500 seeds, some minutes, no LM

A candidate answers a row rightly with its own probability; the same rows are hard for all
candidates, as in real tables. Printed: how often the best is found and how much is lost against the
budget, how often the final intervals contain the truth, and how often a difference is called
certain where there is none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.verdict import Verdict, judge

METHODS, SHOTS = 6, (2, 4, 8, 16)
"""Methods and numbers of examples of a made-up search; with zero examples there are 25
candidates."""

LIKENESS = 0.7
"""The share of a row's answer that is the row's own difficulty: how much two candidates' answers
are alike."""

PER_EXAMPLE = 35
"""LM tokens of an example."""


class World(NamedTuple):
    """Candidates with known scores, and what they answer."""

    truth: np.ndarray
    """float [A]: the probability with which each candidate is right."""
    tokens: np.ndarray
    """float [A]: LM tokens of a row."""
    answers: np.ndarray
    """float [A, N]: 1 where a candidate is right."""


def world(seed: int, rows: int, spread: float = 0.06) -> World:
    """Return a world: zero examples, then METHODS × SHOTS candidates.

    Args:
        seed: draws the truth and the answers.
        rows: rows that are answered.
        spread: standard deviation of what the method, the number of examples and both together add
            to the score; with 0 all candidates are equally good.
    """
    rng = np.random.default_rng([seed, 23])
    shots = np.array([0, *(k for _ in range(METHODS) for k in SHOTS)])
    by_method = np.repeat(rng.normal(0, spread, METHODS), len(SHOTS))
    by_shots = np.tile(rng.normal(0, spread, len(SHOTS)), METHODS)
    own = rng.normal(0, spread / 2, METHODS * len(SHOTS))
    truth = 0.5 + np.concatenate([[-2 * spread], by_method + by_shots + own])
    truth = np.clip(truth, 0.02, 0.98)
    # a row's difficulty and a candidate's luck, together standard normal, so that `truth` is what
    # is answered rightly
    hard, luck = rng.normal(size=rows), rng.normal(size=(len(truth), rows))
    bar = np.array([NormalDist().inv_cdf(p) for p in truth])
    answers = np.sqrt(LIKENESS) * hard + np.sqrt(1 - LIKENESS) * luck < bar[:, None]
    return World(truth, (shots + 1.0) * PER_EXAMPLE, answers.astype(float))


class Raced(NamedTuple):
    """A race in one world, and the LM tokens that it took."""

    race: Race
    spent: float


def race_in(made: World, tuning: int, budget: float) -> Raced:
    """Race on the first rows of a world.

    Args:
        made: the world.
        tuning: rows to race on.
        budget: LM tokens for the race.
    """
    race = Race(np.repeat(made.tokens[:, None], tuning, axis=1))
    spent = 0.0

    def ask(step: Round) -> dict[int, np.ndarray]:
        nonlocal spent
        span = slice(step.start, step.stop)
        spent += race.tokens[list(step.racers), span].sum()
        return {i: made.answers[i, span] for i in step.racers}

    hold(race, ask, lambda: budget - spent)
    return Raced(race, spent)


class Played(NamedTuple):
    """A race and its end in one world."""

    race: Race
    finalists: tuple[int, ...]
    """The winner first; then the cheapest within noise, top-k (the first method at K = 8) and zero
    examples."""
    verdict: Verdict


def play(made: World, tuning: int, budget: float, resamples: int = 1000) -> Played:
    """Race on the first rows of a world and judge on the others; for the arguments see `race_in`
    and `judge`."""
    race, _ = race_in(made, tuning, budget)
    top_k = 1 + SHOTS.index(8)
    finalists = tuple(dict.fromkeys((race.winner(), race.near()[0], top_k, 0)))
    samples = [Sample(made.answers[i, tuning:, None], mean) for i in finalists]
    return Played(
        race, finalists, judge(samples, made.tokens[[*finalists]].tolist(), resamples=resamples)
    )


def random_search(made: World, tuning: int, budget: float, seed: int) -> int:
    """Return the best of the candidates that a random search can ask for all rows with the same
    tokens."""
    order = np.random.default_rng([seed, 24]).permutation(len(made.truth))
    asked = [
        i
        for i, total in zip(order, (made.tokens[order] * tuning).cumsum(), strict=True)
        if total <= budget
    ]
    return max(asked or [order[0]], key=lambda i: made.answers[i, :tuning].mean())


def found(budgets: Sequence[float], seeds: int, tuning: int = 200) -> Table:
    """Return how good the winner is against the budget of the race, beside random search with the
    same tokens."""
    lines: list[list[Value]] = []
    for budget in budgets:
        losses, random_losses, best, dropped, spent = [], [], 0, 0, []
        for seed in range(seeds):
            made = world(seed, tuning + 20)
            played = race_in(made, tuning, budget)
            winner, top = played.race.winner(), int(made.truth.argmax())
            losses.append(made.truth[top] - made.truth[winner])
            random_losses.append(
                made.truth[top] - made.truth[random_search(made, tuning, budget, seed)]
            )
            best += losses[-1] <= 0.01
            dropped += played.race.states[top] == "worse"
            spent.append(played.spent)
        line = [Number(100 * best / seeds), Number(100 * float(np.mean(losses)), 2)]
        line += [Number(100 * float(np.mean(random_losses)), 2), Number(100 * dropped / seeds)]
        lines.append([f"{budget:,.0f}", *line, round(float(np.mean(spent)))])
    header = [
        "budget, tokens",
        "within 1 point of the best, %",
        "points lost",
        "random search loses",
    ]
    return Table([*header, "best called clearly worse, %", "tokens spent"], lines)


class Honesty(NamedTuple):
    """How often the final rows tell the truth, in percent."""

    scores: float
    """Intervals of the winner's score that contain it."""
    differences: float
    """Intervals of winner − top-k that contain it."""
    false: float
    """Races in which any finalist is called certainly better than one that is as good or better."""
    recommended_worse: float
    """Races whose recommended candidate is truly more than 5 points worse than the winner."""


def honesty(
    seeds: int,
    spread: float,
    tuning: int = 100,
    final: int = 200,
    budget: float = 400_000,
    resamples: int = 1000,
) -> Honesty:
    """Return how honest the ends of many races are.

    Args:
        seeds: how many worlds.
        spread: see `world`.
        tuning: rows to race on.
        final: rows for the end.
        budget: LM tokens of a race.
        resamples: how often rows are drawn for an interval.
    """
    scores, differences, false, worse = [], [], 0, 0
    for seed in range(seeds):
        made = world(seed, tuning + final, spread)
        _, finalists, verdict = play(made, tuning, budget, resamples)
        truth = made.truth[list(finalists)]
        scores.append(verdict.scores[0].low <= truth[0] <= verdict.scores[0].high)
        for one in verdict.differences:
            if one.better == 0 or one.worse == 0:
                gap = truth[one.better] - truth[one.worse]
                differences.append(one.interval.low <= gap <= one.interval.high)
        false += any(
            one.certain and truth[one.better] <= truth[one.worse] for one in verdict.differences
        )
        worse += truth[0] - truth[verdict.recommended] > 0.05
    held, gaps = (100 * float(np.mean(hits)) for hits in (scores, differences))
    return Honesty(held, gaps, 100 * false / seeds, 100 * float(worse) / seeds)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description="Simulated worlds with a known truth for ceil-jax tune."
    )
    parser.add_argument("--seeds", type=int, default=500)
    seeds = parser.parse_args().seeds
    print(
        f"25 candidates, 200 rows to race on, {seeds} worlds; all candidates on all rows: ", end=""
    )
    print(f"{world(0, 200).tokens.sum() * 200:,.0f} tokens\n")
    print(found((150_000, 300_000, 600_000, 1_200_000), seeds).text())
    print(f"\n100 rows to race on, 200 final rows, {seeds} worlds, in percent\n")
    lines: list[list[Value]] = []
    for name, spread in (
        ("no difference", 0.0),
        ("small differences", 0.02),
        ("large differences", 0.06),
    ):
        lines.append([name, *(Number(value) for value in honesty(seeds, spread))])
    header = ["world", "interval of the score holds", "of differences", 'false "X is better"']
    print(Table([*header, "recommended is 5 points worse"], lines).text())


if __name__ == "__main__":
    main()
