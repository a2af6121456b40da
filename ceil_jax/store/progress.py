"""Progress bars: one for a whole command if it has one, else one for each piece of work.

A command that knows its plan opens `command_bar`. Loops inside it call `bar` as usual, and then
advance the command's bar. A loop inside a loop shows nothing. Without a terminal, a line is logged
after a few seconds, then less and less often. Bars and lines keep updating while work waits, for
example for a server.
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
"""The most seconds between two lines in a log."""

_FIRST_LINE = 3.0
"""Seconds before the first line; each later pause is twice as long."""

_BEAT = 1.0
"""Seconds between two updates while the work itself reports nothing."""

_STARTING = 60.0
"""The first seconds of a command, which say little about its pace because models are loaded and
programs compiled."""

running_bar: ContextVar[CommandBar | None] = ContextVar("command bar", default=None)
_inside: ContextVar[bool] = ContextVar("inside a bar", default=False)


def _shown() -> bool:
    """Return whether a terminal or a notebook shows bars."""
    return sys.stderr.isatty() or any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)


def _sayer() -> Callable[[str], None]:
    """Return a function that logs a line, but not at every call: first after a few seconds, then
    less and less often, down to once a minute."""
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
    """Call a function every second, from another thread, while the block runs."""
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
    """The progress bar of a command, from the seconds that each of its stages is expected to
    take."""

    def __init__(self, expected: dict[str, float]) -> None:
        self._expected = expected
        self._total = len(expected)
        self._spent_expected = 0.0
        self._spent = 0.0
        self._began = time.monotonic()
        self._say = _sayer()
        self._stage = ""
        self._what = ""
        self._number = 0
        self._share = 0.0
        # `command_bar` updates from another thread
        self._lock = threading.RLock()
        # if a bar can be shown, TQDM_DISABLE (--quiet) decides
        hidden: dict[str, Any] = {} if _shown() else {"disable": True}
        self.bar = tqdm(total=1.0, bar_format="{desc}", leave=False, **hidden)

    @contextmanager
    def running(self, stage: str, what: str) -> Iterator[None]:
        """Show a stage, described by `what`, while the block runs. Afterwards the bar shows the
        enclosing stage again, if there is one."""
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
        """Add the time since the last call to the time spent."""
        now = time.monotonic()
        self._spent += now - self._began
        self._began = now

    def seconds_left(self, share: float) -> float:
        """Return the estimated remaining seconds of the command, if `share` of the running stage is
        done."""
        passed = time.monotonic() - self._began
        expected = self._expected.get(self._stage, 0.0)
        expected_so_far = self._spent_expected + share * expected
        spent = self._spent + passed
        pace = (spent + _STARTING) / (expected_so_far + _STARTING)
        expected_later = sum(self._expected.values()) - expected
        # once a quarter of the running stage is done, its own pace is the best estimate
        running = passed * (1 - share) / share if share > 0.25 else pace * expected * (1 - share)
        return running + pace * expected_later

    def show(self) -> None:
        """Update the display of the running stage."""
        with self._lock:
            if self._number:
                self.advance(self._share)

    def advance(self, share: float) -> None:
        """Show that `share` of the running stage is done."""
        with self._lock:
            self._share = share
            seconds = self.seconds_left(share)
            minutes = (
                f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{max(seconds, 0):.0f} s left"
            )
            doing = f"{self._what}, {share:.0%}" if self._stage else "done"
            text = f"stage {self._number} of {self._total}: {doing}; {minutes}"
            self.bar.set_description_str(text)
            if self.bar.disable:
                self._say(text)


@contextmanager
def command_bar(expected: dict[str, float]) -> Iterator[CommandBar]:
    """Show one bar for all work inside the block. `expected` are the seconds of each stage, by
    key."""
    command = CommandBar(dict(expected))
    token = running_bar.set(command)
    try:
        with _beating(command.show):
            yield command
    finally:
        running_bar.reset(token)
        command.bar.close()


class _Part:
    """A stand-in for a bar that reports its share of `total` by calling `advance`."""

    def __init__(self, total: int, initial: int, advance: Callable[[float], None]) -> None:
        self._total = max(total, 1)
        self._count = initial
        self._advance = advance

    def update(self, count: int = 1) -> None:
        self._count += count
        self._advance(min(1.0, self._count / self._total))

    def set_postfix(self, *_: Any, **__: Any) -> None:
        pass

    set_postfix_str = set_postfix


@contextmanager
def bar(total: int, what: str, *, initial: int = 0, delay: float = 0.0) -> Iterator[Any]:
    """Yield a progress bar with tqdm's `update`, `set_postfix` and `set_postfix_str`.

    Inside `command_bar`, the command's bar advances instead; inside another bar, nothing is shown.

    Args:
        total: number of steps.
        what: the work in words.
        initial: number of steps that are already done; 0 by default.
        delay: seconds before the bar is shown, so that short work shows nothing; 0 by default.
    """
    if _inside.get():
        yield _Part(total, initial, lambda _: None)
        return
    token = _inside.set(True)
    try:
        if command := running_bar.get():
            yield _Part(total, initial, command.advance)
        elif not _shown():
            say = _sayer()
            done = initial / max(total, 1)

            def advance(share: float) -> None:
                nonlocal done
                done = share
                say(f"{what}, {share:.0%}")

            with _beating(lambda: advance(done)):
                yield _Part(total, initial, advance)
        else:
            with (
                tqdm(total=total, initial=initial, desc=what, delay=delay) as progress,
                _beating(progress.refresh),
            ):
                yield progress
    finally:
        _inside.reset(token)
