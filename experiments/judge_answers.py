"""Answers with the examples that the weights of `judge.py` prefer, beside the nearest by the last
layer of the encoder and by its third.

    python experiments/judge_answers.py --stages RUNS --data-dir DATA --out OUT \\
        --record experiments/results.jsonl
    python experiments/results.py --experiment judge --minus "dense top-k" "top-k, layer 3"

RUNS is as in `judge.py`. The judge chooses among a query's 50 nearest examples by the last layer:
those with the largest w · φ. w is learnt from EPR's candidates of the tasks of other families; on
tasks whose outputs are no programs, without the features of programs. "own scores" is the same with
w from the task's own scores, on tasks that have some.

Where the metric is exact match, one pass over prompt and right answer says whether the LM would
write it (`peers/counted.py`); OUT is for nothing else, because wrong answers are not written there.
Weights, choices and answers lie in OUT, and what is there is not made again. `--only-choose` stops
before the LM is asked.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from harness.beside import beside
from harness.command import script
from harness.grid import Cell, Entry, Grid, records_of
from harness.results_file import RESULTS, Published, keep
from judge import RECORDED, SMALL, WITHOUT_PROGRAMS, Scored, centred, fit, pairs_of, read
from judge_features import LAYERS, NAMES, Pairs, layer_vectors
from peers.counted import CountedLM

from ceil_jax.methods.epr import EPR
from ceil_jax.pipeline import method_stages, row_stages
from ceil_jax.pipeline.answering import Predictions
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, NamedLM
from ceil_jax.pipeline.setup import Session
from ceil_jax.pipeline.stage import Run, Stage, unkeyed
from ceil_jax.retrieval.nearest import nearest
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.folder import load_arrays, read_json, save_arrays, write_json
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.structures import structure_parser_of

EXPERIMENTS = {
    "judge": ("mtop", "webqs", "cmsqa", "nl2bash"),
    "judge_splits": ("cogs.ps", "geoquery.template"),
}
"""The tasks of the bet, and those whose queries combine known parts in new ways."""
TASKS = tuple(chain(*EXPERIMENTS.values()))
QUERIES = {"nl2bash": 100}
"""Queries of a task that writes; of the others 200."""
SHORTLIST = 50
INNER = 3
"""The layer, fixed before its first answer."""
TOP_K = "dense top-k"
LAYER = f"top-k, layer {INNER}"
JUDGE = "judge"
OWN = "own scores"
ROWS = (TOP_K, LAYER, JUDGE, OWN)


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


class CheckingModels(Models):
    """Models whose LM says of exact answers whether it would write them."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def load_lm(self, lm: NamedLM) -> CountedLM:
        return CountedLM(super().load_lm(lm), self._task, self._task.validation)


def weights(stored: Mapping[str, Scored], task: str, programs: bool) -> dict[str, np.ndarray]:
    """Return w of a task's rows, float [F].

    Args:
        stored: EPR's candidates of each task that has scores.
        task: the task that is answered; none of its family teaches the judge.
        programs: whether its outputs are programs.
    """
    family = task.partition(".")[0]
    others = [part for name, part in stored.items() if name.partition(".")[0] != family]
    found = {JUDGE: fit(others, used=None if programs else WITHOUT_PROGRAMS)}
    if task in stored:
        found[OWN] = fit([stored[task]])
    return found


def best(
    features: np.ndarray, shortlist: np.ndarray, scale: np.ndarray, w: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k examples of each shortlist with the largest w · φ, best first, and w · φ of each,
    int and float [Q, k].

    Args:
        features: of the queries with their shortlists, float [Q, n, F].
        shortlist: bank positions, int [Q, n].
        scale: what features are divided by, float [F].
        w: weights, float [F].
        k: examples of a query.
    """
    scores = ((features - features.mean(axis=1, keepdims=True)) / scale) @ w
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(shortlist, order, axis=1),
        np.take_along_axis(scores, order, axis=1),
    )


def choices(session: Session, learnt: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return positions and relevance of every row's examples but those of the nearest, float
    [2, Q, k].

    Features are divided by their standard deviation over the candidates of EPR, which no LM
    scores here.
    """
    setup = session.setup
    config = setup.config
    queries = setup.task.validation
    bank = setup.task.train
    pairs = pairs_of(setup)
    asked = layer_vectors(pairs.encoder, [query.input for query in queries])
    held = layer_vectors(pairs.encoder, [example.input for example in bank])
    own = OwnRows(bank, "id")(queries)
    relevance, positions = nearest(asked[INNER], held[INNER], own, config.shots)
    found = {LAYER: np.stack([positions, relevance])}
    shortlist = nearest(asked[LAYERS - 1], held[LAYERS - 1], own, SHORTLIST)[1]
    features = pairs.features(shortlist, queries)
    scale = _scale(session, pairs)
    for row, w in learnt.items():
        found[row] = np.stack(best(features, shortlist, scale, w, config.shots))
    return found


def _scale(session: Session, pairs: Pairs) -> np.ndarray:
    """The standard deviations of the features of EPR's candidates, float [F]."""
    run, setup = session
    epr = setup.config.method(EPR)
    sampler = epr.candidate_sampler(len(setup.bank))
    queries = method_stages.training_queries(setup, epr)
    shortlist, _ = run.get(method_stages.candidate_sets(setup.for_all_seeds, epr, sampler, queries))
    return centred(pairs.features(shortlist))[1]


def answered(session: Session, base: Published, row: str, choice: Given) -> Published:
    """Return the record of the LM's answers with given examples."""
    run, setup = session
    metric = row_stages.metric(setup, setup.row("topk"))
    answers = metric.predictions
    assert isinstance(answers, Predictions)
    other: Any = choice
    predictions = replace(answers, choice=other, label=row)
    stage = replace(metric, predictions=predictions)
    measured = run.get(stage)
    shown = [len(one["examples"]) for one in run.get(predictions)]
    return beside(base, row, measured.statistics, run.cost([stage]), float(np.mean(shown)))


def config_of(task: str, options: argparse.Namespace) -> RunConfig:
    """Return a task's configuration."""
    return replace(
        RECORDED.get(task, SMALL),
        task=task,
        data_dir=options.data_dir,
        limit=QUERIES.get(task, 200),
        dtype=options.dtype,
        out=options.out / task,
    )


def task_of(config: RunConfig) -> Task:
    """Return the task of a configuration."""
    return load_task(
        config.task, config.data_dir, config.limit, config.data_seed, bank_limit=config.bank_limit
    )


def has_programs(examples: Sequence[Example]) -> bool:
    """Return whether the outputs are programs."""
    return structure_parser_of(examples) is not None


def learnt_weights(
    options: argparse.Namespace, tasks: Mapping[str, Task]
) -> dict[str, dict[str, np.ndarray]]:
    """Return w of every task's rows; from OUT if it is there."""
    file = options.out / "weights.json"
    known: dict[str, Any] = read_json(file) if file.is_file() else {}
    if missing := [name for name in tasks if name not in known]:
        stored = {}
        for name, config in RECORDED.items():
            there = replace(config, task=name, data_dir=options.data_dir, out=options.stages / name)
            stored[name] = read(there).candidates
        for name in missing:
            found = weights(stored, name, has_programs(tasks[name].train))
            known[name] = {
                row: dict(zip(NAMES, w.tolist(), strict=True)) for row, w in found.items()
            }
        options.out.mkdir(parents=True, exist_ok=True)
        write_json(file, known)
    return {
        name: {row: np.array([w[feature] for feature in NAMES]) for row, w in known[name].items()}
        for name in tasks
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", type=Path, required=True, help="a folder of runs for each task")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the answers")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--only-choose", action="store_true", help="ask no LM")
    parser.add_argument("--record", type=Path, default=RESULTS, help="a results file")
    options = parser.parse_args(arguments)
    configs = {name: config_of(name, options) for name in options.tasks}
    tasks = {name: task_of(config) for name, config in configs.items()}
    learnt = learnt_weights(options, tasks)
    for name, config in configs.items():
        grid = Grid(CheckingModels(tasks[name]))
        cell = Cell(config, "topk")
        session = grid.open(cell)
        file = config.out / "choices.npz"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            save_arrays(file, **choices(session, learnt[name]))
        if options.only_choose:
            continue
        experiment = next(one for one, there in EXPERIMENTS.items() if name in there)
        [base] = records_of([grid.measure(Entry(TOP_K, name, cell), (0,))], experiment)
        found = [base]
        for row, (positions, relevance) in load_arrays(file).items():
            if row in options.rows:
                stage = given(positions.astype(np.int32), relevance)
                found.append(answered(session, base, row, stage))
        keep(options.record, found)
        print(f"{name}: " + ", ".join(f"{one.row} {one.value:.1f}" for one in found), flush=True)


if __name__ == "__main__":
    script(main)
