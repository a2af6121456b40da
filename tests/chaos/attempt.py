"""One reading of something harmed: it gives a value, or one line that says what is wrong. All else is a failure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ceil_jax.errors import UserError

SECONDS = 20
"""A reader that takes longer hangs."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread once a block takes longer."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"over {seconds} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(
    read: Callable[[], object], what: str, same: Callable[[object], bool] = lambda _: True
) -> tuple[str, str]:
    """Read; (outcome, failure or "").

    Args:
        read: the reader.
        what: what was done to what it reads.
        same: whether the value is one that may be returned.
    """
    try:
        with limited(SECONDS):
            value = read()
    except UserError as error:
        said = str(error)
        if "\n" in said.strip():
            return "failed", f"{what}: lines: {said[:200]!r}"
        return "refused in one line", ""
    except Exception as error:
        return "failed", f"{what}: {type(error).__name__}: {str(error)[:200]}"
    return ("read", "") if same(value) else ("failed", f"{what}: read as something else")
