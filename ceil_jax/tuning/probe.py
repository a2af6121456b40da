"""A look at the costs before a search: the tokens of its prompts, and the speeds of the LM and the
encoder."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.methods.free import no_labels
from ceil_jax.methods.registry import RANDOM_ROW
from ceil_jax.tasks.example import Example
from ceil_jax.tuning.candidates import PLAIN, ZERO, Candidate
from ceil_jax.tuning.field import Field
from ceil_jax.tuning.fitting import Costs

_WARM = 2
"""Rows that the LM answers before its speed is measured: the first prompts pay for its start."""

_PROBE = 6
"""Rows that measure its speed, without examples and with random ones."""


def measured_costs(
    field: Field, ks: Sequence[int], tuning: Sequence[Example], held_out: Sequence[Example]
) -> Costs:
    """Return what prompts and texts cost here. The LM answers a few of the tuning rows.

    Args:
        field: asks the LM, and counts its tokens.
        ks: the numbers of examples that are searched.
        tuning: the rows to race on.
        held_out: the final rows, whose texts would be encoded; the LM does not answer them.
    """
    shots = [k for k in {*ks, PLAIN.shots} if k < len(field.task.train)]
    zero = field.enter(ZERO, tuning)
    random = {k: field.enter(Candidate(RANDOM_ROW, k), tuning) for k in shots}
    what = "the LM's speed"
    field.answer([zero], tuning, slice(0, _WARM), what, least=_WARM, measured=False)
    middle = ks[len(ks) // 2]
    field.answer([zero, random[middle]], tuning, slice(_WARM, _WARM + _PROBE), what, least=1)
    return Costs(
        zero=float(zero.tokens.mean()),
        tokens={k: float(entrant.tokens.mean()) for k, entrant in random.items()},
        pace=field.budget.pace,
        encoding=field.encoding([*tuning, *held_out]),
        classifies=not no_labels(field.task),
    )
