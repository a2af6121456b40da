"""The columns and the metric of a file that were not named: looked at, proposed, and asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ceil_jax.cli.data_flags import NO_FILE, OwnData, unescaped
from ceil_jax.errors import UserError
from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.spec import RowError

_LABELS = 100
"""Distinct values of a column of labels, at most; and each stands in five rows on average."""


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
        return 2 <= self.distinct <= min(_LABELS, self.rows / 5)

    def __str__(self) -> str:
        kind = f"{self.words:.0f} word{'s' * (round(self.words) != 1)}" if self.words else "numbers"
        return f"{self.name} ({kind}, {self.distinct:,} distinct)"


def columns(rows: Sequence[object]) -> list[Column]:
    """Return the columns that have a name, and texts or numbers, in the order in which they come up."""
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.items() if isinstance(row, dict) else ():
            if name and isinstance(value, str | int | float) and str(value).strip():
                values.setdefault(name, []).append(str(value))
    return [Column(name, len(own), len(set(own)), _words(own)) for name, own in values.items()]


def _words(values: Sequence[str]) -> float:
    try:
        [float(value) for value in values]
    except ValueError:
        return sum(len(value.split()) for value in values) / len(values)
    return 0.0


def settled(command: str, own: OwnData) -> OwnData:
    """Return the flags of a file; where columns were not named, those that were proposed and agreed to.

    Args:
        command: the name of the sub-command, for the proposal.
        own: the flags as given.

    Raises:
        UserError: nobody has agreed; the message is the proposal.
    """
    unnamed = [name for name in ("input", "output") if getattr(own, name) == getattr(NO_FILE, name)]
    if own.data is None or not unnamed:
        return replace(own, yes=False)
    split = read_table(own.data, own.delimiter and unescaped(own.delimiter))
    unnamed = [name for name in unnamed if name not in split.columns()]
    if not unnamed:
        return replace(own, yes=False)
    found = columns([row for row in split.rows if not isinstance(row, RowError)])
    proposed = replace(propose(found, own, unnamed), yes=False)
    flags = ["--data", str(own.data), "--input", *proposed.input, "--output", proposed.output]
    line = shlex.join(["ceil-jax", command, *flags, "--metric", proposed.metric])
    said = f"{own.data}: {len(split.rows):,} rows with {', '.join(map(str, found))}; proposed: {line}"
    if own.yes:
        print(said, file=sys.stderr)
        return proposed
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"{said}\nGo on with it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return proposed
    raise UserError(f"{said} (name the columns, or add --yes to go on with these)")


def propose(found: Sequence[Column], own: OwnData, unnamed: Sequence[str]) -> OwnData:
    """Return flags in which the columns that were not named are proposed.

    The output is a column of labels, the one with the fewest values, else the text with the fewest words; the input
    is the text with the most words of the others.

    Args:
        found: the file's columns.
        own: the flags as given.
        unnamed: what of input and output was not named.

    Raises:
        UserError: the file has no two columns that could be meant.
    """
    inputs = {} if "input" in unnamed else dict.fromkeys(own.input)
    left = [one for one in found if one.name not in inputs]
    if "output" not in unnamed:
        left = [one for one in left if one.name != own.output]
    texts = sorted((one for one in left if one.words and one.distinct > 1), key=lambda one: -one.words)
    if "input" in unnamed:
        if not texts:
            raise UserError(
                f"{own.data}: no column of texts among {', '.join(map(str, found))}; name one with --input"
            )
        own = replace(own, input=(texts[0].name,))
        left, texts = [one for one in left if one is not texts[0]], texts[1:]
    if "output" in unnamed:
        labels = sorted((one for one in left if one.labels), key=lambda one: one.distinct)
        if not labels and not texts:
            raise UserError(
                f"{own.data}: no column of answers beside {', '.join(own.input)}; name one with --output"
            )
        own = replace(own, output=(labels or texts[::-1])[0].name)
    if own.metric == NO_FILE.metric and any(one.name == own.output and one.labels for one in found):
        own = replace(own, metric="accuracy")
    return own
