"""The exception for bad input, the message for an unknown name, and the allowed ranges of settings."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_type_hints


class UserError(Exception):
    """Bad input. The message names the file, row or field, what was expected, and how to fix it.

    The command line prints only the message and exits with code 2; a traceback means a bug of ours.

    Examples:
        >>> from ceil_jax import EPR
        >>> EPR(epochs=0)
        Traceback (most recent call last):
            ...
        ceil_jax.errors.UserError: --epr.epochs 0: expected a number at least 1
    """


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """Return the exception for an unknown name, for the caller to raise. Its message suggests a
    similar name.

    Args:
        kind: what the name was to be, such as "task".
        name: the unknown name.
        known: all valid names.
        hint: the end of the message; nothing by default.

    >>> print(unknown_name("task", "sst6", ["sst5", "mrpc"]))
    unknown task 'sst6'; did you mean 'sst5'? Known: mrpc, sst5.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    tail = f" {hint}" if hint else ""
    return UserError(f"unknown {kind} {name!r}{guess} Known: {', '.join(names)}.{tail}")


def check_options(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise a UserError for an unknown option.

    Args:
        what: the name of the function or flag that takes the options.
        options: the names that were given.
        known: all valid names.

    >>> check_options("load_lm", ["dtpye"], ["dtype"])
    Traceback (most recent call last):
        ...
    ceil_jax.errors.UserError: load_lm: unknown option 'dtpye'; did you mean 'dtype'? Known: dtype.
    """
    known = list(known)
    for name in options:
        if name not in known:
            raise UserError(f"{what}: {unknown_name('option', name, known)}")


@dataclass(frozen=True)
class Range:
    """The allowed values of a numeric setting, given in its type annotation: `epochs:
    Annotated[int, Range(1)] = 6`.

    NaN and infinity are in no range. Values that are not numbers, such as None or "tuned", are not
    checked.

    >>> print(Range(1)), print(Range(above=0)), print(Range(0, 1))
    at least 1
    above 0
    from 0 to 1
    (None, None, None)
    """

    low: float = -math.inf
    high: float = 2**31 - 1
    """The largest value; by default the largest 32-bit integer."""
    above: float = -math.inf
    """An exclusive lower bound."""

    def __contains__(self, value: float) -> bool:
        return self.above < value and self.low <= value <= self.high

    def __str__(self) -> str:
        if self.above > -math.inf:
            return f"above {self.above:g}"
        return (
            f"at least {self.low}" if self.high == Range.high else f"from {self.low} to {self.high}"
        )


def range_of(hint: Any) -> Range | None:
    """Return the range in a type hint such as `Annotated[int, Range(1)]`; None if there is none."""
    return next(
        (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)), None
    )


def check_ranges(settings: Any, prefix: str = "") -> None:
    """Check every number in a configuration, nested configurations included, against the range in
    its type annotation.

    Raises:
        UserError: a number is out of its range. The message names the flag (after `prefix`), the
            value and the range.
    """
    hints = get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        value = getattr(settings, field.name)
        allowed = range_of(hints[field.name])
        flag = f"{prefix}{field.name}".replace("_", "-")
        if is_dataclass(value):
            check_ranges(value, f"{flag}.")
        elif allowed is not None and isinstance(value, int | float) and value not in allowed:
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(f"--{flag} {value}: expected a finite number {allowed}")
            expected = f"a number {allowed}"
            # the words of a range leave out the default bound
            if allowed.high == Range.high and value > allowed.high:
                expected += f" and at most {allowed.high}"
            raise UserError(f"--{flag} {value}: expected {expected}")
