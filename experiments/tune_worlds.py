"""Simulated worlds for `ceil-jax tune`, in which candidates with known true scores race and the
final rows judge them.

    python experiments/tune_worlds.py            # 500 seeds, some minutes, no LM

A candidate answers a row rightly with its own probability; the same rows are hard for all
candidates, as in real tables. Printed: how often the best is found and how much is lost against the
budget, how often the final intervals contain the truth, how often a difference is called significant
where there is none, and what rules for taking a cheaper candidate save and lose.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ceil_jax.metrics.bootstrap import Sample, mean
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.tuning.loss import Loss, loss_of
from ceil_jax.tuning.race import Race, Round, hold
from ceil_jax.tuning.verdict import Verdict, judge

METHODS = 6
"""Number of methods in a simulated search."""
SHOTS = (2, 4, 8, 16)
"""Numbers of examples in a simulated search; with zero examples there are 25 candidates."""

LIKENESS = 0.7
"""The share of an answer that depends on the row's own difficulty, and so how much two candidates'
answers are alike."""

PER_EXAMPLE = 35
"""Number of LM tokens of an example."""

TOLERANCE = 0.02
"""The default of the command's --tolerance, as a share."""


class World(NamedTuple):
    """Candidates with known scores, and their answers."""

    truth: np.ndarray
    """float [A]: the probability that each candidate answers a row correctly."""
    tokens: np.ndarray
    """float [A]: the LM tokens that a row takes."""
    answers: np.ndarray
    """float [A, N]: 1 if a candidate answers a row correctly, else 0."""


def random_world(seed: int, rows: int, spread: float = 0.06) -> World:
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
    by_both = rng.normal(0, spread / 2, METHODS * len(SHOTS))
    truth = 0.5 + np.concatenate([[-2 * spread], by_method + by_shots + by_both])
    truth = np.clip(truth, 0.02, 0.98)
    # a row's difficulty and a candidate's luck, together standard normal, so that `truth` is what
    # is answered rightly
    hard = rng.normal(size=rows)
    luck = rng.normal(size=(len(truth), rows))
    bar = np.array([NormalDist().inv_cdf(p) for p in truth])
    answers = np.sqrt(LIKENESS) * hard + np.sqrt(1 - LIKENESS) * luck < bar[:, None]
    return World(truth, (shots + 1.0) * PER_EXAMPLE, answers.astype(float))


class Raced(NamedTuple):
    """A race in one world, and the LM tokens that it took."""

    race: Race
    spent: float


def race_in(world: World, tuning: int, budget: float) -> Raced:
    """Race on the first rows of a world.

    Args:
        world: its candidates and answers.
        tuning: rows to race on.
        budget: LM tokens for the race.
    """
    race = Race(np.repeat(world.tokens[:, None], tuning, axis=1))
    spent = 0.0

    def ask(step: Round) -> dict[int, np.ndarray]:
        nonlocal spent
        span = slice(step.start, step.stop)
        spent += race.tokens[list(step.racers), span].sum()
        return {i: world.answers[i, span] for i in step.racers}

    hold(race, ask, lambda: budget - spent)
    return Raced(race, spent)


class Played(NamedTuple):
    """A race and the final comparison in one world."""

    race: Race
    finalists: tuple[int, ...]
    """The winner first; then the cheapest within noise, top-k (the first method at K = 8) and zero
    examples."""
    verdict: Verdict


def play(world: World, tuning: int, budget: float, resamples: int = 1000) -> Played:
    """Race on the first rows of a world and judge on the others; for the arguments see `race_in`
    and `judge`."""
    race, _ = race_in(world, tuning, budget)
    finalists = finalists_of(race)
    samples = [Sample(world.answers[i, tuning:, None], mean) for i in finalists]
    verdict = judge(
        samples,
        world.tokens[[*finalists]].tolist(),
        TOLERANCE,
        raced=[race.scores[i] for i in finalists],
        resamples=resamples,
    )
    return Played(race, finalists, verdict)


def finalists_of(race: Race) -> tuple[int, ...]:
    """Return the candidates that answer the final rows: the winner, the cheapest within noise,
    top-k, zero examples."""
    top_k = 1 + SHOTS.index(8)
    return tuple(dict.fromkeys((race.winner(), race.near(TOLERANCE)[0], top_k, 0)))


def random_search(world: World, tuning: int, budget: float, seed: int) -> int:
    """Return the best candidate of a random search that spends the same tokens on asking candidates for all rows."""
    order = np.random.default_rng([seed, 24]).permutation(len(world.truth))
    affordable = [
        i
        for i, total in zip(order, (world.tokens[order] * tuning).cumsum(), strict=True)
        if total <= budget
    ]
    return max(affordable or [order[0]], key=lambda i: world.answers[i, :tuning].mean())


def by_budget(budgets: Sequence[float], seeds: int, tuning: int = 200) -> Table:
    """Return a table of how good the winner is, by the budget of the race and compared with random
    search for the same tokens."""
    lines: list[list[Value]] = []
    for budget in budgets:
        losses = []
        random_losses = []
        best = 0
        dropped = 0
        spent = []
        for seed in range(seeds):
            world = random_world(seed, tuning + 20)
            played = race_in(world, tuning, budget)
            winner = played.race.winner()
            top = int(world.truth.argmax())
            losses.append(world.truth[top] - world.truth[winner])
            random_losses.append(
                world.truth[top] - world.truth[random_search(world, tuning, budget, seed)]
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
    """How often statements about the final rows are true, in percent."""

    scores: float
    """Share of intervals of the winner's score that contain the true score."""
    differences: float
    """Share of intervals of winner − top-k that contain the true difference."""
    false: float
    """Share of races in which any finalist is called significantly better than one that is as good or better."""
    recommended_worse: float
    """Share of races whose recommended candidate is truly more than 5 points worse than the winner."""


def honesty(
    seeds: int,
    spread: float,
    tuning: int = 100,
    final: int = 200,
    budget: float = 400_000,
    resamples: int = 1000,
) -> Honesty:
    """Return how often statements at the end of many races are true.

    Args:
        seeds: how many worlds.
        spread: see `random_world`.
        tuning: rows to race on.
        final: rows for the end.
        budget: LM tokens of a race.
        resamples: how often rows are drawn for an interval.
    """
    scores = []
    differences = []
    false = 0
    worse = 0
    for seed in range(seeds):
        world = random_world(seed, tuning + final, spread)
        _, finalists, verdict = play(world, tuning, budget, resamples)
        truth = world.truth[list(finalists)]
        scores.append(verdict.scores[0].low <= truth[0] <= verdict.scores[0].high)
        for test in verdict.differences:
            if test.better == 0 or test.worse == 0:
                gap = truth[test.better] - truth[test.worse]
                differences.append(test.interval.low <= gap <= test.interval.high)
        false += any(
            test.significant and truth[test.better] <= truth[test.worse]
            for test in verdict.differences
        )
        worse += truth[0] - truth[verdict.recommended] > 0.05
    return Honesty(
        scores=100 * float(np.mean(scores)),
        differences=100 * float(np.mean(differences)),
        false=100 * false / seeds,
        recommended_worse=100 * float(worse) / seeds,
    )


class Evidence(NamedTuple):
    """The loss of a cheaper finalist against the winner, estimated from two sets of rows."""

    final: Loss
    """The loss on the final rows."""
    all_rows: Loss
    """The loss on the final rows and on the race's rows that both have answered."""


RULES: dict[str, Callable[[Evidence], bool]] = {
    "at most 2 points below": lambda evidence: evidence.final.ahead <= TOLERANCE,
    "95 % interval above −2 points": lambda evidence: (
        evidence.final.ahead + 1.96 * evidence.final.error <= TOLERANCE
    ),
    "expected loss, final rows": lambda evidence: evidence.final.expected <= TOLERANCE,
    "expected loss, all rows": lambda evidence: evidence.all_rows.expected <= TOLERANCE,
}
"""Rules for taking a cheaper finalist in place of the winner; the last is the rule of `judge`."""

EXTENTS = {24: 40, 100: 80, 200: 160, 500: 300}
"""The number of rows to race on, by the number of final rows."""


class Taking(NamedTuple):
    """The results of a rule in many worlds."""

    taken: float
    """Share of worlds in which a cheaper finalist is taken, in percent."""
    lost: float
    """Points by which the candidate taken is truly below the winner, on average over all worlds."""
    far_below: float
    """Share of worlds in which the candidate taken is truly more than 5 points below the winner, in percent."""
    tokens: float
    """Tokens of the candidate taken, in percent of the winner's."""


def taking(seeds: int, spread: float, final: int) -> dict[str, Taking]:
    """Return the results of each of RULES.

    Args:
        seeds: how many worlds.
        spread: see `random_world`.
        final: rows for the end.
    """
    tuning = EXTENTS[final]
    results: dict[str, list[tuple[bool, float, bool, float]]] = {rule: [] for rule in RULES}
    for seed in range(seeds):
        world = random_world(seed, tuning + final, spread)
        race, _ = race_in(world, tuning, tuning * 4_000)
        winner, *others = finalists_of(race)
        evidence_of = {i: evidence(world, race, winner, i, tuning) for i in others}
        for rule, holds in RULES.items():
            as_good = [i for i in others if holds(evidence_of[i])]
            chosen = min([winner, *as_good], key=lambda i: world.tokens[i])
            below = float(world.truth[winner] - world.truth[chosen])
            share = world.tokens[chosen] / world.tokens[winner]
            results[rule].append((chosen != winner, below, below > 0.05, share))
    return {rule: Taking(*(100 * np.mean(rows, axis=0))) for rule, rows in results.items()}


def evidence(world: World, race: Race, winner: int, other: int, tuning: int) -> Evidence:
    """Return the evidence on what a finalist may lose against the winner."""
    ahead = world.answers[winner] - world.answers[other]
    both = min(len(race.scores[winner]), len(race.scores[other]))
    all_rows = np.concatenate([ahead[:both], ahead[tuning:]])
    return Evidence(loss_of(ahead[tuning:]), loss_of(all_rows))


def cheaper(seeds: int) -> Table:
    """Return a table on the rules for taking a cheaper finalist: what they save if all are equally
    good, and what they lose if not."""
    lines: list[list[Value]] = []
    for final in EXTENTS:
        equal = taking(seeds, 0.0, final)
        small = taking(seeds, 0.02, final)
        for rule in RULES:
            lines.append(
                [
                    str(final),
                    rule,
                    Number(equal[rule].taken),
                    Number(equal[rule].tokens),
                    Number(small[rule].taken),
                    Number(small[rule].lost, 2),
                    Number(small[rule].far_below),
                ]
            )
    header = ["final rows", "a cheaper one is taken if", "all equal: taken, %"]
    header += ["tokens, % of the winner's", "small differences: taken, %", "points lost"]
    return Table([*header, "5 points worse, %"], lines)


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
    print(f"{random_world(0, 200).tokens.sum() * 200:,.0f} tokens\n")
    print(by_budget((150_000, 300_000, 600_000, 1_200_000), seeds).text())
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
    print(f"\nwhen a cheaper finalist is taken in place of the winner, {seeds} worlds\n")
    print(cheaper(seeds).text())


if __name__ == "__main__":
    main()
