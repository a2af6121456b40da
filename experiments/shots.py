"""K, the number of examples in a prompt, chosen on training queries with examples that nothing was trained to find.

    python experiments/shots.py --tasks geoquery movie_reviews --data-dir DATA

Training queries are answered with their K nearest examples, never themselves, for every K of --counts. The K with the
highest metric is the one to compare methods with: choosing it needs no validation query and favours no trained
method. Of equals the smallest is taken.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.metrics import metric_named
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.report.table import Number, Table
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.load import load_task


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    default = SCALES["small"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=[default.task])
    parser.add_argument("--data-dir", type=Path, help="a folder of datasets; default: the hub or the package")
    parser.add_argument("--lm", default=default.lm)
    parser.add_argument("--encoder", default=default.encoder)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8], help="values of K")
    parser.add_argument("--queries", type=int, default=128, help="training queries that are answered")
    parser.add_argument("--out", type=Path, default=default.out)
    return parser.parse_args(argv)


def by_count(
    config: RunConfig, task: Task, counts: Sequence[int], queries: int, models: Models
) -> dict[int, float]:
    """Return the metric of training queries with their K nearest examples, in percent, for every K.

    Args:
        config: the LM, the encoder and the folder of stages.
        task: its bank gives queries and examples.
        counts: values of K.
        queries: how many; those from the end of the order that training takes its queries from.
        models: shared with other runs.
    """
    metric, found = metric_named(task.metric), {}
    for count in counts:
        run = open_run(replace(config, task=task.name, shots=count), task, models)
        asked = [task.train[i] for i in np.sort(run.training_data.order[-queries:])]
        rows, _ = run.answers_with(run.retrieve("topk", asked), asked, f"K = {count} on {task.name}")
        found[count] = 100 * float(metric.corpus([row["prediction"] for row in rows], asked))
    return found


def best(values: Mapping[int, float]) -> int:
    """Return the smallest K with the highest value."""
    return min(values, key=lambda count: (-values[count], count))


def main(argv: list[str] | None = None) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    options = arguments(argv)
    config = replace(
        SCALES["small"],
        lm=options.lm,
        encoder=options.encoder,
        out=options.out,
        data_dir=options.data_dir,
    )
    models, body = Models(), []
    for name in options.tasks:
        task = load_task(name, options.data_dir)
        values = by_count(config, task, options.counts, options.queries, models)
        body.append([name, *(Number(values[count], 1) for count in options.counts), best(values)])
    header = ["task", *(f"K = {count}" for count in options.counts), "chosen"]
    title = f"{options.queries} training queries, their nearest examples, {options.lm}"
    print("\n" + Table(header, body, title).markdown())


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"shots.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
