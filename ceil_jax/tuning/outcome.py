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
"""The row of the classifier in tables."""

_HEADER = ["prompt", "score", "95 % interval", "rows", "tokens a prompt", "is"]


class Standing(NamedTuple):
    """A candidate in the race or on the final rows."""

    candidate: Candidate
    score: Interval
    """The metric on the rows that it answered, with a 95 % interval; too high for the winner on the
    tuning rows."""
    rows: int
    usage: Usage
    """The tokens of a query."""
    preparing: int
    """LM tokens that preparing it took."""
    remark: str
    """A remark on how the race ended for it, or on why it is a finalist."""
    troubles: Mapping[str, int] = {}
    """The number of the LM's answers that can hardly be right, by trouble (`pipeline.ways`)."""

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def tokens(self) -> float:
        """The mean tokens of a prompt."""
        return self.usage.prompt


class Shown(NamedTuple):
    """A final row with the recommended prompt and what came of it."""

    query: str
    prompt: str
    answer: str
    gold: str
    right: bool


class Alone(NamedTuple):
    """A classifier that the bank's labels trained, which asks no LM."""

    score: Interval
    minus: Interval
    """Its score minus that of the recommended prompt, on the same rows."""
    loss: Loss
    """What taking it in place of the recommended prompt may lose."""


@dataclass(frozen=True)
class Outcome:
    """The end of a search."""

    task: str
    metric: str
    lm: str
    bank: int
    tuning: int
    final: int
    """Rows of each kind that were used."""
    race: tuple[Standing, ...]
    """All candidates, the best of those that stayed first."""
    finals: tuple[Standing, ...]
    """The winner first."""
    verdict: Verdict
    spent: str
    """The part of the budget that was spent, in words."""
    tokens: int
    notes: tuple[str, ...] = ()
    alone: Alone | None = None
    """The classifier, where the task has labels."""
    example: Shown | None = None
    """The first final row, with the recommended prompt."""
    wrong: tuple[Shown, ...] = ()
    """The first final rows that the recommended prompt answers wrongly."""
    tolerance: float = 2.0
    """Points that taking what is cheaper may be expected to lose."""
    price: Price | None = None
    """The price of the LM's tokens; None where money is not shown."""

    @property
    def recommended(self) -> Standing:
        """The cheapest prompt that does as well as the winner."""
        return self.finals[self.verdict.recommended]

    @property
    def classifier_does_as_well(self) -> bool:
        """Whether the classifier, which asks no LM, is not certainly worse than the recommended
        prompt, and the expected loss of taking it is at most the tolerance."""
        if self.alone is None:
            return False
        minus = self.alone.minus.percent()
        as_well = 100 * self.alone.loss.expected <= self.tolerance
        return as_well and not (minus.low < minus.high < 0)

    @property
    def recommends(self) -> str:
        """The label of what is recommended: a prompt, or the classifier."""
        return CLASSIFIER if self.classifier_does_as_well else self.recommended.label

    def finals_table(self) -> Table:
        """Return what answered the final rows, the recommended first; a column counts each kind of
        trouble with the LM's answers that there was."""
        standings = sorted(self.finals, key=lambda standing: standing is not self.recommended)
        table = self._table("prompt", standings)
        rows = [list(row) for row in table.rows]
        header = list(table.header)
        counted = len(header)
        for trouble, column in TROUBLE_COLUMNS.items():
            counts = [standing.troubles.get(trouble) for standing in standings]
            if any(counts):
                header.insert(-1, column)
                for row, count in zip(rows, counts, strict=True):
                    row.insert(-1, count)
        if self.alone is not None:
            score = self.alone.score.percent()
            free = [0] * (counted - len(_HEADER))
            nothing = [None] * (len(header) - counted)
            alone: list[Value] = [CLASSIFIER, score.mean, score, self.final, 0]
            alone += [*free, *nothing, "asks no LM"]
            rows.insert(0 if self.classifier_does_as_well else len(rows), alone)
        rows[0] = [*rows[0][:-1], ", ".join(filter(None, ("recommended", str(rows[0][-1]))))]
        return Table(header, rows)

    def race_table(self) -> Table:
        return self._table("candidate", self.race)

    def _table(self, named: str, standings: Sequence[Standing]) -> Table:
        """A row for each of some candidates, with money where there is a price."""
        rows: list[list[Value]] = [
            [
                standing.label,
                score.mean,
                score,
                standing.rows,
                Number(standing.tokens, 0),
                standing.remark,
            ]
            for standing in standings
            for score in [standing.score.percent()]
        ]
        header = [named, *_HEADER[1:]]
        if self.price is not None:
            header[-1:-1] = money_columns(self.price)
            asking = [self.price.of_queries(standing.usage) for standing in standings]
            preparing = [self.price.of_tokens(standing.preparing) for standing in standings]
            cells_of_money = zip(money_cells(asking), money_cells(preparing), strict=True)
            for row, cells in zip(rows, cells_of_money, strict=True):
                row[-1:-1] = cells
        return Table(header, rows)

    def cost(self, standing: Standing) -> float:
        """Return the cost of queries with a prompt: the money for a thousand where tokens have a
        price, else the tokens of its prompt."""
        if self.price is None:
            return standing.tokens
        return self.price.of_queries(standing.usage)

    def cost_in_words(self, standing: Standing) -> str:
        """Return what a prompt costs in words: its tokens and, where these have a price, money."""
        tokens = f"{standing.tokens:,.0f} tokens a prompt"
        if self.price is None:
            return tokens
        return f"{tokens}, {self.price.shown(self.cost(standing))} a thousand queries"

    def saving(self, cheap: Standing, dear: Standing) -> str:
        """Return how much less a prompt costs than another, in words: a share where it is at most
        three quarters, else the difference; "" where it does not cost less."""
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
        """Return what to do, in sentences: the first says what is recommended and why."""
        verdict, recommended, best = self.verdict, self.verdict.recommended, self.recommended
        zero = next(i for i, standing in enumerate(self.finals) if standing.candidate == ZERO)
        helped = any(verdict.certainly_better(i, zero) for i in range(len(self.finals)))
        winner = self.finals[0]
        loss = winner.score.percent().mean - best.score.percent().mean
        sentences = []
        if self.alone is not None and self.classifier_does_as_well:
            sentences += [
                "Recommended: a classifier alone does as well and asks no LM: trained on the "
                f"bank's labels it has {_scored(self.alone.score)}.",
                f"The best prompt is {best.label}, {_scored(best.score)} with "
                f"{self.cost_in_words(best)}; the classifier less the prompt is "
                f"{signed(self.alone.minus.percent())} points, "
                f"{_sure(self.alone.minus)}.",
            ]
        elif best.candidate == ZERO:
            sentences.append(
                f"Recommended: zero examples do as well, {_scored(best.score)} with "
                f"{self.cost_in_words(best)}: no examples that were tried do better for certain."
            )
        else:
            sentences.append(
                f"Recommended: {best.label}, {_scored(best.score)} with {self.cost_in_words(best)}"
                f"{self._worth()}."
            )
        if verdict.certainly_better(recommended, zero):
            sentences.append(f"{best.label} is certainly better than zero examples.")
        elif not helped and best.candidate != ZERO:
            sentences.append(
                "Nothing helps for certain: no choice of examples is certainly better than zero "
                "examples."
            )
        sentences += self._undecided()
        overtaken = recommended != 0 and not verdict.certainly_worse(0)
        if overtaken and abs(loss) > self.tolerance:
            sentences.append(
                f"The winner of the race, {winner.label}, took {self._more(winner, best)} more and was "
                f"{abs(loss):.1f} points {'better' if loss > 0 else 'worse'} here, which is not "
                "certain."
            )
        if self.alone is not None and not self.classifier_does_as_well:
            sentences.append(
                "A classifier of the bank's labels alone, without an LM, less the recommended "
                f"prompt: {signed(self.alone.minus.percent())} points, {_sure(self.alone.minus)}."
            )
        return sentences

    def _worth(self) -> str:
        """What the recommended prompt saves against the winner of the race, or where it is the
        winner against plain top-k, if it does as well; "" for nothing."""
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
        few rows; none where there is none, or where no number of rows would be enough."""
        if self.tolerance == 0:
            return []
        best = self.recommended
        open_questions = [
            (self.cost(finalist), finalist, losses[self.verdict.recommended])
            for i, (finalist, losses) in enumerate(
                zip(self.finals, self.verdict.losses, strict=True)
            )
            if self.saving(finalist, best) and not self.verdict.certainly_worse(i)
        ]
        for _, finalist, loss in sorted(open_questions, key=lambda question: question[0]):
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
        """How much more a prompt costs than a cheaper one, in tokens or money."""
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
                *("", self.finals_table().text(), "", *self.differences()),
                "",
                f"raced on {self.tuning:,} rows: {len(self.race)} candidates; {self.spending}",
                *self.notes,
            ]
        )

    @property
    def spending(self) -> str:
        """What the search itself took, in words; in money too, where there is a price."""
        if self.price is None:
            return self.spent
        return f"{self.spent}, about {self.price.shown(self.price.of_tokens(self.tokens))}"

    def _money(self) -> dict[str, Any] | None:
        """What the search and each finalist cost, as JSON values; None without a price."""
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
            "wrong": [answered_row._asdict() for answered_row in self.wrong],
            "expected_losses": self._expected_losses(),
            "money": self._money(),
            "classifier": self.alone
            and {
                "score": json_value(self.alone.score.percent()),
                "minus": json_value(self.alone.minus.percent()),
                "expected_loss": round(100 * self.alone.loss.expected, 2),
            },
        }

    def _expected_losses(self) -> list[dict[str, Any]]:
        """What taking each finalist in place of the one that they are measured against may lose, as
        JSON values."""
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


def _sure(difference: Interval) -> str:
    """Return "certain" where an interval excludes 0 and has a width, else "not certain"."""
    _, low, high = difference
    return "certain" if low < high and (low > 0 or high < 0) else "not certain"


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
