"""The outcome of a search as tables, sentences and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ceil_jax.metrics.bootstrap import Interval
from ceil_jax.racing.race import State
from ceil_jax.racing.verdict import Verdict
from ceil_jax.report.table import Number, Span, Table, Value, signed
from ceil_jax.tuning.candidates import Candidate

STATES: dict[State, str] = {
    "racing": "stayed to the end",
    "worse": "clearly worse",
    "aside": "set aside for the budget",
}


class Runner(NamedTuple):
    """A candidate in the race."""

    candidate: Candidate
    label: str
    score: Interval
    """Score on the tuning rows that it answered, with a 95 % interval; too high for the winner, which won by it."""
    rows: int
    tokens: float
    """Mean LM tokens of its prompts."""
    state: State


class Finished(NamedTuple):
    """A candidate on the final rows."""

    candidate: Candidate
    label: str
    roles: tuple[str, ...]
    """Why it is there: "winner", "cheapest within noise", "plain top-k", "zero examples"."""
    tokens: float
    """Mean LM tokens of its prompts."""
    score: Interval
    """The metric with its 95 % interval."""


class Alone(NamedTuple):
    """A classifier that the bank's labels trained, which asks no LM."""

    score: Interval
    """The metric on the final rows."""
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
    runners: tuple[Runner, ...]
    """All candidates, the best of those that stayed first."""
    finals: tuple[Finished, ...]
    """The winner first."""
    verdict: Verdict
    spent: str
    """The part of the budget that was spent, in words."""
    tokens: int
    """LM tokens spent."""
    notes: tuple[str, ...] = ()
    """Remarks for a reader of the numbers."""
    alone: Alone | None = None
    """The classifier, where the task has labels."""

    @property
    def winner(self) -> Finished:
        """The winner of the race."""
        return self.finals[0]

    @property
    def recommended(self) -> Finished:
        """The cheapest that is not certainly worse."""
        return self.finals[self.verdict.recommended]

    def table(self) -> Table:
        """Return the final rows as a table."""
        rows: list[list[Value]] = [
            [
                *(one.label, ", ".join(one.roles), one.score.percent().mean, Span(one.score.percent())),
                *(Number(one.tokens, 0), "recommended" if one is self.recommended else ""),
            ]
            for one in self.finals
        ]
        if self.alone is not None:
            score = self.alone.score.percent()
            rows.append(["classifier alone", "asks no LM", score.mean, Span(score), 0, ""])
        return Table(["prompt", "is", "score", "95 % interval", "tokens a prompt", ""], rows)

    def race_table(self) -> Table:
        """Return the race as a table."""
        rows: list[list[Value]] = [
            [
                *(one.label, one.score.percent().mean, Span(one.score.percent()), one.rows),
                *(Number(one.tokens, 0), STATES[one.state]),
            ]
            for one in self.runners
        ]
        return Table(["candidate", "score", "95 % interval", "rows", "tokens a prompt", ""], rows)

    def differences(self) -> list[str]:
        """Return a sentence for each pair of finalists."""
        lines = []
        for one in self.verdict.differences:
            sure = "certain" if one.certain else f"not certain (p = {one.p:.2f})"
            names = f"{self.finals[one.better].label} − {self.finals[one.worse].label}"
            lines.append(f"{names}: {signed(one.interval.percent())} points, {sure}")
        return lines

    def advice(self) -> list[str]:
        """Return what to do, in sentences."""
        verdict, place = self.verdict, self.verdict.recommended
        scores = [score.percent() for score in verdict.scores]
        said = [
            f"Recommended: {self.recommended.label}, {scores[place].mean:.1f} "
            f"({scores[place].low:.1f} to {scores[place].high:.1f}) with {self.recommended.tokens:,.0f} tokens a "
            "prompt."
        ]
        zero = next((i for i, one in enumerate(self.finals) if not one.candidate.shots), None)
        top = next((i for i, one in enumerate(self.finals) if "plain top-k" in one.roles), None)
        if zero is not None and not any(verdict.certainly_better(i, zero) for i in range(len(scores))):
            said.append(
                "Nothing helps for certain: no choice of examples is certainly better than zero examples."
            )
        elif zero is not None and verdict.certainly_better(place, zero):
            said.append("It is certainly better than zero examples.")
        if top is not None and top != place:
            sure = "certainly" if verdict.certainly_better(place, top) else "not certainly"
            said.append(
                f"It is {sure} better than plain top-k, which takes {self.finals[top].tokens:,.0f} tokens a prompt."
            )
        if place != 0:
            loss = scores[0].mean - scores[place].mean
            dearer = self.winner.tokens - self.recommended.tokens
            said.append(
                f"The winner of the race, {self.winner.label}, took {dearer:,.0f} tokens more and was "
                f"{abs(loss):.1f} points {'better' if loss > 0 else 'worse'} here, which is not certain."
            )
        if self.alone is not None:
            sure = "certain" if max(self.alone.minus.low, -self.alone.minus.high) > 0 else "not certain"
            said.append(
                "A classifier of the bank's labels alone, without an LM, against the recommended prompt: "
                f"{signed(self.alone.minus.percent())} points, {sure}."
            )
        return said

    def text(self) -> str:
        """Return the outcome for a terminal."""
        return "\n".join(
            [
                f"{self.task}: {self.metric} in percent on {self.final:,} final rows, {self.lm}",
                *("", self.table().text(), "", *self.differences(), "", *self.advice()),
                *("", f"raced on {self.tuning:,} rows: {len(self.runners)} candidates; {self.spent}"),
                *self.notes,
            ]
        )

    def data(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        names = ("task", "metric", "lm", "bank", "tuning", "final", "tokens", "spent")
        return {
            **{name: getattr(self, name) for name in names},
            "notes": list(self.notes),
            "recommended": self.recommended.label,
            "advice": self.advice(),
            "finals": [_data(one) for one in self.finals],
            "differences": [
                {
                    "better": self.finals[one.better].label,
                    "worse": self.finals[one.worse].label,
                    **_percent(one.interval),
                    "p": one.p,
                    "certain": one.certain,
                }
                for one in self.verdict.differences
            ],
            "race": [_data(one) for one in self.runners],
            "classifier": self.alone and {n: _percent(one) for n, one in self.alone._asdict().items()},
        }


def _data(one: Finished | Runner) -> dict[str, Any]:
    fields = one._asdict()
    return {**vars(fields.pop("candidate")), **fields, **_percent(fields.pop("score"))}


def _percent(interval: Interval) -> dict[str, float]:
    value, low, high = interval.percent()
    return {"value": value, "low": low, "high": high}
