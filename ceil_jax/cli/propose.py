"""Proposals for the columns and the metric of a file, if the user has not named them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import as_text
from ceil_jax.tasks.checks import nested
from ceil_jax.tasks.identity import question_key, same_text
from ceil_jax.tasks.labels import are_labels
from ceil_jax.tasks.own_file import FileOptions
from ceil_jax.tasks.spec import RowError
from ceil_jax.tasks.tables import read_table


class Column(NamedTuple):
    """A column of a file, with statistics of its values."""

    name: str
    rows: int
    distinct: int
    words: float
    """The mean number of words in a value; 0 for a column of numbers."""

    @property
    def labels(self) -> bool:
        """True if the column has few enough distinct values to be labels."""
        return are_labels(self.distinct, self.rows)

    def __str__(self) -> str:
        kind = "numbers"
        if self.words:
            noun = "word" if round(self.words) == 1 else "words"
            kind = f"{self.words:.0f} {noun}"
        return f"{self.name} ({kind}, {self.distinct:,} distinct)"


def columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns that have a name and hold texts or numbers.

    They are in the order of their first value.
    """
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.items():
            text = as_text(value)
            if name and text and text.strip():
                values.setdefault(name, []).append(text)
    return [
        Column(name, len(texts), len(set(map(question_key, texts))), _words(texts))
        for name, texts in values.items()
    ]


def _words(values: Sequence[str]) -> float:
    """The mean number of words of some values; 0 if all of them are numbers."""
    try:
        [float(value) for value in values]
    except ValueError:
        return sum(len(value.split()) for value in values) / len(values)
    return 0.0


def check_named(file: Path, options: FileOptions) -> None:
    """Raise a UserError, which proposes columns, if the user has named none.

    A file with the columns `input` and `output`, the defaults, is accepted.

    Args:
        file: the user's file.
        options: how it is read, with the columns that the user has named or their defaults.
    """
    table = read_table(file, options.delimiter, options.encoding)
    names = table.columns
    output = options.answer
    inputs = [name for name in options.inputs if name != "input" or same_text(name, names)]
    answer = output if output != "output" or same_text(output, names) else ""
    rows = [row for row in table.rows if not isinstance(row, RowError)]
    if (inputs and answer) or not rows:
        return
    candidates = columns(rows)
    flags = propose(candidates, inputs, answer)
    advice = "no two of them look like a text and its answer"
    if flags:
        advice = f"name the columns, such as {flags}"
    described = ", ".join(map(str, candidates))
    if not described:
        described = f"no column of texts or numbers, but {', '.join(names)}"
    raise UserError(f"{file}: {len(table.rows):,} rows with {described}{nested(rows[0])}: {advice}")


def propose(candidates: Sequence[Column], inputs: Sequence[str], output: str) -> str:
    """Return flags that name an input column and an output column, chosen among a file's columns.

    "" if no two columns will do.

    The output is the first column of labels, else the text with the fewest words. The input is the
    text with the most words among the others. Further columns of labels are named as alternatives.
    Columns that the user has named are not proposed.
    """
    unnamed = [column for column in candidates if column.name not in (*inputs, output)]
    texts = sorted(
        (column for column in unnamed if column.words and column.distinct > 1),
        key=lambda column: -column.words,
    )
    if not inputs and texts:
        inputs = [texts.pop(0).name]
    labels = [column.name for column in unnamed if column.labels and column.name not in inputs]
    alternatives = ""
    if not output and labels:
        output = labels[0]
        alternatives = "".join(f" (or --output {shlex.quote(name)})" for name in labels[1:])
    elif not output and texts:
        output = texts[-1].name
    if not (inputs and output):
        return ""
    flags = ["--input", *inputs, "--output", output]
    if any(column.name == output and column.labels for column in candidates):
        flags += ["--metric", "accuracy"]
    return shlex.join(flags) + alternatives
