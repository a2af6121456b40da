"""The outcome of a search: its numbers, as text for a terminal and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ceil_jax.lm.messages import Rendered
from ceil_jax.report.table import json_value
from ceil_jax.tuning.advice import advice, differences
from ceil_jax.tuning.finals import Finals, ThenLM, WithoutLM
from ceil_jax.tuning.finals_table import finals_table
from ceil_jax.tuning.standing import Standing


class ShownRow(NamedTuple):
    """A final row with the recommended prompt and the LM's answer."""

    query: str
    prompt: Rendered
    answer: str
    gold: str
    right: bool


@dataclass(frozen=True)
class Outcome:
    """The outcome of a search."""

    task: str
    metric: str
    lm: str
    bank_rows: int
    tuning_rows: int
    """The number of rows that the race could use."""
    race: tuple[Standing, ...]
    """The candidates of the race; those that stayed to the end come first, the best one at the top."""
    finals: Finals
    spent: str
    """The part of the budget that was spent, in words."""
    tokens: int
    """The LM tokens that were spent."""
    notes: tuple[str, ...] = ()
    example: ShownRow | None = None
    """The first of the final rows."""
    wrong: tuple[ShownRow, ...] = ()
    """The first final rows that the recommended prompt answers wrongly."""

    @property
    def recommended(self) -> Standing:
        """The recommended prompt, with its result on the final rows."""
        return self.finals.recommended

    @property
    def spending(self) -> str:
        """The cost of the search itself, in words; in money too, if tokens have a price."""
        price = self.finals.price
        if price is None:
            return self.spent
        return f"{self.spent}, about {price.shown(price.of_tokens(self.tokens))}"

    def text(self) -> str:
        """Return the outcome for a terminal."""
        return "\n".join(
            [
                *advice(self.finals),
                "",
                f"{self.task}: {self.metric} in percent on {self.finals.rows:,} final rows, "
                f"{self.lm}",
                "",
                finals_table(self.finals).text(),
                "",
                *differences(self.finals),
                "",
                f"{self._raced()}; {self.spending}",
                *self.notes,
            ]
        )

    def _raced(self) -> str:
        """The number of candidates in the race, in words."""
        if not self.race:
            return "no race, because the budget pays for the final rows only"
        return f"{len(self.race)} candidates in the race, on up to {self.tuning_rows:,} rows"

    def data(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        finals = self.finals
        labels = [standing.label for standing in finals.standings]
        return {
            "task": self.task,
            "metric": self.metric,
            "lm": self.lm,
            "bank": self.bank_rows,
            "tuning": self.tuning_rows,
            "final": finals.rows,
            "tokens": self.tokens,
            "spent": self.spent,
            "notes": self.notes,
            "recommended": finals.label,
            "prompt": finals.recommended.label,
            "advice": advice(finals),
            "finals": [_standing(standing) for standing in finals.standings],
            "differences": [
                {"better": labels[test.better], "worse": labels[test.worse]}
                | json_value(test.interval.percent())
                | {"p": test.p, "significant": test.significant}
                for test in finals.verdict.differences
            ],
            "race": [_standing(standing) for standing in self.race],
            "example": None if self.example is None else self.example._asdict(),
            "wrong": [row._asdict() for row in self.wrong],
            "expected_losses": _expected_losses(finals),
            "money": self._money(),
            "without_lm": _without_lm(finals),
        }

    def _money(self) -> dict[str, Any] | None:
        """The cost of the search and of each finalist in money; None without a price."""
        price = self.finals.price
        if price is None:
            return None
        return {
            "currency": price.currency,
            "spent": price.of_tokens(self.tokens),
            "finals": [
                {
                    "label": standing.label,
                    "price_of_thousand": self.finals.cost(standing),
                    "price_to_prepare": price.of_tokens(standing.preparing),
                    "beginning_tokens": standing.usage.beginning,
                }
                for standing in self.finals.standings
            ],
        }


def _standing(standing: Standing) -> dict[str, Any]:
    """A candidate with its result."""
    candidate = standing.candidate
    values = {
        "method": candidate.row.name,
        "shots": candidate.shots,
        "trade_off": candidate.trade_off,
        "encoder": candidate.encoder,
        "label": standing.label,
        "rows": standing.rows,
        "tokens": standing.tokens,
        "remark": standing.remark,
    }
    if standing.troubles:
        values["troubles"] = dict(standing.troubles)
    return values | json_value(standing.score.percent())


def _expected_losses(finals: Finals) -> list[dict[str, Any]]:
    """The expected loss of each finalist against the reference of the verdict."""
    reference = finals.verdict.reference
    losses = [losses[reference] for losses in finals.verdict.losses]
    return [
        {
            "label": standing.label,
            "against": finals.standings[reference].label,
            "points": round(100 * loss.expected, 2),
            "rows": loss.rows,
        }
        for i, (standing, loss) in enumerate(zip(finals.standings, losses, strict=True))
        if i != reference
    ]


def _without_lm(finals: Finals) -> dict[str, Any] | None:
    """The result of the answers without an LM; None without any."""
    result = finals.without_lm
    if result is None:
        return None
    values = _result(result)
    if result.then_lm is not None:
        both = result.then_lm
        values["then_lm"] = {
            **_result(both),
            "threshold": both.threshold,
            "share_to_lm": round(both.share, 4),
        }
    return values


def _result(result: WithoutLM | ThenLM) -> dict[str, Any]:
    return {
        "label": result.label,
        "score": json_value(result.score.percent()),
        "minus": json_value(result.minus.percent()),
        "expected_loss": round(100 * result.loss.expected, 2),
    }
