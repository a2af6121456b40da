"""When the outputs of a bank are labels: a few texts that many examples share."""

from __future__ import annotations

from collections.abc import Sequence

from ceil_jax.tasks.example import Example

ROWS_PER_LABEL = 5
"""Examples that a label has at least, in the mean. Where outputs are written freely there are one
to three examples for each: 1.0 on COGS, 2.4 on the length split of GeoQuery."""

MOST_LABELS = 200
"""More different outputs than that are not labels, however many examples there are."""


def labels_of(bank: Sequence[Example]) -> tuple[str, ...]:
    """Return the labels that a bank's outputs are, sorted; () where they are none.

    Outputs are labels where all examples choose among the same options. Without options they are
    labels where there are at least two and at most MOST_LABELS different ones, each shared by
    ROWS_PER_LABEL examples or more in the mean. The metric plays no part.

    >>> films = [Example(str(i), f"film {i}", ("good", "bad")[i % 2]) for i in range(10)]
    >>> labels_of(films), labels_of(films[:4])
    (('bad', 'good'), ())
    """
    outputs = tuple(sorted({example.output.strip() for example in bank}))
    options = {example.choices for example in bank}
    if options != {()}:
        return outputs if len(options) == 1 else ()
    return outputs if are_labels(len(outputs), len(bank)) else ()


def are_labels(distinct: int, rows: int) -> bool:
    """Return whether so many different texts in so many rows are labels."""
    return 2 <= distinct <= min(MOST_LABELS, rows // ROWS_PER_LABEL)
