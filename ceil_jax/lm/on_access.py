"""Sequences whose items are created on access.

An example is the prompts of millions of candidate sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnAccess(Sequence[T]):
    """A sequence of `length` items.

    `make(i)` is called for item i each time it is read, and no item is kept.

    >>> squares = OnAccess(10, lambda number: number**2)
    >>> squares[3], squares[-1], squares[2:4], len(squares)
    (9, 81, [4, 9], 10)
    """

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self._numbers = range(length)
        self._make = make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        if isinstance(position, slice):
            return [self._make(number) for number in self._numbers[position]]
        return self._make(self._numbers[position])
