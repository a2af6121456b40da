"""Trained methods on any encoder's vectors, most from the outputs of the bank, without an LM (`training.free`).

`head` (tasks with choices), `structures` (outputs that parse) and `adapter` (any outputs) are one method each; `free`
is the one among them and the untrained encoder whose nearest examples have outputs most like those of held-out rows.
`epr_adapter` and `ceil_adapter` go on from an adapter with the LM's scores.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ceil_jax.pipeline.encoders import Encoders, Lesson, Training, Weights, cached
from ceil_jax.pipeline.methods import register_method
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.pipeline.trainings import set_scores, single_scores
from ceil_jax.store.folder import load_arrays, save_arrays, write_json
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.free import objectives
from ceil_jax.training.free.choice import (
    Fit,
    Fits,
    agreement,
    best_free,
    cross_fitted_queries,
    measured_by,
)
from ceil_jax.training.free.encoder import PARSERS, SETTINGS, FreeEncoder, are_pairs, marks, observe
from ceil_jax.training.free.fitting import fit_adapter
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.rows import Cosine, FreeMethod, Observed
from ceil_jax.training.free.structures import fit_structure_head
from ceil_jax.training.losses import ceil_loss

log = logging.getLogger(__name__)

_JUDGED_BY = 4
"""Nearest examples of a held-out row by which a free method is judged."""


@dataclass(frozen=True)
class FreeSettings:
    """The kind of a task's outputs."""

    labels: tuple[str, ...] = ()
    """The choices, where all examples have the same ones."""
    parser: str = ""
    """The name of the outputs' parser, where they are programs."""


def free_settings(task: Task) -> FreeSettings:
    """Return what a task says of its outputs."""
    choices = {example.choices for example in task.train}
    parser = structure_parser_of(task.train)
    name = next((name for name, one in PARSERS.items() if one is parser), "")
    [only] = choices if len(choices) == 1 else [()]
    return FreeSettings(tuple(sorted({example.output for example in task.train})) if only else (), name)


def no_labels(task: Task) -> str:
    """Return why a classifier of labels does not apply to a task; "" if it does."""
    settings = free_settings(task)
    if len(settings.labels) > 1:
        return ""
    return f"{task.name} has no labels that all of its examples choose among"


def _no_programs(task: Task) -> str:
    return (
        "" if free_settings(task).parser else f"the outputs of {task.name} are no programs that can be parsed"
    )


def _rows(encoder: Any, bank: Sequence[Example], settings: FreeSettings) -> Observed:
    """The bank as free methods learn from it."""
    output_vectors = not settings.labels
    return observe(
        encoder, bank, pairs=are_pairs(bank), parser=settings.parser, output_vectors=output_vectors
    )


@dataclass(frozen=True)
class CrossFitted(Stage[np.ndarray]):
    """A free method's vectors of the bank's rows as queries, each without what that row's output has taught it."""

    version: ClassVar[int] = 2
    weights: Weights

    @property
    def what(self) -> str:
        return f"cross-fitting {self.weights.training.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        start, settings = run.get(self.weights.start), self.weights.settings
        rows = _rows(cached(run, _base(start)), run.get(self.weights.bank), settings)
        taken = run.summary(self.weights).get("taken", self.weights.training.name)
        trained = run.get(self.weights).query
        method = trained.method if isinstance(trained, FreeEncoder) else Cosine()
        save_arrays(
            folder / "vectors.npz", vectors=cross_fitted_queries(_fits(settings)[taken], method, rows)
        )
        return {}

    def load(self, run: Run, folder: Path) -> np.ndarray:
        return load_arrays(folder / "vectors.npz")["vectors"]


def _base(start: Encoders) -> Any:
    return start.query.base if isinstance(start.query, FreeEncoder) else start.query


def _load(folder: Path, start: Encoders) -> Encoders:
    if not (folder / "free.npz").exists():
        return start
    one: Any = FreeEncoder.from_pretrained(folder, _base(start))
    return Encoders(one, one)


def _fits(settings: FreeSettings) -> Fits:
    """The free methods that apply."""
    found: dict[str, Fit] = {"cosine": lambda rows, like=None: Cosine()}
    if settings.labels:
        found["head"] = fit_label_head
    if settings.parser:
        found["structures"] = fit_structure_head
    labels = settings.labels

    def adapter(rows: Observed, like: Any = None) -> FreeMethod:
        objective = objectives.tst(rows, measured_by(rows, bool(labels)))
        return fit_adapter(rows, objective, labels=labels, like=like)

    found["adapter"] = adapter
    return found


def _train(lesson: Lesson, name: str = "") -> Mapping[str, Any]:
    """Train a free method; without a name, the one that held-out rows of the bank favour."""
    settings: FreeSettings = lesson.settings
    rows, fits = _rows(lesson.cached(_base(lesson.start)), lesson.bank, settings), _fits(settings)
    found: Mapping[str, np.ndarray] = {}
    if not name:
        kind = measured_by(rows, bool(settings.labels))
        found = agreement(fits, rows, kind, min(_JUDGED_BY, len(lesson.bank) // 2))
        name = best_free(found)
        said = ", ".join(f"{one} {values.mean():.3f}" for one, values in found.items())
        log.info("free supervision, by held-out rows' %s: %s; taken (cosine in a tie): %s", kind, said, name)
    method = fits[name](rows)
    if isinstance(method, Cosine):
        write_json(lesson.folder / SETTINGS, {"method": ""})
    else:
        base, pairs = _base(lesson.start), rows.parts is not None
        learnt = marks(lesson.bank)
        FreeEncoder(base, method, None, settings.parser, pairs, learnt).save_method(lesson.folder)
    taken = {"taken": name, **{one: float(v.mean()) for one, v in found.items()}} if found else {}
    return {"bank": len(lesson.bank), **taken}


def _train_on_scores(
    objective: Callable[[Lesson], objectives.Objective], lesson: Lesson
) -> Mapping[str, Any]:
    """Train an adapter on the LM's scores, from the adapter that it starts from."""
    start: FreeEncoder = lesson.start.query  # type: ignore[assignment]
    method: Any = start.method
    rows = _rows(lesson.cached(start.base), lesson.bank, FreeSettings(method.labels, start.parser))
    found = fit_adapter(rows, objective(lesson), labels=method.labels, initial=method, seed=lesson.seed)
    replace(start, method=found).save_method(lesson.folder)
    return {"bank": len(lesson.bank)}


def _places(lesson: Lesson, data: TrainingData) -> np.ndarray:
    """int [Q]: the bank rows that are the training queries."""
    place = {example.id: i for i, example in enumerate(lesson.bank)}
    return np.array([place[query.id] for query in data.queries])


def _singles(lesson: Lesson) -> objectives.Objective:
    assert lesson.data is not None
    return objectives.epr(_places(lesson, lesson.data), lesson.data, lesson.settings.positives)


def _sets(lesson: Lesson) -> objectives.Objective:
    assert lesson.data is not None and lesson.trade_off is not None
    loss = ceil_loss(lesson.settings.loss, lesson.settings.loss_options)
    return objectives.ceil(_places(lesson, lesson.data), lesson.data, loss, lesson.trade_off)


def _free(name: str, title: str, train: Any, refusal: Callable[[Task], str] = lambda task: "") -> Training:
    return Training(
        name=name,
        title=title,
        train=train,
        load=_load,
        settings=lambda graph: free_settings(graph.task),
        refusal=refusal,
        cross_fitted=CrossFitted,
        lm_tokens=False,
    )


HEAD = _free("head", "label head", partial(_train, name="head"), no_labels)
"""P(the example's label | query) by logistic regression on the bank, + ½ cosine."""

STRUCTURES = _free("structures", "structures", partial(_train, name="structures"), _no_programs)
"""Expected overlap of the query's predicted local structures with an example's (after Levy et al., ACL 2023)."""

ADAPTER = _free("adapter", "adapter", partial(_train, name="adapter"))
"""Target similarity tuning of a small map on each side of the vectors, on all of the bank (Poesia et al., 2022)."""

FREE = _free("free", "free", _train)
"""The one of them that held-out rows of the bank favour, or cosines where none is better beyond noise."""

EPR_ADAPTER = Training(
    name="epr_adapter",
    title="EPR, adapter",
    scored=single_scores,
    train=partial(_train_on_scores, _singles),
    load=_load,
    settings=lambda graph: replace(graph.config.epr, initial="adapter"),
)
"""EPR's objective on vectors, from the adapter that the bank's outputs trained."""

CEIL_ADAPTER = Training(
    name="ceil_adapter",
    title="CEIL, adapter",
    scored=set_scores,
    train=partial(_train_on_scores, _sets),
    load=_load,
    settings=lambda graph: replace(graph.config.ceil, initial="epr_adapter"),
    sets=True,
)
"""CEIL's objective on vectors, from EPR's adapter."""

register_method("head", "dense", "label head", HEAD)
register_method("head_map", "dpp", "label head + MAP", HEAD, against=("head",))
register_method("classifier", "zero", "classifier alone", HEAD, against=("majority",), answers="classifier")
register_method("structures", "dense", "structures", STRUCTURES)
register_method("adapter", "dense", "adapter on outputs", ADAPTER)
register_method("free", "dense", "free", FREE)
register_method("free_map", "dpp", "free + MAP", FREE, against=("free", "classifier"))
register_method("epr_adapter", "dense", "EPR, adapter", EPR_ADAPTER, against=("adapter", "topk"))
register_method("ceil_adapter", "dpp", "CEIL, adapter", CEIL_ADAPTER, against=("epr_adapter", "topk"))
