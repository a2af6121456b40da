"""Forked children whose writes to a folder are watched, and that are killed at one of them.

A server imports everything once, then calls `serve`, which forks a child for each line of its standard input. One
JSON line in, one out: {"folder": …, "kill": n or null, "delay": seconds, "largest": bytes, …} → {"status": exit
status, "events": […]}. An event is Python opening for writing, making, renaming or removing something in the folder,
locks apart. A child is killed by SIGKILL at its n-th event, before that happens, or `delay` seconds after. No file
may grow beyond `largest` bytes, as on a full disk. With "wait": false the answer, {"pid": …}, comes at once;
{"join": pid} asks for the rest. What a child prints is in `FOLDER.log`.

JAX must not have started any thread when the children fork: a server computes nothing with it.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Child(NamedTuple):
    """A child at work."""

    pid: int
    events: int
    """The pipe on which it tells of them."""
    delay: float


def watch(folder: str, kill: int | None, now: bool, pipe: int) -> None:
    """Tell the parent of every event; mark the one that was chosen, and die at it where `now` says so."""
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        writes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        path = str(arguments[0]) if writes else ""
        if not path.startswith(folder + "/") or path.endswith(".lock"):
            return
        seen += 1
        at = f"{event} {path[len(folder) + 1 :]}\n".encode()
        os.write(pipe, (b"!" if seen == kill else b" ") + at)
        if seen == kill and now:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _work(order: dict, work: Callable[[dict], None], pipe: int) -> None:
    from ceil_jax.errors import UserError

    folder = order["folder"]
    log = os.open(folder + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    Path(folder).mkdir(exist_ok=True)
    if "largest" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest"], resource.RLIM_INFINITY))
    watch(folder, order.get("kill"), not order.get("delay"), pipe)
    try:
        work(order)
    except UserError as error:
        print(f"ceil-jax: {error}", flush=True)
        os._exit(2)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _started(order: dict, work: Callable[[dict], None]) -> Child:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking a process that has imported JAX
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(order, work, writing)
    os.close(writing)
    return Child(pid, reading, order.get("delay") or 0)


def _ended(child: Child) -> dict:
    events = []
    with os.fdopen(child.events, "r") as lines:
        for line in lines:
            events.append(line[1:].strip())
            if line[0] == "!" and child.delay:
                time.sleep(child.delay)
                os.kill(child.pid, signal.SIGKILL)
    _, status = os.waitpid(child.pid, 0)
    return {"status": os.waitstatus_to_exitcode(status), "events": events}


def serve(work: Callable[[dict], None]) -> None:
    """Fork a child for each order on standard input, until it is closed.

    Args:
        work: what a child does with its order.
    """
    running: dict[int, Child] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "join" in order:
            answer = _ended(running.pop(order["join"]))
        else:
            child = _started(order, work)
            if order.get("wait", True):
                answer = _ended(child)
            else:
                running[child.pid] = child
                answer = {"pid": child.pid}
        print(json.dumps(answer), flush=True)
