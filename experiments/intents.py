"""MTOP's intents as a task with many labels, defined outside the package.

    python experiments/fixed_rows.py --plugin intents --tasks mtop.intents --data-dir DATA

An utterance's label is what the outermost bracket of its logical form is called, in words:
`[IN:GET_WEATHER [SL:LOCATION Paris ] ]` is "get weather". MTOP has 113 of them, a few of them a
hundred times as often as others.
"""

import re
from dataclasses import replace

from ceil_jax import register_task
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.spec import FieldError, Row, text

MTOP = TASKS["mtop"]


def example(id: str, row: Row) -> Example:
    """Return the utterance of a row of MTOP and its intent. A FieldError where the logical form does
    not begin with one."""
    form = text(row, "logical_form")
    intent = re.match(r"\s*\[IN:(\w+)", form)
    if intent is None:
        raise FieldError("logical_form", "[IN:NAME …", form)
    return Example(id, text(row, "question").strip(), intent[1].replace("_", " ").lower())


register_task(
    replace(MTOP, name="mtop.intents", example=example, paper={}, note="the intents of MTOP")
)
