"""`ceil-jax tune`, and the choices with which it is compared."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.lm.messages import text_of
from ceil_jax.methods.row import Row
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.candidates import PLAIN, ZERO, Candidate
from ceil_jax.tuning.outcome import Outcome
from ceil_jax.tuning.without_lm import replies_without_lm
from peers.arena import Arena, Chosen


def zero(arena: Arena) -> Chosen:
    """Choose no examples."""
    return of_candidate(arena, ZERO)


def eight_nearest(arena: Arena) -> Chosen:
    """Choose the eight nearest examples, with which `tune` compares everything."""
    return of_candidate(arena, PLAIN)


def without_lm(arena: Arena, row: Row) -> Chosen:
    """Return the answers of a row that makes no LM calls (`row_without_lm`)."""

    def predictions(queries: Sequence[Example]) -> list[str]:
        replies = replies_without_lm(arena.field, row, queries)
        return [reply.prediction for reply in replies]

    return Chosen(None, 0, row.name, predictions)


def tune(arena: Arena) -> Outcome:
    """Return the outcome of `ceil-jax tune` within the budget."""
    return arena.search().run()


def of_candidate(arena: Arena, candidate: Candidate) -> Chosen:
    """Return the prompts of one of tune's candidates."""

    def prompts(queries: Sequence[Example]) -> list[str]:
        return [*map(text_of, arena.field.enter(candidate, queries).prompts)]

    return Chosen(prompts, candidate.shots, candidate.label)
