"""The detection of labels: whether the outputs of a bank are a few texts that many examples share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ceil_jax.tasks.example import Example

ROWS_PER_LABEL = 5
"""The average number of examples that must share an output for outputs to count as labels.
Free-form outputs are shared by one to three: 1.0 on COGS, 2.4 on the length split of GeoQuery."""

MOST_LABELS = 200
"""The maximum number of distinct outputs that count as labels, however many examples there are."""


def labels_of(bank: Sequence[Example]) -> tuple[str, ...]:
    """Return the distinct labels of a bank, sorted; () if its outputs are not labels.

    Outputs are labels if all examples have the same choices. Without choices, they are labels if
    there are 2 to MOST_LABELS distinct ones, each shared by ROWS_PER_LABEL examples on average. The
    metric plays no part.

    >>> films = [Example(str(i), f"film {i}", ("good", "bad")[i % 2]) for i in range(10)]
    >>> labels_of(films), labels_of(films[:4])
    (('bad', 'good'), ())
    """
    outputs = tuple(sorted({example.output.strip() for example in bank}))
    options = {example.choices for example in bank}
    has_choices = options != {()}
    if has_choices:
        return outputs if len(options) == 1 else ()
    return outputs if are_labels(len(outputs), len(bank)) else ()


def shared_choices(examples: Iterable[Example]) -> tuple[str, ...]:
    """Return the choices that all examples have; () if some have others, or none."""
    options = {example.choices for example in examples}
    return options.pop() if len(options) == 1 else ()


def label_names(bank: Iterable[Example]) -> tuple[str, ...]:
    """Return the sorted labels of a bank whose outputs are labels.

    Its outputs, and the choices that are the output of none of its examples.

    >>> label_names([Example("1", "a dull film", "bad", choices=("bad", "good"))])
    ('bad', 'good')
    """
    return tuple(sorted({text.strip() for row in bank for text in (row.output, *row.choices)}))


def are_labels(distinct: int, rows: int) -> bool:
    """Return whether this number of distinct texts in this number of rows makes them labels."""
    return 2 <= distinct <= min(MOST_LABELS, rows // ROWS_PER_LABEL)
