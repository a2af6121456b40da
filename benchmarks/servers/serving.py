"""The process of a server, from its start to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ceil_jax.errors import UserError

STARTING_SECONDS = 600.0


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    ready: str,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Path]:
    """Run a server inside the block once it is ready, and yield the file with its output. It is
    ready when it answers at the address `ready` or, if that is no http:// address, has printed that
    text.

    Args:
        command: starts it.
        log: the file for what it prints.
        ready: the address or the text.
        variables: what is set in its environment besides that of this process.

    Raises:
        UserError: it ends, or does not answer within ten minutes; the message names that file.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        # a group of its own, which is ended whole
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(variables or {})},
        )
    try:
        end = time.monotonic() + STARTING_SECONDS
        there = False
        while not there:
            time.sleep(1)
            if process.poll() is not None or time.monotonic() > end:
                raise UserError(f"{command[0]} does not serve; its output is in {log}")
            served = ready.startswith("http://")
            there = _answers(ready) if served else ready in log.read_text(errors="replace")
        yield log
    finally:
        for end_signal in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, end_signal)
                process.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
