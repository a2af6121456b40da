"""Progress: one bar for a whole command where one is running, else a bar for each piece of work.

A command that knows its plan opens `command_bar`. The loops inside it call `bar` all the same, and
their bars are then the part of the command's bar that stands for them. A loop inside a loop shows
nothing of its own. Where no terminal shows a bar, the log has a line after a few seconds, then ever
more rarely. Both go on while a piece of work waits, such as for a server.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

log = logging.getLogger(__name__)

_LINE_EVERY = 60.0
"""Seconds between two lines in a log, where no terminal shows a bar, at most."""

_FIRST_LINE = 3.0
"""Seconds before the first line; each later pause is twice as long."""

_BEAT = 1.0
"""Seconds between two looks at work that says nothing itself."""

_STARTING = 60.0
"""Seconds that say little of a command's pace: models are loaded and programs compiled."""

running_bar: ContextVar[CommandBar | None] = ContextVar("command bar", default=None)
_inside: ContextVar[bool] = ContextVar("inside a bar", default=False)


def _shown() -> bool:
    """Return whether a terminal or a notebook shows bars."""
    return sys.stderr.isatty() or any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)


def _sayer() -> Callable[[str], None]:
    """Return a function that logs a line now and then: after a few seconds first, then ever more
    rarely, and at last once a minute."""
    last = time.monotonic()
    pause = _FIRST_LINE

    def say(line: str) -> None:
        nonlocal last, pause
        if time.monotonic() - last >= pause:
            last = time.monotonic()
            pause = min(_LINE_EVERY, 2 * pause)
            log.info("%s", line)

    return say


@contextmanager
def _beating(beat: Callable[[], object]) -> Iterator[None]:
    """Call a function every second inside the block, whatever the block does."""
    ended = threading.Event()

    def beats() -> None:
        while not ended.wait(_BEAT):
            beat()

    thread = threading.Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class CommandBar:
    """The stages of a command, in order, with the seconds that each is expected to take."""

    def __init__(self, expected: dict[str, float]) -> None:
        self._expected = expected
        self._total = len(expected)
        self._spent_expected = self._spent = 0.0
        self._began = time.monotonic()
        self._say = _sayer()
        self._stage = ""
        self._what = ""
        self._number = 0
        self._share = 0.0
        # the beat of `command_bar` comes from another thread
        self._lock = threading.RLock()
        # where it may be shown, TQDM_DISABLE (--quiet) decides
        hidden: dict[str, Any] = {} if _shown() else {"disable": True}
        self.bar = tqdm(total=1.0, bar_format="{desc}", leave=False, **hidden)

    @contextmanager
    def running(self, stage: str, what: str) -> Iterator[None]:
        """Name a stage while the block runs; `what` says what it does. After it the bar names none,
        or the stage inside which it ran."""
        with self._lock:
            outer = self._stage, self._what, self._share
            self._add_time()
            self._stage = stage
            self._what = what
            self._number = min(self._number + 1, self._total)
            self.advance(0.0)
        try:
            yield
        finally:
            with self._lock:
                self._add_time()
                self._spent_expected += self._expected.pop(stage, 0.0)
                self._stage, self._what, share = outer
                self.advance(share)

    def _add_time(self) -> None:
        """Count the time that has passed as spent, and begin anew."""
        now = time.monotonic()
        self._spent += now - self._began
        self._began = now

    def seconds_left(self, share: float) -> float:
        """Return the seconds that the command still takes, when this share of the running stage is
        done."""
        passed = time.monotonic() - self._began
        expected = self._expected.get(self._stage, 0.0)
        done = self._spent_expected + share * expected
        spent = self._spent + passed
        pace = (spent + _STARTING) / (done + _STARTING)
        rest = sum(self._expected.values()) - expected
        # the running stage is its own best measure once a part of it is done
        running = passed * (1 - share) / share if share > 0.25 else pace * expected * (1 - share)
        return running + pace * rest

    def show(self) -> None:
        """Show the running stage again, with the time that has passed."""
        with self._lock:
            if self._number:
                self.advance(self._share)

    def advance(self, share: float) -> None:
        """Show that this share of the running stage is done."""
        with self._lock:
            self._share = share
            left = self.seconds_left(share)
            minutes = f"{left / 60:.0f} min left" if left >= 90 else f"{max(left, 0):.0f} s left"
            doing = f"{self._what}, {share:.0%}" if self._stage else "done"
            text = f"stage {self._number} of {self._total}: {doing}; {minutes}"
            self.bar.set_description_str(text)
            if self.bar.disable:
                self._say(text)


@contextmanager
def command_bar(expected: dict[str, float]) -> Iterator[CommandBar]:
    """Show one bar for all work inside the block, by the expected seconds of each stage."""
    command = CommandBar(dict(expected))
    token = running_bar.set(command)
    try:
        with _beating(command.show):
            yield command
    finally:
        running_bar.reset(token)
        command.bar.close()


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
            say = _sayer()
            done = [initial / max(total, 1)]

            def advance(share: float) -> None:
                done[0] = share
                say(f"{what}, {share:.0%}")

            with _beating(lambda: advance(done[0])):
                yield _Part(total, initial, advance)
        else:
            with (
                tqdm(total=total, initial=initial, desc=what, delay=delay) as progress,
                _beating(progress.refresh),
            ):
                yield progress
    finally:
        _inside.reset(token)
