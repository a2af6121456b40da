"""The outcome of a search as tables, sentences and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ceil_jax.lm.price import Price, Usage
from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.pipeline.ways import TROUBLE_COLUMNS
from ceil_jax.report.table import (
    Number,
    Table,
    Value,
    json_value,
    money_cells,
    money_columns,
    signed,
)
from ceil_jax.tuning.candidates import ZERO, Candidate
from ceil_jax.tuning.loss import Loss
from ceil_jax.tuning.verdict import Verdict

CLASSIFIER = "classifier alone"
"""The name of the classifier in tables."""

_HEADER = ["prompt", "score", "95 % interval", "rows", "tokens a prompt", "is"]


class Standing(NamedTuple):
    """A candidate's result in the race or on the final rows."""

    candidate: Candidate
    score: Interval
    """The metric on the rows that it answered, with a 95 % interval. On the tuning rows it is too
    high for the winner, which was chosen by it."""
    rows: int
    usage: Usage
    """The tokens of a query."""
    preparing: int
    """LM tokens that preparing it took."""
    remark: str
    """How the race ended for it, or why it is a finalist."""
    troubles: Mapping[str, int] = {}
    """The number of the LM's answers that can hardly be right, by trouble (`pipeline.ways`)."""

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def tokens(self) -> float:
        """The mean tokens of a prompt."""
        return self.usage.prompt


class ShownRow(NamedTuple):
    """A final row with the recommended prompt and the LM's answer."""

    query: str
    prompt: str
    answer: str
    gold: str
    right: bool


class ClassifierResult(NamedTuple):
    """The result of a classifier that was trained on the bank's labels and asks no LM."""

    score: Interval
    minus: Interval
    """Its score minus that of the recommended prompt, on the same rows."""
    loss: Loss
    """The loss to be expected if it is taken in place of the recommended prompt."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search."""

    task: str
    metric: str
    lm: str
    bank: int
    tuning: int
    final: int
    """How many rows were used as the bank, for the race and at the end."""
    race: tuple[Standing, ...]
    """The candidates that raced, the best of those that stayed to the end first."""
    finals: tuple[Standing, ...]
    """The winner first."""
    verdict: Verdict
    spent: str
    """The part of the budget that was spent, in words."""
    tokens: int
    notes: tuple[str, ...] = ()
    classifier: ClassifierResult | None = None
    """The classifier, where the task has labels."""
    example: ShownRow | None = None
    """The first of the final rows."""
    wrong: tuple[ShownRow, ...] = ()
    """The first final rows that the recommended prompt answers wrongly."""
    tolerance: float = 2.0
    """Points that a cheaper prompt may be expected to lose."""
    price: Price | None = None
    """The price of the LM's tokens; None if money is not shown."""

    @property
    def recommended(self) -> Standing:
        """The cheapest prompt that does as well as the winner."""
        return self.finals[self.verdict.recommended]

    @property
    def classifier_does_as_well(self) -> bool:
        """Whether the classifier is recommended: it is not certainly worse than the recommended
        prompt, and its expected loss is at most the tolerance."""
        if self.classifier is None:
            return False
        minus = self.classifier.minus
        certainly_worse = minus.excludes_zero and minus.high < 0
        return not certainly_worse and 100 * self.classifier.loss.expected <= self.tolerance

    @property
    def recommends(self) -> str:
        """The label of the recommended prompt, or of the classifier."""
        return CLASSIFIER if self.classifier_does_as_well else self.recommended.label

    def finals_table(self) -> Table:
        """Return the finalists and the classifier, the recommended one first, with a column for
        each kind of trouble that some answers had."""
        standings = sorted(self.finals, key=lambda standing: standing is not self.recommended)
        table = self._table("prompt", standings)
        rows = [list(row) for row in table.rows]
        header = list(table.header)
        columns_without_troubles = len(header)
        for trouble, column in TROUBLE_COLUMNS.items():
            counts = [standing.troubles.get(trouble) for standing in standings]
            if any(counts):
                header.insert(-1, column)
                for row, count in zip(rows, counts, strict=True):
                    row.insert(-1, count)
        if self.classifier is not None:
            score = self.classifier.score.percent()
            money = [0] * (columns_without_troubles - len(_HEADER))
            troubles = [None] * (len(header) - columns_without_troubles)
            classifier: list[Value] = [CLASSIFIER, score.mean, score, self.final, 0]
            classifier += [*money, *troubles, "asks no LM"]
            rows.insert(0 if self.classifier_does_as_well else len(rows), classifier)
        remark = str(rows[0][-1])
        rows[0][-1] = f"recommended, {remark}" if remark else "recommended"
        return Table(header, rows)

    def race_table(self) -> Table:
        return self._table("candidate", self.race)

    def _table(self, first_column: str, standings: Sequence[Standing]) -> Table:
        """A table of some candidates, with money if tokens have a price."""
        rows: list[list[Value]] = []
        for standing in standings:
            score = standing.score.percent()
            tokens = Number(standing.tokens, 0)
            rows.append([standing.label, score.mean, score, standing.rows, tokens, standing.remark])
        header = [first_column, *_HEADER[1:]]
        if self.price is not None:
            header[-1:-1] = money_columns(self.price)
            asking = [self.price.of_queries(standing.usage) for standing in standings]
            preparing = [self.price.of_tokens(standing.preparing) for standing in standings]
            cells_of_money = zip(money_cells(asking), money_cells(preparing), strict=True)
            for row, cells in zip(rows, cells_of_money, strict=True):
                row[-1:-1] = cells
        return Table(header, rows)

    def cost(self, standing: Standing) -> float:
        """Return the cost of a prompt: the money for a thousand queries if tokens have a price,
        else its tokens."""
        if self.price is None:
            return standing.tokens
        return self.price.of_queries(standing.usage)

    def cost_in_words(self, standing: Standing) -> str:
        """Return in words what a prompt costs: its tokens and, if these have a price, money."""
        tokens = f"{standing.tokens:,.0f} tokens a prompt"
        if self.price is None:
            return tokens
        return f"{tokens}, {self.price.shown(self.cost(standing))} a thousand queries"

    def saving(self, cheap: Standing, dear: Standing) -> str:
        """Return in words how much less a prompt costs than another: a share if it is at most three
        quarters, else the difference; "" if it does not cost less."""
        if self.cost(cheap) >= self.cost(dear):
            return ""
        share = self.cost(cheap) / self.cost(dear)
        if share <= 0.75:
            return f"costs {share_in_words(share)} of {dear.label}"
        return f"costs {self._more(dear, cheap)} less than {dear.label}"

    def differences(self) -> list[str]:
        """Return a sentence for each pair of finalists."""
        return [
            f"{self.finals[difference.better].label} − {self.finals[difference.worse].label}: "
            f"{signed(difference.interval.percent())} points, "
            + ("certain" if difference.certain else f"not certain (p = {difference.p:.2f})")
            for difference in self.verdict.differences
        ]

    def advice(self) -> list[str]:
        """Return sentences of advice; the first says what is recommended and why."""
        sentences = [
            *self._recommendation(),
            *self._against_zero(),
            *self._undecided(),
            *self._against_winner(),
        ]
        if self.classifier is not None and not self.classifier_does_as_well:
            sentences.append(
                "A classifier of the bank's labels alone, without an LM, minus the recommended "
                f"prompt: {_difference(self.classifier.minus)}."
            )
        return sentences

    def _recommendation(self) -> list[str]:
        """A sentence on what is recommended; with a second one on the best prompt, if it is the
        classifier."""
        best = self.recommended
        score_and_cost = f"{_scored(best.score)} with {self.cost_in_words(best)}"
        if self.classifier is not None and self.classifier_does_as_well:
            return [
                "Recommended: a classifier alone does as well and asks no LM: trained on the "
                f"bank's labels it has {_scored(self.classifier.score)}.",
                f"The best prompt is {best.label}, {score_and_cost}; the classifier minus the "
                f"prompt is {_difference(self.classifier.minus)}.",
            ]
        if best.candidate == ZERO:
            return [
                f"Recommended: zero examples do as well, {score_and_cost}: no examples that were "
                "tried do better for certain."
            ]
        return [f"Recommended: {best.label}, {score_and_cost}{self._worth()}."]

    def _against_zero(self) -> list[str]:
        """A sentence on whether examples help, where that is certain or nothing helps."""
        zero = next(i for i, standing in enumerate(self.finals) if standing.candidate == ZERO)
        if self.verdict.certainly_better(self.verdict.recommended, zero):
            return [f"{self.recommended.label} is certainly better than zero examples."]
        helped = any(self.verdict.certainly_better(i, zero) for i in range(len(self.finals)))
        if helped or self.recommended.candidate == ZERO:
            return []
        return [
            "Nothing helps for certain: no choice of examples is certainly better than zero examples."
        ]

    def _against_winner(self) -> list[str]:
        """A sentence on the winner of the race, if another prompt is recommended and their scores
        differ by more than the tolerance."""
        winner = self.finals[0]
        best = self.recommended
        loss = winner.score.percent().mean - best.score.percent().mean
        overtaken = self.verdict.recommended != 0 and not self.verdict.certainly_worse(0)
        if not overtaken or abs(loss) <= self.tolerance:
            return []
        return [
            f"The winner of the race, {winner.label}, took {self._more(winner, best)} more and was "
            f"{abs(loss):.1f} points {'better' if loss > 0 else 'worse'} here, which is not certain."
        ]

    def _worth(self) -> str:
        """Return the saving of the recommended prompt against the first finalist that is dearer and loses at
        most the tolerance to it; "" if there is none."""
        best = self.recommended
        losses = self.verdict.losses[self.verdict.recommended]
        for other, loss in zip(self.finals, losses, strict=True):
            points = 100 * loss.expected
            saving = self.saving(best, other)
            if other.candidate != ZERO and saving and points <= self.tolerance:
                return f": it {saving} and does as well (expected loss: {points:.1f} points)"
        return ""

    def _undecided(self) -> list[str]:
        """A sentence on the cheapest prompt that looks as good as the recommended one, but on too
        few rows. There is none with a tolerance of 0, for which no number of rows is enough."""
        if self.tolerance == 0:
            return []
        best = self.recommended
        cheaper = [
            i
            for i, finalist in enumerate(self.finals)
            if self.saving(finalist, best) and not self.verdict.certainly_worse(i)
        ]
        for i in sorted(cheaper, key=lambda i: self.cost(self.finals[i])):
            finalist = self.finals[i]
            loss = self.verdict.losses[i][self.verdict.recommended]
            points = 100 * loss.expected
            if 100 * loss.ahead <= self.tolerance < points:
                return [
                    f"{finalist.label} {self.saving(finalist, best)} and looks as good, but "
                    f"{loss.rows:,} rows cannot tell: the expected loss is {points:.1f} points, more "
                    f"than --tolerance {self.tolerance:g}. About "
                    f"{loss.rows_for(self.tolerance / 100):,} rows can, if it does as well."
                ]
        return []

    def _more(self, dear: Standing, cheap: Standing) -> str:
        """In words, how much more a prompt costs than a cheaper one: tokens, or money."""
        if self.price is None:
            return f"{dear.tokens - cheap.tokens:,.0f} tokens"
        return f"{self.price.shown(self.cost(dear) - self.cost(cheap))} a thousand queries"

    def text(self) -> str:
        """Return the outcome for a terminal."""
        return "\n".join(
            [
                *self.advice(),
                "",
                f"{self.task}: {self.metric} in percent on {self.final:,} final rows, {self.lm}",
                "",
                self.finals_table().text(),
                "",
                *self.differences(),
                "",
                f"{self._raced()}; {self.spending}",
                *self.notes,
            ]
        )

    def _raced(self) -> str:
        """How many candidates raced, in words."""
        if not self.race:
            return "no candidates raced, because the budget pays for final rows only"
        return f"raced on {self.tuning:,} rows: {len(self.race)} candidates"

    @property
    def spending(self) -> str:
        """Return the cost of the search itself, in words; in money too, if tokens have a price."""
        if self.price is None:
            return self.spent
        return f"{self.spent}, about {self.price.shown(self.price.of_tokens(self.tokens))}"

    def _money(self) -> dict[str, Any] | None:
        """The cost of the search and of each finalist in money, as JSON values; None without a
        price."""
        if self.price is None:
            return None
        return {
            "currency": self.price.currency,
            "spent": self.price.of_tokens(self.tokens),
            "finals": [
                {
                    "label": finalist.label,
                    "price_of_thousand": self.cost(finalist),
                    "price_to_prepare": self.price.of_tokens(finalist.preparing),
                    "beginning_tokens": finalist.usage.beginning,
                }
                for finalist in self.finals
            ],
        }

    def data(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        names = ("task", "metric", "lm", "bank", "tuning", "final", "tokens", "spent", "notes")
        labels = [standing.label for standing in self.finals]
        classifier = None
        if self.classifier is not None:
            classifier = {
                "score": json_value(self.classifier.score.percent()),
                "minus": json_value(self.classifier.minus.percent()),
                "expected_loss": round(100 * self.classifier.loss.expected, 2),
            }
        return {
            **{name: getattr(self, name) for name in names},
            "recommended": self.recommends,
            "prompt": self.recommended.label,
            "advice": self.advice(),
            "finals": [_data(standing) for standing in self.finals],
            "differences": [
                {"better": labels[difference.better], "worse": labels[difference.worse]}
                | json_value(difference.interval.percent())
                | {"p": difference.p, "certain": difference.certain}
                for difference in self.verdict.differences
            ],
            "race": [_data(standing) for standing in self.race],
            "example": self.example and self.example._asdict(),
            "wrong": [row._asdict() for row in self.wrong],
            "expected_losses": self._expected_losses(),
            "money": self._money(),
            "classifier": classifier,
        }

    def _expected_losses(self) -> list[dict[str, Any]]:
        """The expected loss of each finalist against the reference of the verdict, as JSON
        values."""
        reference = self.verdict.reference
        losses = [losses[reference] for losses in self.verdict.losses]
        return [
            {
                "label": finalist.label,
                "against": self.finals[reference].label,
                "points": round(100 * loss.expected, 2),
                "rows": loss.rows,
            }
            for i, (finalist, loss) in enumerate(zip(self.finals, losses, strict=True))
            if i != reference
        ]


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
    return _SHARES[min(_SHARES, key=lambda known: abs(math.log(known / share)))]


def _scored(interval: Interval) -> str:
    score = interval.percent()
    return f"{score.mean:.1f} ({score.low:.1f} to {score.high:.1f})"


def _difference(interval: Interval) -> str:
    """A difference in points, and whether it is certain."""
    points = f"{signed(interval.percent())} points"
    return f"{points}, {'certain' if interval.excludes_zero else 'not certain'}"


def _data(standing: Standing) -> dict[str, Any]:
    candidate = standing.candidate
    return {
        "method": candidate.row.name,
        "shots": candidate.shots,
        "trade_off": candidate.trade_off,
        "encoder": candidate.encoder,
        "label": standing.label,
        "rows": standing.rows,
        "tokens": standing.tokens,
        "remark": standing.remark,
        **({"troubles": dict(standing.troubles)} if standing.troubles else {}),
        **json_value(standing.score.percent()),
    }
