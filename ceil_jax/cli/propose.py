"""The columns and the metric of a file that were not named: looked at and proposed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import as_text, only_item
from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.identity import question_key, same_text
from ceil_jax.tasks.labels import are_labels
from ceil_jax.tasks.rows import nested
from ceil_jax.tasks.spec import RowError


class Column(NamedTuple):
    """The kind of a column's values."""

    name: str
    rows: int
    distinct: int
    words: float
    """Mean number of words of a value; 0 for a column of numbers."""

    @property
    def labels(self) -> bool:
        """Whether its values are few enough to choose among."""
        return are_labels(self.distinct, self.rows)

    def __str__(self) -> str:
        kind = f"{self.words:.0f} word{'s' * (round(self.words) != 1)}" if self.words else "numbers"
        return f"{self.name} ({kind}, {self.distinct:,} distinct)"


def columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns that have a name, and texts or numbers, in the order in which they come
    up."""
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.items():
            text = as_text(only_item(value))
            if name and text and text.strip():
                values.setdefault(name, []).append(text)
    return [
        Column(name, len(texts), len(set(map(question_key, texts))), _words(texts))
        for name, texts in values.items()
    ]


def _words(values: Sequence[str]) -> float:
    try:
        [float(value) for value in values]
    except ValueError:
        return sum(len(value.split()) for value in values) / len(values)
    return 0.0


def check_named(
    file: Path, inputs: Sequence[str], output: str, delimiter: str | None = None
) -> None:
    """Raise a UserError, which proposes other columns, if a file lacks `input` or `output` where
    they are meant."""
    table = read_table(file, delimiter)
    there = table.columns()
    named = [name for name in inputs if name != "input" or same_text(name, there)]
    answer = output if output != "output" or same_text(output, there) else ""
    if named and answer:
        return
    candidates = columns([row for row in table.rows if not isinstance(row, RowError)])
    flags = propose(candidates, named, answer)
    how = (
        f"name the columns, such as {flags}"
        if flags
        else "no two of them are a text and its answer"
    )
    listed = (
        ", ".join(map(str, candidates)) or f"no column of texts or numbers, but {', '.join(there)}"
    )
    raise UserError(f"{file}: {len(table.rows):,} rows with {listed}{nested(table)}: {how}")


def propose(candidates: Sequence[Column], inputs: Sequence[str], output: str) -> str:
    """Return flags that name a file's columns; "" where no two of them can be meant.

    The output is the first column of labels, with the others named beside it, else the text with
    the fewest words; the input is the text with the most words of the others. Columns that are
    named already are not proposed again.
    """
    left = [column for column in candidates if column.name not in (*inputs, output)]
    texts = sorted(
        (column for column in left if column.words and column.distinct > 1),
        key=lambda column: -column.words,
    )
    if not inputs and texts:
        inputs = [texts.pop(0).name]
    labels = [column.name for column in left if column.labels and column.name not in inputs]
    others = "" if output else "".join(f" (or --output {shlex.quote(name)})" for name in labels[1:])
    if not output and (labels or texts):
        output = labels[0] if labels else texts[-1].name
    if not (inputs and output):
        return ""
    metric = (
        ["--metric", "accuracy"]
        if any(column.name == output and column.labels for column in candidates)
        else []
    )
    return shlex.join(["--input", *inputs, "--output", output, *metric]) + others
