"""Ending a generation: cutting its text where it ends, and giving up in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_before_each_token: ContextVar[Callable[[], None] | None] = ContextVar("before each token", default=None)


@contextmanager
def interrupted_by(check: Callable[[], None]) -> Iterator[None]:
    """Have a function called before each token that an LM writes within the block, in this thread.

    Args:
        check: what it raises ends the generation.
    """
    token = _before_each_token.set(check)
    try:
        yield
    finally:
        _before_each_token.reset(token)


def check_interrupted() -> None:
    """Call what `interrupted_by` was given; for the loops that write."""
    if check := _before_each_token.get():
        check()


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Return where the earliest stop string begins in `text`; None if there is none."""
    starts = [start for string in stop if (start := text.find(string)) >= 0]
    return min(starts, default=None)


def cut(text: str, stop: Sequence[str]) -> str:
    """Return `text` before its first stop string, with nothing else removed.

    The released CEIL code calls `.strip("<|endoftext|>")`, which removes letters: "find /home -type f" becomes
    "ind /home -type".
    """
    return text[: first_stop(text, stop)]
