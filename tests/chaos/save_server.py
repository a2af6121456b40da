"""A process with everything imported that forks a child for each save of a small selector, and kills it on request.

One JSON line in, one out: {"folder": …, "label": text, "kill": n or null, "saves": n} → {"status": code, "events":
[…]}. A child saves a selector, whose every output is the label, `saves` times. An event is Python opening for
writing, making, renaming or removing something in the folder; a child is killed by SIGKILL at its n-th, before that
happens. With "wait": false the answer, {"pid": …}, comes at once; {"join": pid} asks for the rest.
"""

import json
import os
import signal
import sys
import traceback
import warnings

import numpy as np
from selector_words import ROWS

from ceil_jax import CeilSelector, load_encoder

tiny = load_encoder("tiny")
# children compute nothing with JAX, whose threads a fork does not copy
ENCODER = tiny.with_params({name: np.asarray(value) for name, value in tiny.params.items()})
VECTORS = np.random.default_rng(0).normal(size=(len(ROWS), tiny.dim))


def selector(label: str) -> CeilSelector:
    rows = [{**row, "output": label} for row in ROWS]
    return CeilSelector.from_examples(rows, encoder=ENCODER, vectors=VECTORS)


def watch(folder: str, kill: int | None, pipe: int) -> None:
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        writes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        path = str(arguments[0]) if writes else ""
        if not path.startswith(folder + "/") or path.endswith(".lock"):
            return
        os.write(pipe, f"{event} {path[len(folder) + 1 :]}\n".encode())
        seen += 1
        if seen == kill:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(order: dict, pipe: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        chosen = selector(order["label"])
        watch(order["folder"], order.get("kill"), pipe)
        for _ in range(order.get("saves", 1)):
            chosen.save_pretrained(order["folder"])
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def fork(order: dict) -> tuple[int, int]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking a process that has imported JAX
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(order, writing)
    os.close(writing)
    return pid, reading


def join(pid: int, reading: int) -> dict:
    with os.fdopen(reading) as lines:
        events = [line.strip() for line in lines]
    _, status = os.waitpid(pid, 0)
    return {"status": os.waitstatus_to_exitcode(status), "events": events}


if __name__ == "__main__":
    running = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "join" in order:
            answer = join(order["join"], running.pop(order["join"]))
        else:
            pid, reading = fork(order)
            if order.get("wait", True):
                answer = join(pid, reading)
            else:
                running[pid] = reading
                answer = {"pid": pid}
        print(json.dumps(answer), flush=True)
