"""A process with everything imported that forks a child for each run of a tiny pipeline, and kills it on request.

See watched.py. An order's "command" is compare (with a report) by default, report (the page alone), score (with
shards), score-ray or export. Nothing is computed here with JAX before the children fork.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

from watched import serve

# seconds would be the only difference between two runs' files
_perf_counter, time.perf_counter = time.perf_counter, lambda: 0.0

import orbax.checkpoint  # noqa: E402, F401
from films import films  # noqa: E402

from ceil_jax.encoders import registry as pretrained  # noqa: E402, F401
from ceil_jax.lm import tiny  # noqa: E402, F401
from ceil_jax.pipeline.compose import open_run  # noqa: E402
from ceil_jax.pipeline.config import RunConfig  # noqa: E402
from ceil_jax.pipeline.export import export  # noqa: E402
from ceil_jax.report import compare  # noqa: E402
from ceil_jax.report.write import report  # noqa: E402
from ceil_jax.selector import CeilSelector  # noqa: E402
from ceil_jax.store.shards import Shard  # noqa: E402
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


TASK = films(24, 40)


def compared(out: Path) -> None:
    table = compare.compare(open_run(replace(CONFIG, out=out), TASK), METHODS)
    (out / "results.csv").write_text(table.csv())
    report([out], out / "report.html")


def scored(out: Path) -> None:
    """Two jobs, then the one that puts their rows together."""
    for shard in (Shard(1, 2), Shard(2, 2), None):
        rows = open_run(replace(CONFIG, out=out), TASK).score("epr", shard)
    (out / "scores.json").write_text(json.dumps(rows))


def scored_by_ray(out: Path) -> None:
    """One actor on a cluster of this child's own. Only the scores can be compared: the actor measures seconds."""
    time.perf_counter = _perf_counter  # Ray waits by it
    rows = open_run(replace(CONFIG, out=out, engine="ray", actors=1), TASK).score("epr")
    (out / "scores.json").write_text(json.dumps(rows))


def reported(out: Path) -> None:
    """The page of a finished run."""
    report([out], out / "report.html")


def exported(out: Path) -> None:
    """A selector, saved over the one that is there; what it selects stands for its files."""
    export(open_run(replace(CONFIG, out=out), TASK), "epr_map", out / "selector")
    selector = CeilSelector.from_pretrained(out / "selector")
    chosen = [[e.id for e in selector.select(query.input, k=3).examples] for query in TASK.validation[:5]]
    (out / "selected.json").write_text(json.dumps(chosen))


COMMANDS = {
    "compare": compared,
    "report": reported,
    "score": scored,
    "score-ray": scored_by_ray,
    "export": exported,
}

if __name__ == "__main__":
    serve(lambda order: COMMANDS[order.get("command", "compare")](Path(order["folder"])))
