"""Progress bars by tqdm: one for the whole command, and one below it for the current stage."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

_DELAY = 1.0
"""Seconds before a bar is shown, so that short work shows nothing."""

_IN_A_LOG = 30.0
"""The minimum number of seconds between two updates if neither a terminal nor a notebook shows them."""

running_bar: ContextVar[CommandBar | None] = ContextVar("command bar", default=None)


def _tqdm(**options: Any) -> Any:
    """Return a bar of tqdm, which is removed at its end; `TQDM_DISABLE` (--quiet) hides it."""
    is_notebook = any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)
    interval = 0.1 if sys.stderr.isatty() or is_notebook else _IN_A_LOG
    # tqdm reads the variable when it is imported, which is before --quiet sets it
    options.setdefault("disable", bool(os.environ.get("TQDM_DISABLE")))
    return tqdm(leave=False, mininterval=interval, **options)


class CommandBar:
    """The progress bar of a command.

    It is made from the seconds that each stage is expected to take, by key.
    """

    def __init__(self, expected: Mapping[str, float]) -> None:
        self._expected = dict(expected)
        self._number = 0
        self._count = len(expected)
        self._shown = ""
        # the remaining time is that of the whole, by the pace of all stages so far
        form = "{desc}: {percentage:.0f}%|{bar}| {elapsed} so far, {remaining} left"
        total = sum(expected.values())
        self.bar = _tqdm(total=total, bar_format=form, smoothing=0, delay=_DELAY)

    @contextmanager
    def running(self, stage: str, what: str) -> Iterator[None]:
        """Show a stage, described by `what`, while the block runs.

        Afterwards the bar shows the enclosing stage again, if there is one.
        """
        outer = self._shown
        self._number = min(self._number + 1, self._count)
        self._shown = f"stage {self._number} of {self._count}, {what}"
        self.bar.set_description_str(self._shown)
        try:
            yield
        finally:
            self._shown = outer
            self.bar.update(self._expected.pop(stage, 0.0))
            self.bar.set_description_str(outer, refresh=bool(outer))


@contextmanager
def command_bar(expected: Mapping[str, float]) -> Iterator[CommandBar]:
    """Show one bar for all work inside the block.

    `expected` are the seconds of each stage, by key.
    """
    command = CommandBar(expected)
    token = running_bar.set(command)
    try:
        with logging_redirect_tqdm(), command.bar:
            yield command
    finally:
        running_bar.reset(token)


@contextmanager
def bar(total: int, what: str, *, initial: int = 0, delay: float = _DELAY) -> Iterator[Any]:
    """Yield tqdm's progress bar.

    Args:
        total: number of steps.
        what: the work in words.
        initial: number of steps that are already done; 0 by default.
        delay: seconds before the bar is shown; 1 by default.
    """
    with _tqdm(total=total, initial=initial, desc=what, delay=delay) as progress:
        yield progress
