"""Views of a run's examples with the retrieval text as `input`.

The input itself, the output, input and output, or a part. Those with skills are in `rewriting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ceil_jax.store.kept import Lazy, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example, context_text
from ceil_jax.training.free.encoder import check_pairs

Texts = Lazy[Sequence[Example]]
"""Examples whose `input` is the retrieval text, as returned by a function below or in `rewriting`."""


@kept("inputs")
def inputs(rows: Examples) -> Sequence[Example]:
    """Return the examples themselves: their inputs are the retrieval texts."""
    return rows.examples


@kept("withoutputs")
def with_outputs(view: Sequence[Example]) -> Sequence[Example]:
    """Return the examples with their output after the input."""
    return [replace(example, input=context_text(example, "example")) for example in view]


@kept("outputs")
def outputs(rows: Examples) -> Sequence[Example]:
    """Return the examples with their output in place of the input."""
    return [replace(example, input=example.output) for example in rows.examples]


@kept("parts")
def parts(view: Sequence[Example]) -> Sequence[Example]:
    """Return an example for each of the two texts of every example's input, in order."""
    check_pairs(view)
    return [replace(example, input=text) for example in view for text in example.texts]


def source(view: Texts) -> Examples:
    """Return the task's examples that retrieval texts were made from."""
    given = view.given
    if "view" in given:
        return source(given["view"])
    return given["rows"] if "rows" in given else source(given["skills"][0])
