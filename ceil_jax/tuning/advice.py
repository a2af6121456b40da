"""Sentences of advice about the finalists of a search.

They say what is recommended and why, and which differences are significant.
"""

from __future__ import annotations

import math

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.table import signed
from ceil_jax.tuning.candidates import ZERO
from ceil_jax.tuning.finals import Finals, ThenLM
from ceil_jax.tuning.standing import Standing

_WITHOUT_LM = {
    "classifier": "a classifier alone does as well without LM calls: trained on the bank's labels",
    "copied": "copying the nearest example's output does as well without LM calls:",
}
"""The beginning of the recommendation, by how a row answers without an LM (`Row.answers`)."""


def advice(finals: Finals) -> list[str]:
    """Return sentences of advice; the first says what is recommended and why."""
    sentences = [
        *_recommendation(finals),
        *_against_zero(finals),
        *_undecided(finals),
        *_against_winner(finals),
    ]
    if finals.without_lm is not None and not finals.needs_no_lm:
        sentences.append(
            f"Without an LM, {finals.without_lm.label} minus the recommended prompt: "
            f"{_difference(finals.without_lm.minus)}."
        )
        both = finals.without_lm.then_lm
        if both is not None and finals.then_lm is None:
            sentences.append(
                f"The {_both_in_words(both)} minus the recommended prompt: {_difference(both.minus)}."
            )
    return sentences


def _both_in_words(both: ThenLM) -> str:
    return (
        f"classifier where its probability is at least {both.threshold:g}, and the LM elsewhere, for "
        f"{both.share:.0%} of the queries:"
    )


def differences(finals: Finals) -> list[str]:
    """Return a sentence for each pair of finalists.

    The difference of their scores in points, and whether it is significant.
    """
    labels = [standing.label for standing in finals.standings]
    return [
        f"{labels[test.better]} − {labels[test.worse]}: {signed(test.interval.percent())} points, "
        + ("significant" if test.significant else f"not significant (p = {test.p:.2f})")
        for test in finals.verdict.differences
    ]


def _recommendation(finals: Finals) -> list[str]:
    """A sentence on what is recommended.

    If that needs no LM, a second sentence is on the best prompt.
    """
    best = finals.recommended
    score_and_cost = f"{_scored(best.score)} with {_cost_in_words(finals, best)}"
    without_lm = finals.without_lm
    if without_lm is not None and finals.needs_no_lm:
        return [
            f"Recommended: {_WITHOUT_LM[without_lm.row.answers]} it scores {_scored(without_lm.score)}.",
            f"The best prompt is {best.label}, {score_and_cost}; {without_lm.label} minus the prompt "
            f"is {_difference(without_lm.minus)}.",
        ]
    if finals.then_lm is not None:
        return [
            f"Recommended: the {_both_in_words(finals.then_lm)} it scores "
            f"{_scored(finals.then_lm.score)}.",
            f"The prompt is {best.label}, which alone scores {score_and_cost}; both minus the prompt: "
            f"{_difference(finals.then_lm.minus)}.",
        ]
    if not any(standing.score.mean for standing in finals.standings):
        return [
            "Recommended: none of these prompts. All score 0: look at the LM's answers below, and try "
            "another --lm, --template or --metric."
        ]
    if best.candidate == ZERO:
        return [
            f"Recommended: zero examples do as well, {score_and_cost}: no choice of "
            "examples that was tried is significantly better."
        ]
    return [f"Recommended: {best.label}, {score_and_cost}{_worth(finals)}."]


def _against_zero(finals: Finals) -> list[str]:
    """Return a sentence that says whether the recommended prompt's examples help; [] if only those
    of another finalist do."""
    verdict = finals.verdict
    numbers = range(len(finals.standings))
    zero = next(i for i in numbers if finals.standings[i].candidate == ZERO)
    if verdict.significantly_better(verdict.recommended, zero):
        return [f"{finals.recommended.label} is significantly better than zero examples."]
    helped = any(verdict.significantly_better(i, zero) for i in numbers)
    if helped or finals.recommended.candidate == ZERO:
        return []
    return ["No choice of examples that was tried is significantly better than zero examples."]


def _against_winner(finals: Finals) -> list[str]:
    """Return a sentence on the winner of the race, if another prompt is recommended.

    There is one only if their scores differ by more than the tolerance.
    """
    winner = finals.standings[0]
    best = finals.recommended
    loss = winner.score.percent().mean - best.score.percent().mean
    overtaken = finals.verdict.recommended != 0 and not finals.verdict.significantly_worse(0)
    if not overtaken or abs(loss) <= finals.tolerance:
        return []
    more = _cost_difference(finals, winner, best)
    return [
        f"The winner of the race, {winner.label}, took {more} more and was "
        f"{abs(loss):.1f} points {'better' if loss > 0 else 'worse'} (not significant)."
    ]


def _worth(finals: Finals) -> str:
    """Return in words what the recommended prompt saves; "" if there is nothing to compare.

    It is compared with the first finalist that costs more and is better by at most the tolerance.
    """
    best = finals.recommended
    verdict = finals.verdict
    losses = verdict.losses[verdict.recommended]
    for i, (standing, loss) in enumerate(zip(finals.standings, losses, strict=True)):
        points = 100 * loss.expected
        saving = _saving(finals, best, standing)
        if standing.candidate == ZERO or not saving:
            continue
        if verdict.significantly_better(verdict.recommended, i):
            return f": it {saving} and is significantly better"
        if points <= finals.tolerance:
            return f": it {saving} and does as well (expected loss: {points:.1f} points)"
    return ""


def _undecided(finals: Finals) -> list[str]:
    """Return a sentence on the cheapest prompt that looks as good as the recommended one.

    There are too few rows to tell. There is no sentence with a tolerance of 0, for which no number
    of rows is enough.
    """
    tolerance = finals.tolerance
    if tolerance == 0:
        return []
    best = finals.recommended
    cheaper = [
        i
        for i, standing in enumerate(finals.standings)
        if _saving(finals, standing, best) and not finals.verdict.significantly_worse(i)
    ]
    for i in sorted(cheaper, key=lambda i: finals.cost(finals.standings[i])):
        standing = finals.standings[i]
        loss = finals.verdict.losses[i][finals.verdict.recommended]
        points = 100 * loss.expected
        if 100 * loss.ahead <= tolerance < points:
            return [
                f"{standing.label} {_saving(finals, standing, best)} and looks as good, but "
                f"{loss.rows:,} rows are too few to tell: the expected loss is {points:.1f} points, "
                f"more than --tolerance {tolerance:g}. About {loss.rows_for(tolerance / 100):,} rows "
                "would do, if it is as good."
            ]
    return []


def _cost_in_words(finals: Finals, standing: Standing) -> str:
    """The cost of a prompt in words: its tokens and, if these have a price, money."""
    tokens = f"{standing.tokens:,.0f} tokens a prompt"
    if finals.price is None:
        return tokens
    return f"{tokens}, {finals.price.shown(finals.cost(standing))} a thousand queries"


def _cost_difference(finals: Finals, expensive: Standing, cheap: Standing) -> str:
    """The extra cost of the more expensive of two prompts, in tokens or in money."""
    if finals.price is None:
        return f"{expensive.tokens - cheap.tokens:,.0f} tokens"
    return f"{finals.price.shown(finals.cost(expensive) - finals.cost(cheap))} a thousand queries"


def _saving(finals: Finals, cheap: Standing, expensive: Standing) -> str:
    """The saving of a prompt compared with another.

    A share if it is at most three quarters, else the difference; "" if it does not cost less.
    """
    if finals.cost(cheap) >= finals.cost(expensive):
        return ""
    share = finals.cost(cheap) / finals.cost(expensive)
    if share <= 0.75:
        return f"costs {share_in_words(share)} of {expensive.label}"
    return f"costs {_cost_difference(finals, expensive, cheap)} less than {expensive.label}"


_SHARES = {
    3 / 4: "three quarters",
    2 / 3: "two thirds",
    1 / 2: "half",
    1 / 3: "a third",
    1 / 4: "a quarter",
    1 / 5: "a fifth",
    1 / 6: "a sixth",
    1 / 8: "an eighth",
    1 / 10: "a tenth",
}


def share_in_words(share: float) -> str:
    """Return a share as the nearest fraction that has a name.

    >>> share_in_words(0.35), share_in_words(0.02)
    ('a third', 'less than a tenth')
    """
    if share < 0.09:
        return "less than a tenth"
    nearest = min(_SHARES, key=lambda fraction: abs(math.log(fraction / share)))
    return _SHARES[nearest]


def _scored(score: Interval) -> str:
    """A score in percent, with its interval."""
    percent = score.percent()
    return f"{percent.mean:.1f} ({percent.low:.1f} to {percent.high:.1f})"


def _difference(difference: Interval) -> str:
    """A difference in points, and whether it is significant."""
    points = f"{signed(difference.percent())} points"
    return f"{points}, {'significant' if difference.excludes_zero else 'not significant'}"
