"""The outcome of a search as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.report.table import Number, Table, Value, json_value, signed
from ceil_jax.tuning.candidates import ZERO, Candidate
from ceil_jax.tuning.verdict import Verdict


class Standing(NamedTuple):
    """A candidate in the race or on the final rows."""

    candidate: Candidate
    score: Interval
    """The metric on the rows that it answered, with a 95 % interval; too high for the winner on the
    tuning rows."""
    rows: int
    tokens: float
    remark: str
    """How the race ended for it, or why it is a finalist."""

    @property
    def label(self) -> str:
        return self.candidate.label


class Alone(NamedTuple):
    """A classifier that the bank's labels trained, which asks no LM."""

    score: Interval
    minus: Interval
    """Its score minus that of the recommended prompt, on the same rows."""


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

    @property
    def recommended(self) -> Standing:
        """The cheapest that is not certainly worse."""
        return self.finals[self.verdict.recommended]

    def finals_table(self) -> Table:
        table = _table("prompt", self.finals)
        rows = [*table.rows]
        if self.alone is not None:
            score = self.alone.score.percent()
            rows.append(["classifier alone", score.mean, score, self.final, 0, "asks no LM"])
        marks = ["recommended" if i == self.verdict.recommended else None for i in range(len(rows))]
        return Table(table.header, rows).with_column("", marks)

    def race_table(self) -> Table:
        return _table("candidate", self.race)

    def differences(self) -> list[str]:
        """Return a sentence for each pair of finalists."""
        return [
            f"{self.finals[one.better].label} − {self.finals[one.worse].label}: "
            f"{signed(one.interval.percent())} points, "
            + ("certain" if one.certain else f"not certain (p = {one.p:.2f})")
            for one in self.verdict.differences
        ]

    def advice(self) -> list[str]:
        """Return what to do, in sentences."""
        verdict, place, best = self.verdict, self.verdict.recommended, self.recommended
        score = best.score.percent()
        said = [
            f"Recommended: {best.label}, {score.mean:.1f} ({score.low:.1f} to {score.high:.1f}) "
            f"with {best.tokens:,.0f} tokens a prompt."
        ]
        zero = next(i for i, one in enumerate(self.finals) if one.candidate == ZERO)
        if not any(verdict.certainly_better(i, zero) for i in range(len(self.finals))):
            said.append(
                "Nothing helps for certain: no choice of examples is certainly better than zero "
                "examples."
            )
        elif verdict.certainly_better(place, zero):
            said.append("It is certainly better than zero examples.")
        if place != 0:
            winner = self.finals[0]
            loss = winner.score.percent().mean - score.mean
            said.append(
                f"The winner of the race, {winner.label}, took {winner.tokens - best.tokens:,.0f} "
                f"tokens more and was {abs(loss):.1f} points {'better' if loss > 0 else 'worse'} "
                "here, which is not certain."
            )
        if self.alone is not None:
            sure = (
                "certain"
                if max(self.alone.minus.low, -self.alone.minus.high) > 0
                else "not certain"
            )
            said.append(
                "A classifier of the bank's labels alone, without an LM, against the recommended "
                f"prompt: {signed(self.alone.minus.percent())} points, {sure}."
            )
        return said

    def text(self) -> str:
        """Return the outcome for a terminal."""
        return "\n".join(
            [
                f"{self.task}: {self.metric} in percent on {self.final:,} final rows, {self.lm}",
                *("", self.finals_table().text(), "", *self.differences(), "", *self.advice()),
                *("", f"raced on {self.tuning:,} rows: {len(self.race)} candidates; {self.spent}"),
                *self.notes,
            ]
        )

    def data(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        names = ("task", "metric", "lm", "bank", "tuning", "final", "tokens", "spent", "notes")
        labels = [one.label for one in self.finals]
        return {
            **{name: getattr(self, name) for name in names},
            "recommended": self.recommended.label,
            "advice": self.advice(),
            "finals": [_data(one) for one in self.finals],
            "differences": [
                {"better": labels[one.better], "worse": labels[one.worse]}
                | json_value(one.interval.percent())
                | {"p": one.p, "certain": one.certain}
                for one in self.verdict.differences
            ],
            "race": [_data(one) for one in self.race],
            "classifier": self.alone
            and {name: json_value(one.percent()) for name, one in self.alone._asdict().items()},
        }


def _table(named: str, standings: Sequence[Standing]) -> Table:
    rows: list[list[Value]] = [
        [one.label, score.mean, score, one.rows, Number(one.tokens, 0), one.remark]
        for one in standings
        for score in [one.score.percent()]
    ]
    return Table([named, "score", "95 % interval", "rows", "tokens a prompt", "is"], rows)


def _data(one: Standing) -> dict[str, Any]:
    own = {"label": one.label, "rows": one.rows, "tokens": one.tokens, "remark": one.remark}
    return vars(one.candidate) | own | json_value(one.score.percent())
