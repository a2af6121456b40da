"""`ceil-jax tune`, and what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.views import Examples
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.candidates import PLAIN, ZERO, Candidate
from ceil_jax.tuning.outcome import Outcome
from peers.arena import Arena, Chosen


def zero(arena: Arena) -> Chosen:
    """No examples."""
    return of_candidate(arena, ZERO)


def eight_nearest(arena: Arena) -> Chosen:
    """The eight nearest examples, with which `tune` compares everything."""
    return of_candidate(arena, PLAIN)


def classifier(arena: Arena) -> Chosen:
    """A classifier that the bank's labels trained; no LM."""

    def predictions(queries: Sequence[Example]) -> list[str]:
        base = arena.field.base
        stage = row_stages.predictions(base, base.row("classifier"), Examples(queries))
        return [row["prediction"] for row in arena.field.run.get(stage)]

    return Chosen(None, 0, "classifier", predictions)


def tune(arena: Arena) -> Outcome:
    """Return the outcome of `ceil-jax tune` within the budget."""
    return arena.search().run()


def of_candidate(arena: Arena, candidate: Candidate) -> Chosen:
    """Return the prompts of one of tune's candidates."""

    def prompts(queries: Sequence[Example]) -> list[str]:
        return arena.field.enter(candidate, queries).prompts

    return Chosen(prompts, candidate.shots, candidate.label)
