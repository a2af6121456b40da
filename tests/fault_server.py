"""A process with everything imported that forks a child for each run of a tiny pipeline, and kills it on request.

See watched.py. Nothing is computed here with JAX before the children fork.
"""

import time
from dataclasses import replace
from pathlib import Path

from watched import serve

# seconds would be the only difference between two runs' files
time.perf_counter = lambda: 0.0

import orbax.checkpoint  # noqa: E402, F401
from films import films  # noqa: E402

from ceil_jax.encoders import registry as pretrained  # noqa: E402, F401
from ceil_jax.lm import tiny  # noqa: E402, F401
from ceil_jax.pipeline.compose import open_run  # noqa: E402
from ceil_jax.pipeline.config import RunConfig  # noqa: E402
from ceil_jax.report import compare  # noqa: E402
from ceil_jax.report.write import report  # noqa: E402
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


def compared(order: dict) -> None:
    out = Path(order["folder"])
    table = compare.compare(open_run(replace(CONFIG, out=out), TASK), METHODS)
    (out / "results.csv").write_text(table.csv())
    report([out], out / "report.html")


if __name__ == "__main__":
    serve(compared)
