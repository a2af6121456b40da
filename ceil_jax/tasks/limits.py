"""Limits on data files. A bomb, or a file that is no data set, ends in one line and not in a full memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ceil_jax.errors import UserError

DATA_MB = ("CEIL_JAX_MAX_DATA_MB", 1_000)
"""A file's content in MB, unpacked: the variable that raises it, and the default."""

CELL = ("CEIL_JAX_MAX_CELL", 200_000)
"""The characters of one field; an LM's context holds a fraction of it."""

LINE_CELLS = 100
"""A line may be as long as so many of the largest fields."""


def limit(which: tuple[str, int]) -> int:
    """Return a limit: what the environment says, else the default.

    Raises:
        UserError: the variable is no number above 0.
    """
    variable, default = which
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UserError(f"{variable} is {text!r}: expected a whole number above 0")
    return int(text)


def check_size(where: str, size: int) -> None:
    """Refuse content that is too large.

    Args:
        where: the file.
        size: bytes, unpacked; at least so many.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = limit(DATA_MB)
    if size > most * 1_000_000:
        raise UserError(f"{where} holds more than {most:,} MB; set {DATA_MB[0]} to read it all the same")


def check_line(where: str, size: int) -> None:
    """Refuse a line that is too long.

    Args:
        where: the file and line.
        size: bytes.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = LINE_CELLS * limit(CELL)
    if size > most:
        raise UserError(
            f"{where}: {size:,} bytes, expected at most {most:,}; is this a file of rows? If so, raise "
            f"{CELL[0]} (now {limit(CELL):,}), {LINE_CELLS} times which a line may have"
        )


def check_cells(where: str, row: Mapping[str, Any]) -> None:
    """Refuse a row with a text that is too long, also inside a list or an object.

    Args:
        where: the file and line.
        row: column -> value.

    Raises:
        UserError: more than the limit; the message says how to raise it.
    """
    most = limit(CELL)
    for name, value in row.items():
        found = _longest(value)
        if found > most:
            raise UserError(
                f"{where}, field {name!r}: {found:,} characters, expected at most {most:,}; cut it, drop the column, "
                f"or set {CELL[0]} to read it all the same"
            )


def _longest(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_longest, value.values()), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, (list, tuple)) else 0
