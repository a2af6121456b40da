"""Progress: one bar for a whole command where one is running, else a bar for each piece of work.

A command that knows its plan opens `command_bar`. The loops inside it call `bar` all the same, and
their bars are then the part of the command's bar that stands for them. A loop inside a loop shows
nothing of its own. Where no terminal shows a bar, the log has a line a minute.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

log = logging.getLogger(__name__)

_LINE_EVERY = 60.0
"""Seconds between two lines in a log, where no terminal shows a bar."""

_STARTING = 60.0
"""Seconds that say little of a command's pace: models are loaded and programs compiled."""

running_bar: ContextVar[CommandBar | None] = ContextVar("command bar", default=None)
_inside: ContextVar[bool] = ContextVar("inside a bar", default=False)


def _shown() -> bool:
    """Return whether a terminal or a notebook shows bars."""
    return sys.stderr.isatty() or any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)


def _minutely() -> Callable[[str], None]:
    """Return a function that logs a line at most once a minute."""
    said = time.monotonic()

    def say(line: str) -> None:
        nonlocal said
        if time.monotonic() - said >= _LINE_EVERY:
            said = time.monotonic()
            log.info("%s", line)

    return say


class CommandBar:
    """The stages of a command, in order, with the seconds that each is expected to take."""

    def __init__(self, expected: dict[str, float]) -> None:
        self._expected = expected
        self._total = len(expected)
        self._spent_expected = self._spent = 0.0
        self._began = time.monotonic()
        self._say = _minutely()
        self._stage = ""
        self._what = ""
        self._number = 0
        # where it may be shown, TQDM_DISABLE (--quiet) decides
        hidden: dict[str, Any] = {} if _shown() else {"disable": True}
        self.bar = tqdm(total=1.0, bar_format="{desc}", leave=False, **hidden)

    def enter(self, stage: str, what: str) -> None:
        """Begin a stage: `what` says what it does."""
        if self._stage:
            self._spent += time.monotonic() - self._began
            self._spent_expected += self._expected.pop(self._stage, 0.0)
        self._stage = stage
        self._what = what
        self._began = time.monotonic()
        self._number = min(self._number + 1, self._total)
        self.advance(0.0)

    def seconds_left(self, share: float) -> float:
        """Return the seconds that the command still takes, when this share of the running stage is
        done."""
        passed = time.monotonic() - self._began
        own = self._expected.get(self._stage, 0.0)
        done = self._spent_expected + share * own
        spent = self._spent + passed
        pace = (spent + _STARTING) / (done + _STARTING)
        rest = sum(self._expected.values()) - own
        # the running stage is its own best measure once a part of it is done
        running = passed * (1 - share) / share if share > 0.25 else pace * own * (1 - share)
        return running + pace * rest

    def advance(self, share: float) -> None:
        """Show that this share of the running stage is done."""
        left = self.seconds_left(share)
        minutes = f"{left / 60:.0f} min left" if left >= 90 else f"{max(left, 0):.0f} s left"
        text = f"stage {self._number} of {self._total}: {self._what}, {share:.0%}; {minutes}"
        self.bar.set_description_str(text)
        if self.bar.disable:
            self._say(text)


@contextmanager
def command_bar(expected: dict[str, float]) -> Iterator[CommandBar]:
    """Show one bar for all work inside the block, by the expected seconds of each stage."""
    one = CommandBar(dict(expected))
    token = running_bar.set(one)
    try:
        yield one
    finally:
        running_bar.reset(token)
        one.bar.close()


class _Part:
    """A piece of work that shows its share of `total` by calling `advance`, and has no bar of its
    own."""

    def __init__(self, total: int, initial: int, advance: Callable[[float], None]) -> None:
        self._total = max(total, 1)
        self._done = initial
        self._advance = advance

    def update(self, count: int = 1) -> None:
        self._done += count
        self._advance(min(1.0, self._done / self._total))

    def set_postfix(self, *_: Any, **__: Any) -> None:
        pass

    set_postfix_str = set_postfix


@contextmanager
def bar(total: int, what: str, *, initial: int = 0, delay: float = 0.0) -> Iterator[Any]:
    """Yield a progress bar with tqdm's `update`, `set_postfix` and `set_postfix_str`.

    Inside `command_bar` it is the command's bar that moves, and inside another bar nothing is
    shown.

    Args:
        total: steps of the work.
        what: the work in words.
        initial: steps that are done already; 0 by default.
        delay: seconds before the bar is shown, so that short work shows nothing; 0 by default.
    """
    if _inside.get():
        yield _Part(total, initial, lambda share: None)
        return
    token = _inside.set(True)
    try:
        if command := running_bar.get():
            yield _Part(total, initial, command.advance)
        elif not _shown():
            say = _minutely()
            yield _Part(total, initial, lambda share: say(f"{what}, {share:.0%}"))
        else:
            with tqdm(total=total, initial=initial, desc=what, delay=delay) as own:
                yield own
    finally:
        _inside.reset(token)
