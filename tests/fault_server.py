"""A process with everything imported that forks a child for each run of a tiny pipeline, and kills it on request.

One JSON line in, one out: {"out": folder, "command": name, "kill": n or null, "delay": seconds} → {"status": exit
status, "events": [...]}. The commands are compare (with a report), score (with shards) and export.
An event is Python opening for writing, renaming or removing something in the run's folder, locks apart; a child is
killed by SIGKILL at its n-th, before that happens, or `delay` seconds after. "largest": no file may grow beyond
so many bytes, as on a disk that is full. JAX has not started any thread when
the children fork: nothing is computed here.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

# seconds would be the only difference between two runs' files
time.perf_counter = lambda: 0.0

import orbax.checkpoint  # noqa: E402, F401

from ceil_jax.encoders import registry as pretrained  # noqa: E402, F401
from ceil_jax.errors import UserError  # noqa: E402
from ceil_jax.lm import tiny  # noqa: E402, F401
from ceil_jax.pipeline.compose import open_run  # noqa: E402
from ceil_jax.pipeline.config import RunConfig  # noqa: E402
from ceil_jax.pipeline.export import export  # noqa: E402
from ceil_jax.report import compare  # noqa: E402
from ceil_jax.report.write import report  # noqa: E402
from ceil_jax.selector import CeilSelector  # noqa: E402
from ceil_jax.store.shards import Shard  # noqa: E402
from ceil_jax.tasks.example import Example, Task, Template  # noqa: E402
from ceil_jax.training import ceil  # noqa: E402, F401
from ceil_jax.training import contrastive as epr  # noqa: E402, F401
from ceil_jax.training.config import CEILConfig, EPRConfig  # noqa: E402

CONFIG = RunConfig(
    task="films",
    encoder="tiny",
    lm="tiny",
    shots=2,
    shortlist=6,
    epr=EPRConfig(instances=10, candidates=4, positives=2, epochs=2, batch_size=4, learning_rate=1e-2),
    ceil=CEILConfig(instances=10, subsets=3, size=2, shortlist=6, epochs=2, batch_size=4, learning_rate=1e-2),
)
METHODS = ("bm25", "topk", "epr", "ceil")


def film(split: str, i: int) -> Example:
    words = ("bad", "good")
    mood = ("dull grey", "bright funny")[i % 2]
    return Example(f"{split}-{i}", f"a {mood} film about topic{i % 5} number{i}", words[i % 2], words)


TASK = Task(
    "films",
    [film("train", i) for i in range(24)],
    [film("validation", i) for i in range(24, 64)],
    Template("{input} It is {output}"),
    "accuracy",
)


def compared(out: Path) -> None:
    table = compare.compare(open_run(replace(CONFIG, out=out), TASK), METHODS)
    (out / "results.csv").write_text(table.csv())
    report([out], out / "report.html")


def scored(out: Path) -> None:
    """Two jobs, then the one that puts their rows together."""
    for shard in (Shard(1, 2), Shard(2, 2), None):
        rows = open_run(replace(CONFIG, out=out), TASK).score("epr", shard)
    (out / "scores.json").write_text(json.dumps(rows))


def exported(out: Path) -> None:
    """A selector, saved over the one that is there; what it selects stands for its files."""
    export(open_run(replace(CONFIG, out=out), TASK), "epr_map", out / "selector")
    selector = CeilSelector.from_pretrained(out / "selector")
    chosen = [[e.id for e in selector.select(query.input, k=3).examples] for query in TASK.validation[:5]]
    (out / "selected.json").write_text(json.dumps(chosen))


COMMANDS = {"compare": compared, "score": scored, "export": exported}


def watch(out: str, kill: int | None, now: bool, pipe: int) -> None:
    """Tell the parent of every event; die at the one that was chosen."""
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        writes = event in ("os.rename", "os.remove", "os.rmdir") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        path = str(arguments[0]) if writes else ""
        if not path.startswith(out + "/") or path.endswith(".lock"):
            return
        seen += 1
        at = f"{event} {path[len(out) + 1 :]}\n".encode()
        os.write(pipe, (b"!" if seen == kill else b" ") + at)
        if seen == kill and now:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(order: dict, pipe: int) -> None:
    log = os.open(order["out"] + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    out = Path(order["out"])
    out.mkdir(exist_ok=True)
    if "largest" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest"], resource.RLIM_INFINITY))
    watch(order["out"], order.get("kill"), not order.get("delay"), pipe)
    try:
        COMMANDS[order.get("command", "compare")](out)
    except UserError as error:
        print(f"ceil-jax: {error}", flush=True)
        os._exit(2)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def serve(order: dict) -> dict:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking a process that has imported JAX
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(order, writing)
    os.close(writing)
    events = []
    with os.fdopen(reading, "r") as lines:
        for line in lines:
            events.append(line[1:].strip())
            if line[0] == "!" and order.get("delay"):
                time.sleep(order["delay"])
                os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return {"status": os.waitstatus_to_exitcode(status), "events": events}


if __name__ == "__main__":
    for request in sys.stdin:
        print(json.dumps(serve(json.loads(request))), flush=True)
