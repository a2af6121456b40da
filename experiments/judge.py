"""A judge that transfers: what an LM prefers, learnt from stored scores by a linear head on features
that need no LM. It reads the stages of earlier runs and asks no LM.

    python experiments/judge.py --stages RUNS --data-dir DATA

RUNS holds a folder for each task: those of `cause.py` on `cogs.ps`, `geoquery.template` and `mtop`,
and that of `paper_size.py` on `geoquery`, all with `--dtype bfloat16` (RECORDED has their flags). A
task without a folder is left out.

r(query, example) = w · φ, with the features φ of `judge_features`; a set's score is the mean of its
examples'. w minimises the logistic loss of a query's pairs of candidates, all pairs alike, all
queries of a task alike, and all tasks alike. Features are centred over a query's shortlist and
divided by their standard deviation on the task, which no score enters. Tables follow:

- *transfer*: w from the other tasks' scores, against half of the rise of EPR that was trained on
  the task's own. GeoQuery's two splits share examples, and are left out together;
- *first*: the LM's score of the candidate that each of these would choose;
- *alone*: the cosines of the encoder's inner layers, and the share of words, without any score;
- *covered*: what the nearest examples by each layer cover of the reported queries' programs
  (`determinant.coverage`);
- *kinds*: w from each kind of stored candidates, judged by the order of held-out ones of each kind,
  and how well two halves of an example's scores agree;
- *strata*: with half of the scores, four candidates of every query and nine more where the range of
  these four is wide, against other ways to spend as many.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from determinant import coverage
from harness.command import script
from judge_features import LAYERS, NAMES, Pairs, layer_vectors
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import pearsonr

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.methods.base import LearnsFromScores
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.untrained import Untrained
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, by_group, mean
from ceil_jax.pipeline import method_stages
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.pipeline.method_stages import bank_queries
from ceil_jax.pipeline.models import CountingModels
from ceil_jax.pipeline.setup import Session, Setup, open_run
from ceil_jax.report.table import Number, Table, Value, signed
from ceil_jax.retrieval.index import top_k
from ceil_jax.store.folder import DONE, read_json
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.load import load_task
from ceil_jax.tasks.structures import programs
from ceil_jax.training.free.head import fold_numbers
from ceil_jax.training.losses import ranking_quality

PENALTY = 0.01
"""L2: half of it times the squared weights is added to the mean loss."""
SEEDS = (0, 1, 2)
"""The seeds of EPR's trainings, which hold out the queries that judge."""
DRAWS = 10
"""Random choices of queries for each split, in the table of strata, and of halves."""
PARTS = 5
"""Parts of the cross-fitting of a task's own scores."""
PICKED = ("cosine, layer 3", "cosine, layer 5", "words: recall", "BM25 of inputs")
"""Features that order candidates as they are, beside the cosine."""
SHOTS = 4
"""Nearest examples whose coverage is measured."""
FIRST = 4
"""Candidates that every query gets before the range decides."""

MODELS: dict[str, Any] = {"encoder": "all-MiniLM-L6-v2", "lm": "SmolLM2-135M-Instruct"}
SMALL = replace(SCALES["small"], **MODELS, dtype="bfloat16")
PAPER = replace(SCALES["paper"], **MODELS, dtype="bfloat16")
RECORDED: dict[str, RunConfig] = {
    "cogs.ps": replace(SMALL, bank_limit=1000, limit=400),
    "geoquery.template": replace(SMALL, limit=1000),
    "mtop": replace(SMALL, limit=400),
    "geoquery": PAPER,
}
"""The configuration of each task's stages."""

EPRS = "EPR's candidates (BM25)"
KINDS: dict[str, Callable[[RunConfig], LearnsFromScores]] = {
    EPRS: lambda config: config.method(EPR),
    "near singles": lambda config: replace(config.method(CEIL), size=1, start=Untrained()),
    "near sets": lambda config: replace(config.method(CEIL), start=Untrained()),
    "EPR's nearest singles": lambda config: replace(config.method(CEIL), size=1),
    "EPR's nearest sets": lambda config: config.method(CEIL),
}
"""The method whose scored candidates each kind is."""


class Scored(NamedTuple):
    """The candidates of Q queries, their features and the LM's scores."""

    features: np.ndarray
    """float [Q, M, F]: means over a candidate's examples of centred features."""
    lm_scores: np.ndarray
    """float [Q, M]."""
    examples: np.ndarray
    """int [Q, M, k]: bank positions."""
    scale: np.ndarray
    """float [F]: the standard deviations that the features were divided by."""

    def take(self, queries: np.ndarray, candidates: int | None = None) -> Scored:
        """Return those of some queries, all of their candidates or the first few."""
        return self._replace(
            features=self.features[queries, :candidates],
            lm_scores=self.lm_scores[queries, :candidates],
            examples=self.examples[queries, :candidates],
        )

    @property
    def compared(self) -> np.ndarray:
        """bool [Q, M, M]: the first candidate of a pair is better than the second."""
        return self.lm_scores[:, :, None] > self.lm_scores[:, None, :]


class Rise(NamedTuple):
    """Held-out τ of a training's start, and of its weights averaged over its last quarter."""

    start: float
    end: float


@dataclass(frozen=True)
class Stored:
    """A task whose candidates have been scored."""

    config: RunConfig
    task: Task
    kinds: Mapping[str, Scored]
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    """(training, held-out) numbers of queries, for each of SEEDS that was run."""
    rises: Sequence[Rise]
    """EPR's, likewise."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.config.task

    @property
    def family(self) -> str:
        """Tasks of one family share examples."""
        return self.name.partition(".")[0]

    def by_query(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of each query's values; `values` are those of all splits' held-out
        queries, one after the other. Queries that several splits hold out count once."""
        queries = np.concatenate([outside for _, outside in self.splits])
        _, number = np.unique(queries, return_inverse=True)
        return np.bincount(number, values) / np.bincount(number)

    @cached_property
    def candidates(self) -> Scored:
        """EPR's."""
        return self.kinds[EPRS]


def read(config: RunConfig) -> Stored:
    """Return the stored candidates and scores of a task.

    Raises:
        UserError: the folder lacks the candidates of EPR or their scores.
    """
    task = load_task(
        config.task, config.data_dir, config.limit, config.data_seed, bank_limit=config.bank_limit
    )
    # stages are found by the names of models; no LM is loaded
    run, setup = open_run(config, task, CountingModels())
    pairs = pairs_of(setup)
    kinds = {}
    features: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    for kind, method in KINDS.items():
        stage = method_stages.scored_candidates(setup, method(config))
        if run.missing([stage]):
            continue
        (shortlist, subsets), _ = run.get(stage)
        lm_scores = run.get(stage.scores)["lm_scores"]
        key = shortlist.tobytes()
        if key not in features:
            features[key] = centred(pairs.features(shortlist))
        singles, scale = features[key]
        query = np.arange(len(shortlist))[:, None, None]
        kinds[kind] = Scored(
            singles[query, subsets].mean(axis=2), lm_scores, shortlist[query, subsets], scale
        )
    if EPRS not in kinds:
        raise UserError(f"{config.out}: no scores of EPR's candidates for {config.task}")
    splits, rises = trainings(Session(run, setup))
    return Stored(config, task, kinds, splits, rises)


def pairs_of(setup: Setup) -> Pairs:
    """Return the features of EPR's training queries with the bank."""
    count = setup.config.method(EPR).training_query_count
    encoder: Any = load_encoder(setup.config.encoder)
    return Pairs(encoder, setup.task.train, bank_queries(setup, count).positions)


def trainings(session: Session) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[Rise]]:
    """Return the (training, held-out) numbers of queries of each of EPR's trainings, and how far τ
    rose on the latter. The weights need not be there."""
    run, setup = session
    epr = setup.config.method(EPR)
    positions = bank_queries(setup, epr.training_query_count).positions
    splits = []
    rises = []
    for seed in SEEDS:
        seeded = replace(setup, config=replace(setup.config, seed=seed))
        file = run.folder(method_stages.trained_encoders(seeded, epr)) / DONE
        if file.is_file():
            training, held_out = method_stages.split_queries(seeded, epr)
            splits.append(
                (np.searchsorted(positions, training), np.searchsorted(positions, held_out))
            )
            quality = read_json(file)["summary"]["ending"]["quality"]
            rises.append(Rise(quality["start"], quality["average"]))
    return splits, rises


def centred(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return features less their mean over each query's shortlist, divided by the standard deviation
    of what is left on the task, float [Q, n, F], and these deviations, float [F]."""
    less = features - features.mean(axis=1, keepdims=True)
    scale = np.maximum(less.std(axis=(0, 1)), 1e-6)
    return less / scale, scale


def fit(
    parts: Sequence[Scored], *, extremes: bool = False, used: np.ndarray | None = None
) -> np.ndarray:
    """Return w, float [F], which minimises the mean over parts of the mean over queries of the mean
    logistic loss of a query's pairs.

    Args:
        parts: the candidates of each task.
        extremes: take the pair of a query's best and worst candidate alone; by default all pairs.
        used: bool [F], features that may have a weight; by default all.
    """
    masks = [_extremes(part) if extremes else part.compared for part in parts]
    allowed = np.ones(len(NAMES), bool) if used is None else used

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        total = 0.5 * PENALTY * float(w @ w)
        gradient = PENALTY * w
        for part, mask in zip(parts, masks, strict=True):
            scores = part.features @ w
            weight = mask / np.maximum(mask.sum(axis=(1, 2), keepdims=True), 1) / len(mask)
            gaps = scores[:, :, None] - scores[:, None, :]
            total += float((weight * np.logaddexp(0, -gaps)).sum()) / len(parts)
            pull = weight * expit(-gaps) / len(parts)
            by_candidate = pull.sum(axis=1) - pull.sum(axis=2)
            gradient = gradient + np.einsum("qm,qmf->f", by_candidate, part.features)
        return total, gradient * allowed

    return minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B").x


def _extremes(part: Scored) -> np.ndarray:
    """bool [Q, M, M]: the best candidate of a query before its worst."""
    query = np.arange(len(part.lm_scores))
    mask = np.zeros_like(part.compared)
    mask[query, part.lm_scores.argmax(axis=1), part.lm_scores.argmin(axis=1)] = True
    return mask & part.compared


def tau(part: Scored, w: np.ndarray) -> np.ndarray:
    """Return Kendall's τ of w · φ and the LM's scores, float [Q]."""
    return np.asarray(ranking_quality((part.features @ w).astype(np.float32), part.lm_scores))


def alone(name: str) -> np.ndarray:
    """Return the w that takes one feature as it is."""
    return np.array([float(feature == name) for feature in NAMES])


def by_structures(part: Scored) -> np.ndarray:
    """Return the w of `free`'s relevance: the cosine of structures + ½ cosine of inputs."""
    return part.scale * (alone("structures: cosine") + 0.5 * alone("cosine"))


UNTRAINED: dict[str, Callable[[Scored], np.ndarray]] = {
    "cosine": lambda part: alone("cosine"),
    "BM25 of inputs": lambda part: alone("BM25 of inputs"),
    "`free`": by_structures,
}
"""The weights of what orders candidates without any score."""
WITHOUT_PROGRAMS = np.array(["structures" not in name and "expected" not in name for name in NAMES])
"""The features that tasks have whose outputs are no programs."""


def measured(values: np.ndarray) -> Number:
    """Return a mean over queries with its interval."""
    return _number(bootstrap_interval(values), False)


def difference(values: np.ndarray) -> Number:
    """Return a mean difference over queries with its interval."""
    return _number(bootstrap_interval(values), True)


def _number(interval: Interval, is_difference: bool) -> Number:
    return Number(interval.mean, digits=3, signed=is_difference, interval=interval)


def transfer(tasks: Sequence[Stored]) -> tuple[Table, Table]:
    """Return the table of the rule, on EPR's held-out queries, and that of all queries, on EPR's
    candidates and on near ones."""
    rule: list[list[Value]] = []
    everywhere: list[list[Value]] = []
    for task in tasks:
        others = [other.candidates for other in tasks if other.family != task.family]
        judge = fit(others)
        plain = fit(others, used=WITHOUT_PROGRAMS)
        start, end = np.mean(task.rises, axis=0)
        half = (start + end) / 2
        held_out = [task.candidates.take(outside) for _, outside in task.splits]
        own_weights = [fit([task.candidates.take(inside)]) for inside, _ in task.splits]

        def reached(weights: Sequence[np.ndarray], parts: Sequence[Scored] = held_out) -> float:
            taus = [tau(part, w).mean() for part, w in zip(parts, weights, strict=True)]
            return float(np.mean(taus))

        numbers = [reached([weigh(part) for part in held_out]) for weigh in UNTRAINED.values()]
        numbers += [float(start), float(end), float(half)]
        judged = reached([judge] * len(held_out))
        numbers += [judged, reached([plain] * len(held_out)), reached(own_weights)]
        verdict = "yes" if judged >= half else "no"
        rule.append([task.name, *(Number(number, digits=3) for number in numbers), verdict])
        for kind in (EPRS, "near singles"):
            if kind in task.kinds:
                part = task.kinds[kind]
                by_judge = tau(part, judge)
                by_plain = tau(part, plain)
                by_cosine = tau(part, alone("cosine"))
                everywhere.append(
                    [
                        f"{task.name}, {kind}",
                        len(by_judge),
                        measured(by_judge),
                        difference(by_judge - by_cosine),
                        difference(by_judge - tau(part, by_structures(part))),
                        difference(by_plain - by_cosine),
                    ]
                )
    judges = ["judge", "judge, no programs", "own scores"]
    header = ["task", *UNTRAINED, "EPR's start", "EPR", "half-way", *judges, "met"]
    further = ["all queries", "number", "judge", "less cosine", "less `free`"]
    further.append("judge, no programs, less cosine")
    return Table(header, rule), Table(further, everywhere)


def picked(tasks: Sequence[Stored]) -> Table:
    """Return the mean LM score, nats, of the candidate that comes first by the encoder's cosine, and
    how much more that of others is: first by other weights, any one, and the best there is. The
    task's own scores are cross-fitted."""
    body: list[list[Value]] = []
    for kind in (EPRS, "near singles"):
        for task in tasks:
            if kind not in task.kinds:
                continue
            part = task.kinds[kind]
            candidates = task.candidates
            others = [other.candidates for other in tasks if other.family != task.family]
            by_cosine = _first(part, alone("cosine"))
            crossed = np.empty(len(by_cosine))
            folds = fold_numbers(len(by_cosine), PARTS)
            for fold in range(PARTS):
                inside = np.flatnonzero(folds == fold)
                w = fit([candidates.take(np.flatnonzero(folds != fold))])
                crossed[inside] = _first(part.take(inside), w)
            scores_of_first = [
                *(_first(part, alone(name)) for name in PICKED),
                _first(part, by_structures(part)),
                _first(part, fit(others)),
                crossed,
                part.lm_scores.mean(axis=1),
                part.lm_scores.max(axis=1),
            ]
            less = [bootstrap_interval(values - by_cosine) for values in scores_of_first]
            numbers = [Number(interval.mean, signed=True, interval=interval) for interval in less]
            body.append([f"{task.name}, {kind}", Number(float(by_cosine.mean())), *numbers])
    header = ["first by", "cosine", *PICKED, "`free`", "judge", "own scores", "any", "the best"]
    return Table(header, body)


def _first(part: Scored, w: np.ndarray) -> np.ndarray:
    """The LM score of each query's candidate with the largest w · φ, float [Q]."""
    return part.lm_scores[np.arange(len(part.lm_scores)), (part.features @ w).argmax(axis=1)]


def layers(tasks: Sequence[Stored]) -> Table:
    """Return τ of the encoder's own cosine, and what the cosine of every other layer and the share of
    the query's words have beyond it, on all queries."""
    others = [*(name for name in NAMES if name.startswith("cosine, layer")), "words: recall"]
    parts = {
        f"{task.name}, {kind}": task.kinds[kind]
        for kind in (EPRS, "near singles")
        for task in tasks
        if kind in task.kinds
    }
    by_cosine = {name: tau(part, alone("cosine")) for name, part in parts.items()}
    body: list[list[Value]] = [
        ["cosine, last layer", *(measured(by_cosine[name]) for name in parts)]
    ]
    for other in others:
        less = [tau(part, alone(other)) - by_cosine[name] for name, part in parts.items()]
        body.append([other, *(difference(values) for values in less)])
    return Table(["alone", *parts], body)


def covered(tasks: Sequence[Stored]) -> Table:
    """Return the share of the reported queries' names and edges that their nearest examples by each
    layer have together, percent, less that by the last layer; intervals resample programs."""
    columns: dict[str, list[Value]] = {}
    for stored in tasks:
        task = stored.task
        encoder: Any = load_encoder(stored.config.encoder)
        examples = layer_vectors(encoder, [example.input for example in task.train])
        queries = layer_vectors(encoder, [query.input for query in task.validation])
        groups = programs(task.validation, task.train)
        shares = [
            coverage(task, top_k(query_vectors, example_vectors, SHOTS)[1])
            for query_vectors, example_vectors in zip(queries, examples, strict=True)
        ]
        column: list[Value] = [Number(100 * float(shares[-1].mean()))]
        for share in shares[:-1]:
            less = by_group(Sample((share - shares[-1])[:, None], mean), groups)
            column.append(signed(bootstrap_interval(*less).percent()))
        columns[stored.name] = column
    names = ["last layer", *(f"layer {layer}" for layer in range(LAYERS - 1))]
    body: list[list[Value]] = [
        [name, *line] for name, *line in zip(names, *columns.values(), strict=True)
    ]
    return Table([f"coverage, K = {SHOTS}", *columns], body)


def heaviest(tasks: Sequence[Stored], count: int = 10) -> Table:
    """Return the heaviest features of a judge of all tasks, with those of each task's own."""
    together = fit([task.candidates for task in tasks])
    by_task = [fit([task.candidates]) for task in tasks]
    body = [
        [NAMES[i], *(Number(float(w[i]), digits=2, signed=True) for w in (together, *by_task))]
        for i in np.argsort(-np.abs(together))[:count]
    ]
    return Table(["feature", "all", *(task.name for task in tasks)], body)


def kinds(tasks: Sequence[Stored]) -> tuple[Table, Table]:
    """Return how well w from each kind of candidates orders held-out ones of every kind, the mean
    over the tasks that have all kinds, and the same for singles by task, less EPR's candidates."""
    whole = [task for task in tasks if len(task.kinds) == len(KINDS)]
    learners = {kind: (kind, False) for kind in KINDS}
    learners[f"{EPRS}, best and worst alone"] = (EPRS, True)
    learners["near singles, best and worst alone"] = ("near singles", True)
    taus: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for task in whole:
        for name, (kind, extremes) in learners.items():
            for inside, outside in task.splits:
                w = fit([task.kinds[kind].take(inside)], extremes=extremes)
                for other, part in task.kinds.items():
                    taus_of_kind = taus.setdefault(name, {}).setdefault(other, {})
                    here = tau(part.take(outside), w)
                    before = taus_of_kind.get(task.name, np.empty(0))
                    taus_of_kind[task.name] = np.concatenate([before, here])
    singles = [kind for kind in KINDS if "single" in kind or kind == EPRS]
    body: list[list[Value]] = []
    by_task: list[list[Value]] = []
    base = taus[EPRS]
    for name, taus_of_learner in taus.items():
        cells = [
            np.mean([values.mean() for values in taus_of_learner[kind].values()]) for kind in KINDS
        ]
        body.append([name, *(Number(float(cell), digits=3) for cell in cells)])
        line: list[Value] = [name]
        for task in whole:
            here = np.mean([taus_of_learner[kind][task.name] for kind in singles], axis=0)
            less = np.mean([base[kind][task.name] for kind in singles], axis=0)
            line.append(
                measured(task.by_query(here))
                if name == EPRS
                else difference(task.by_query(here - less))
            )
        by_task.append(line)
    header = ["w learnt from", *KINDS]
    return Table(header, body), Table(["singles", *(task.name for task in whole)], by_task)


def reliability(tasks: Sequence[Stored]) -> Table:
    """Return how well two random halves of an example's scores agree (Pearson's r over the examples
    of the bank with two scores or more), by kind and task, and how many scores each has."""
    body: list[list[Value]] = []
    for kind in KINDS:
        line: list[Value] = [kind]
        for task in tasks:
            part = task.kinds.get(kind)
            line.append(None if part is None else _halves(part))
        body.append(line)
    return Table(["r of two halves (scores an example)", *(task.name for task in tasks)], body)


def _halves(part: Scored) -> str:
    less = part.lm_scores - part.lm_scores.mean(axis=1, keepdims=True)
    less = less / np.maximum(less.std(axis=1, keepdims=True), 1e-6)
    size = part.examples.shape[2]
    example = part.examples.ravel()
    query = np.repeat(np.arange(len(less)), less.shape[1] * size)
    worth = np.repeat(less.ravel(), size)
    agreements = []
    for draw in range(DRAWS):
        half = np.random.default_rng(draw).integers(2, size=len(less))[query]
        count = np.zeros((2, example.max() + 1))
        total = np.zeros((2, example.max() + 1))
        np.add.at(count, (half, example), 1)
        np.add.at(total, (half, example), worth)
        both = (count > 0).all(axis=0)
        means = total[:, both] / count[:, both]
        agreements.append(correlation(*means))
    return f"{np.mean(agreements):.2f} ({len(worth) / len(np.unique(example)):.1f})"


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Pearson's r."""
    return float(pearsonr(x, y).statistic)


def company(tasks: Sequence[Stored]) -> Table:
    """Return how an example's score alone agrees with the mean score of the query's sets that hold
    it (Pearson's r within queries), and how many pairs of sets differ in one example."""
    body: list[list[Value]] = []
    for alone_kind, sets_kind in (
        ("near singles", "near sets"),
        ("EPR's nearest singles", "EPR's nearest sets"),
    ):
        for task in tasks:
            if alone_kind in task.kinds and sets_kind in task.kinds:
                singles = task.kinds[alone_kind]
                sets = task.kinds[sets_kind]
                points = np.array(list(_in_both(singles, sets)))
                query = points[:, 0].astype(int)
                means = np.zeros((len(singles.lm_scores), 2))
                np.add.at(means, query, points[:, 1:])
                counted = np.bincount(query, minlength=len(means))[:, None]
                less = points[:, 1:] - (means / np.maximum(counted, 1))[query]
                r = correlation(*less.T)
                body.append([sets_kind, task.name, len(points), Number(r, digits=2), _swaps(sets)])
    return Table(["sets", "task", "examples in both", "r", "pairs of sets but for one"], body)


def _in_both(singles: Scored, sets: Scored) -> Iterator[tuple[int, float, float]]:
    """Yield query, score alone and mean score in sets of each example that has both."""
    for query, (candidates, members) in enumerate(
        zip(singles.examples, sets.examples, strict=True)
    ):
        for position, example in enumerate(candidates[:, 0]):
            holds = (members == example).any(axis=1)
            if holds.any():
                in_sets = float(sets.lm_scores[query, holds].mean())
                yield query, float(singles.lm_scores[query, position]), in_sets


def _swaps(sets: Scored) -> int:
    size = sets.examples.shape[2]
    shared = sum(
        (sets.examples[:, :, None, :] == sets.examples[:, None, :, position, None]).any(axis=3)
        for position in range(size)
    )
    return int((np.triu(shared == size - 1, k=1)).sum())


def strata(tasks: Sequence[Stored], kind: str) -> Table:
    """Return held-out τ of w from half of a kind's scores, spent in four ways, less that from all of
    them."""
    body: list[list[Value]] = []
    for task in tasks:
        if kind not in task.kinds:
            continue
        part = task.kinds[kind]
        ways: dict[str, list[np.ndarray]] = {}
        for split, (inside, outside) in enumerate(task.splits):
            learnt = part.take(inside)
            held_out = part.take(outside)
            ways.setdefault("all", []).append(tau(held_out, fit([learnt])))
            taus: dict[str, list[np.ndarray]] = {}
            for draw in range(DRAWS):
                rng = np.random.default_rng([split, draw])
                for way, parts in _halved(learnt, rng).items():
                    taus.setdefault(way, []).append(tau(held_out, fit_queries(parts)))
            for way, values in taus.items():
                ways.setdefault(way, []).append(np.mean(values, axis=0))
        joined = {way: task.by_query(np.concatenate(values)) for way, values in ways.items()}
        full = joined.pop("all")
        wide = joined["wide"]
        body.append(
            [
                task.name,
                Number(float(full.mean()), digits=3),
                *(difference(values - full) for values in joined.values()),
                difference(wide - joined["some"]),
            ]
        )
    header = [
        f"{kind}",
        "all scores",
        f"{FIRST} for all, the rest where wide",
        f"{FIRST} for all, the rest anywhere",
        "all for half of the queries",
        "half for all queries",
        "where wide − half of the queries",
    ]
    return Table(header, body)


def _halved(part: Scored, rng: np.random.Generator) -> dict[str, list[Scored]]:
    """The ways of spending half of the scores: queries with few candidates and queries with all."""
    queries, count = part.lm_scores.shape
    whole = (queries * count // 2 - FIRST * queries) // (count - FIRST)
    order = rng.permutation(queries)
    first = part.lm_scores[:, :FIRST]
    widest = np.argsort(-np.ptp(first, axis=1), kind="stable")

    return {
        "wide": [part.take(widest[:whole]), part.take(widest[whole:], FIRST)],
        "anywhere": [part.take(order[:whole]), part.take(order[whole:], FIRST)],
        "some": [part.take(order[: queries // 2])],
        "few": [part.take(order, count // 2)],
    }


def fit_queries(parts: Sequence[Scored]) -> np.ndarray:
    """Return w of queries with different numbers of candidates, all queries alike."""
    most = max(part.lm_scores.shape[1] for part in parts)

    features = []
    lm_scores = []
    for part in parts:
        missing = most - part.lm_scores.shape[1]
        features.append(np.pad(part.features, ((0, 0), (0, missing), (0, 0))))
        # candidates of no score are in no pair
        lm_scores.append(np.pad(part.lm_scores, ((0, 0), (0, missing)), constant_values=np.nan))
    together = np.concatenate(features)
    return fit([parts[0]._replace(features=together, lm_scores=np.concatenate(lm_scores))])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", type=Path, required=True, help="a folder of runs for each task")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(RECORDED), choices=list(RECORDED))
    options = parser.parse_args(arguments)
    tasks = [
        read(replace(config, task=name, data_dir=options.data_dir, out=options.stages / name))
        for name, config in RECORDED.items()
        if name in options.tasks and (options.stages / name).is_dir()
    ]
    if len({task.family for task in tasks}) < 2:
        raise UserError(f"--stages {options.stages}: expected folders of two tasks or more")
    print_tables(tasks)


def print_tables(tasks: Sequence[Stored]) -> None:
    """Print all tables, each as soon as it is known."""

    def printed(title: str, *tables: Table) -> None:
        print(f"## {title}\n\n" + "\n".join(table.markdown() for table in tables), flush=True)

    printed("transfer", *transfer(tasks))
    printed("first", picked(tasks))
    printed("alone", layers(tasks))
    printed("covered", covered(tasks))
    printed("weights", heaviest(tasks))
    printed("kinds", *kinds(tasks))
    printed("reliability", reliability(tasks))
    printed("alone and in company", company(tasks))
    printed("strata", *(strata(tasks, kind) for kind in (EPRS, "near singles", "near sets")))


if __name__ == "__main__":
    script(main)
