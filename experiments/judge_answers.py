"""Answers with the examples that the weights of `judge.py` prefer, beside the nearest.

    python experiments/judge_answers.py --stages RUNS --data-dir DATA --out OUT

RUNS is as in `judge.py`. Of a query's 50 nearest examples, by the encoder's last layer or by its
third, those with the largest w · φ stand in the prompt. w is learnt from EPR's candidates: the
task's own ("own scores"), or those of the tasks of other families ("judge"). An LM answers 200
queries; differences are paired, with 95 % intervals that resample programs.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, read_results
from judge import RECORDED, Scored, Stored, fit, pairs_of, read
from judge_features import LAYERS, Pairs, layer_vectors

from ceil_jax.metrics.bootstrap import Sample, bootstrap_interval, by_group, mean
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.answering import Predictions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.setup import Setup, open_run
from ceil_jax.pipeline.stage import Run, Stage, unkeyed
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.retrieval.nearest import nearest
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.load import load_task

LIMIT = 200
SHORTLIST = 50
INNER = 3
TASKS = ("cogs.ps", "mtop", "geoquery.template")
TOP_K = "dense top-k"
OWN = "own scores, 50 nearest by last layer"
RECORDED_ROWS = (TOP_K, "EPR", "second round", "CEIL")
"""Rows of `cause.py`, on an H200 in bfloat16; several seeds are averaged."""


@dataclass(frozen=True)
class Given(Stage[Choice]):
    """Examples that were chosen elsewhere."""

    in_memory = True
    positions_digest: str
    choice: Any = unkeyed(None)

    def load(self, run: Run, folder: Path) -> Choice:
        return self.choice


def given(positions: np.ndarray, relevance: np.ndarray) -> Given:
    """Return examples as a stage, int and float [Q, k]."""
    digest = hashlib.sha256(np.ascontiguousarray(positions, np.int32).tobytes()).hexdigest()[:16]
    return Given(digest, Choice(positions.astype(np.int32), relevance, relevance))


def best(
    pairs: Pairs,
    queries: Sequence[Example],
    shortlist: np.ndarray,
    part: Scored,
    w: np.ndarray,
    k: int,
) -> Given:
    """Return the k examples of each shortlist with the largest w · φ."""
    features = pairs.features(shortlist, queries)
    scores = ((features - features.mean(axis=1, keepdims=True)) / part.scale) @ w
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return given(
        np.take_along_axis(shortlist, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def choices(stored: Stored, judges: Sequence[Scored], pairs: Pairs) -> dict[str, Given]:
    """Return the examples of every row."""
    queries = stored.task.validation
    bank = stored.task.train
    query_vectors = layer_vectors(pairs.encoder, [query.input for query in queries])
    example_vectors = layer_vectors(pairs.encoder, [example.input for example in bank])
    same = OwnRows(bank, "id")(queries)
    near = {
        name: nearest(query_vectors[layer], example_vectors[layer], same, SHORTLIST)[1]
        for name, layer in (("last layer", LAYERS - 1), (f"layer {INNER}", INNER))
    }
    part = stored.candidates
    weights = {"own scores": fit([part]), "judge": fit(judges)}
    return {
        f"{name}, 50 nearest by {layer}": best(
            pairs, queries, shortlist, part, w, stored.config.shots
        )
        for layer, shortlist in near.items()
        for name, w in weights.items()
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", type=Path, required=True, help="a folder of runs for each task")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the answers")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    options = parser.parse_args(arguments)
    configs = {
        name: replace(config, task=name, data_dir=options.data_dir, out=options.stages / name)
        for name, config in RECORDED.items()
    }
    stored = {name: read(config) for name, config in configs.items()}
    for name in options.tasks:
        scored_task = stored[name]
        config = replace(
            scored_task.config, limit=LIMIT, dtype=options.dtype, out=options.out / name
        )
        others = [task.candidates for task in stored.values() if task.family != scored_task.family]
        run, setup = open_run(config, task_of(config), Models())
        limited = replace(scored_task, config=config, task=setup.task)
        scores = answered(run, setup, choices(limited, others, pairs_of(setup)))
        whole = task_of(scored_task.config).validation
        ids = {query.id for query in setup.task.validation}
        where = np.array([query.id in ids for query in whole])
        print(f"## {name}\n\n{compared(scores, name, where).markdown()}", flush=True)


def task_of(config: RunConfig) -> Task:
    """Return the task of a configuration."""
    return load_task(
        config.task, config.data_dir, config.limit, config.data_seed, bank_limit=config.bank_limit
    )


def answered(run: Run, setup: Setup, choice_of_row: Mapping[str, Given]) -> dict[str, np.ndarray]:
    """Return the metric of the answers to each query, float [Q], with the nearest examples by each
    layer and with those found."""
    metric = row_stages.metric(setup, setup.row("topk"))
    answers = metric.predictions
    assert isinstance(answers, Predictions)
    scores = {TOP_K: run.get(metric).scores}
    for name, choice in choice_of_row.items():
        other: Any = choice
        stage = replace(metric, predictions=replace(answers, choice=other, label=name))
        scores[name] = run.get(stage).scores
    return scores


def compared(scores: Mapping[str, np.ndarray], name: str, where: np.ndarray) -> Table:
    """Return the table of a task.

    Args:
        scores: of each row, float [Q].
        name: the task.
        where: bool, the Q queries among those of the records of `cause`.
    """
    records = [
        record
        for record in read_results(RESULTS)
        if record.experiment == "cause" and record.task == name
    ]
    overlap = records[0].overlap
    assert overlap is not None, "recorded with all runs of `cause`"
    questions = overlap.question[where]
    every = dict(scores)
    for row in RECORDED_ROWS:
        # of exact match, the statistic of a query is its score
        seeds = [
            record.statistics[where, 0]
            for record in records
            if record.row == row and record.statistics is not None
        ]
        every[f"{row} (recorded)"] = np.mean(seeds, axis=0)

    def number(values: np.ndarray, signed: bool = False) -> Number:
        sample = by_group(Sample(values[:, None], mean), questions)
        interval = bootstrap_interval(*sample).percent()
        return Number(interval.mean, signed=signed, interval=interval)

    body: list[list[Value]] = []
    for row, values in every.items():
        less: list[Value] = [None, None]
        if row != TOP_K:
            less[0] = number(values - scores[TOP_K], signed=True)
        if row != OWN:
            less[1] = number(scores[OWN] - values, signed=True)
        body.append([row, number(values), *less])
    return Table(
        [f"exact match, {len(questions)} queries", name, "less top-k", f"{OWN} less it"], body
    )


if __name__ == "__main__":
    script(main)
