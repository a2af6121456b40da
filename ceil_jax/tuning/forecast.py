"""The forecast of a search: the largest one that the budget pays for, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.pipeline.plan import duration
from ceil_jax.tuning.budget import Budget
from ceil_jax.tuning.candidates import candidates
from ceil_jax.tuning.extent import Extent
from ceil_jax.tuning.fitting import ROUNDS, Costs, Need, largest


class Forecast(NamedTuple):
    """The search that is planned, and the forecast of its cost."""

    whole: Extent
    """The search without any cut."""
    extent: Extent
    """The search that is planned."""
    text: str
    """Speed, sizes, tokens and minutes, in one line."""
    flags: str
    """The budget, as flags."""
    all_of_it: str
    """The flags of a budget that would pay for the whole search; "" if this one would by now, as
    where texts were left out and the rest was encoded faster than expected."""
    fits: bool = True
    """Whether the budget pays for `extent`; if not, `extent` is the smallest search."""

    @property
    def cut(self) -> str:
        """A line on what was cut to fit the budget, and on the budget of the whole; "" if nothing
        was cut."""
        return self.cut_after(self.extent.final)

    def cut_after(self, final: int) -> str:
        """Return the line `cut` as it is after `final` final rows have been answered."""
        parts = replace(self.extent, final=final).cut_from(self.whole)
        whole = f" (for all of it: {self.all_of_it})" if self.all_of_it else ""
        return f"cut to fit {self.flags}: {parts}{whole}" if parts else ""


def forecast_of(
    whole: Extent,
    available: Extent,
    costs: Costs,
    budget: Budget,
    *,
    lm: str,
    joining: Sequence[str] = (),
) -> Forecast:
    """Return the largest search that what is left of a budget pays for.

    Args:
        whole: the search without any cut.
        available: the same with the rows that there is time to encode.
        costs: the costs of its parts, measured.
        budget: the tokens and minutes.
        lm: the name of the LM.
        joining: the names of the methods that join after the race if what it leaves pays for them.
            Their cost is not in the forecast.
    """
    tokens = budget.tokens_left()
    seconds = budget.seconds_left
    extent = largest(available, costs, tokens, seconds)
    need = costs.need(extent)
    need_of_whole = costs.need(whole)
    all_of_it = budget.needed(need_of_whole.tokens, need_of_whole.seconds)
    return Forecast(
        whole,
        extent,
        text=f"forecast: {lm} {_expected(extent, costs, need, budget)}{_later(extent, whole, joining)}",
        flags=budget.flags(),
        all_of_it="" if need_of_whole.within(tokens, seconds) else all_of_it,
        fits=need.within(tokens, seconds),
    )


def _expected(extent: Extent, costs: Costs, need: Need, budget: Budget) -> str:
    """The speed of the LM, and the tokens and time that a search may take, in words."""
    speed = f"{1 / costs.pace:,.0f}" if costs.pace else "too many to measure"
    # the race goes on until rows or budget are spent
    most = need.tokens * extent.tuning / max(1.0, ROUNDS * extent.first)
    tokens = min(max(need.tokens, most), max(need.tokens, budget.tokens_left()))
    seconds = tokens * costs.pace + need.encoding
    if budget.minutes is not None:
        seconds = min(seconds, max(need.seconds, budget.seconds_left))
        tokens = (seconds - need.encoding) / costs.pace if costs.pace else tokens
    race = "no race; "
    if extent.first:
        number = len(candidates(extent))
        race = f"{number} prompts race on up to {extent.tuning} rows, then "
    encoding = ""
    if need.encoding >= 5:
        encoding = f", {duration(need.encoding)} of it for encoding"
    return (
        f"reads about {speed} tokens a second; {race}the best ones answer {extent.final} final "
        f"rows: at most about {float(f'{tokens:.2g}'):,.0f} LM tokens and {duration(seconds)}"
        f"{encoding}"
    )


def _later(extent: Extent, whole: Extent, joining: Sequence[str]) -> str:
    """What the forecast leaves out, in words: the work that the rest of the budget may pay for."""
    methods = list(joining) if extent.first else []
    rows = ["further final rows"] if extent.final < whole.final else []
    later = " and ".join(filter(None, (", ".join(methods), *rows)))
    return f"; what is left of the budget may pay for {later}" if later else ""
