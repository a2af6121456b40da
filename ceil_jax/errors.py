"""The exception for bad input, and the allowed ranges of settings."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)


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
    """Return the exception for an unknown name; the caller raises it.

    Its message suggests a similar name.

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
    """The allowed values of a numeric setting, given in its type annotation.

    Such as `epochs: Annotated[int, Range(1)] = 6`.

    NaN and infinity are in no range. Values that are not numbers, such as None or "tuned", are not
    checked.

    >>> print(Range(1)), print(Range(above=0)), print(Range(0, 1)), print(Range(0, below=1))
    at least 1
    above 0
    from 0 to 1
    from 0 to below 1
    (None, None, None, None)
    """

    low: float = -math.inf
    high: float = 2**31 - 1
    """The largest value; by default the largest 32-bit integer."""
    above: float = -math.inf
    """An exclusive lower bound."""
    below: float = math.inf
    """An exclusive upper bound."""

    def __contains__(self, value: float) -> bool:
        return self.above < value < self.below and self.low <= value <= self.high

    def __str__(self) -> str:
        most = [f"at most {self.high}"] if self.high < Range.high else []
        most += [f"below {self.below:g}"] if self.below < math.inf else []
        if self.above > -math.inf:
            return " and ".join([f"above {self.above:g}", *most])
        if not most:
            return f"at least {self.low}"
        return f"from {self.low} to {most[0].removeprefix('at most ')}"


class Expected(NamedTuple):
    """The allowed values of a setting, given in its type annotation if the type alone allows too
    much: `input_key: Annotated[str, Expected("the name of a field", bool)] = "input"`."""

    words: str
    """The words after "expected" in an error."""
    fits: Callable[[Any], bool] | None = None
    """Whether a value of the type is allowed; None if every one is."""


def range_of(hint: Any) -> Range | None:
    """Return the range in a type hint; None if there is none.

    A hint is such as `Annotated[int, Range(1)]`, or that of the elements of a tuple.
    """
    if get_origin(hint) is tuple:
        return range_of(get_args(hint)[0])
    return next(
        (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)), None
    )


class _Allowed(NamedTuple):
    """The values that a type hint allows."""

    kinds: tuple[Any, ...]
    """The allowed types of a value; NoneType allows None."""
    range: Range | None
    expected: Expected | None

    def __contains__(self, value: Any) -> bool:
        if value is None:
            return NoneType in self.kinds
        return (
            any(_is_a(value, kind) for kind in self.kinds)
            and (self.range is None or value in self.range)
            and (self.expected is None or not self.expected.fits or self.expected.fits(value))
        )

    def __str__(self) -> str:
        """The words after "expected" in an error.

        >>> print(_allowed(Annotated[int | None, Range(1)]))
        a whole number at least 1, or None
        """
        kind = self.kinds[0]
        words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
        if self.expected is not None:
            said = self.expected.words
        elif get_origin(kind) is Literal:
            said = " or ".join(map(repr, get_args(kind)))
        else:
            said = words.get(kind, f"a {getattr(kind, '__name__', kind)}")
        if self.range is not None:
            said += f" {self.range}"
        return said + (", or None" if NoneType in self.kinds else "")


@cache
def _allowed(hint: Any) -> _Allowed:
    kind, *parts = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    is_union = get_origin(kind) in (Union, UnionType)
    expected = next((part for part in parts if isinstance(part, Expected)), None)
    return _Allowed(get_args(kind) if is_union else (kind,), range_of(hint), expected)


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value has a type.

    The type may be one of numbers, a Literal of texts, or have type arguments, which are not looked
    at.
    """
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    # truth values are integers in Python, but not numbers of examples
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    numbers = {int: Integral, float: Real}
    return isinstance(value, numbers.get(kind) or get_origin(kind) or kind)


def check_value(name: str, value: Any, hint: Any) -> None:
    """Check a setting against its type annotation: its type, its `Range` and its `Expected`.

    Raises:
        UserError: the message names the setting, the value and what was expected.

    >>> check_value("k", 0, Annotated[int | None, Range(1)])
    Traceback (most recent call last):
        ...
    ceil_jax.errors.UserError: k is 0; expected a whole number at least 1, or None
    """
    allowed = _allowed(hint)
    if value not in allowed:
        raise UserError(f"{name} is {value!r}; expected {allowed}")


def check_ranges(settings: Any, prefix: str = "") -> None:
    """Check every number in a configuration against the range in its type annotation.

    Nested configurations and tuples are included.

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
        elif allowed is not None:
            for number in value if isinstance(value, tuple) else (value,):
                _check_number(f"--{flag}", number, allowed)


def _check_number(flag: str, value: Any, allowed: Range) -> None:
    if not isinstance(value, int | float) or value in allowed:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{flag} {value}: expected a finite number {allowed}")
    expected = f"a number {allowed}"
    # the words of a range leave out the default bound
    if allowed.high == Range.high and value > allowed.high:
        expected += f" and at most {allowed.high}"
    raise UserError(f"{flag} {value}: expected {expected}")
