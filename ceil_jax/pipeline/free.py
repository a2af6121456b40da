"""Trained methods that need no LM: they learn from the outputs of the bank (`training.free`).

`head` (tasks with choices), `structures` (outputs that parse) and `adapter` (any outputs) are one method each;
`free` is the one among them, and the untrained encoder, whose nearest examples have the outputs most like those of
held-out rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.pipeline.choosing import KeptSets
from ceil_jax.pipeline.encoders import Encoders, Lesson, Training, Weights, kept
from ceil_jax.pipeline.methods import register_method
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.store.folder import write_json
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.free.choice import Fits, agreement, best_free, cross_fitted_shortlists, measured_by
from ceil_jax.training.free.encoder import PARSERS, SETTINGS, FreeEncoder, observe
from ceil_jax.training.free.fitting import fit_adapter
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.rows import Cosine, FreeMethod, Observed
from ceil_jax.training.free.structures import fit_structure_head

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
    parser = structure_parser_of(task)
    name = next((name for name, one in PARSERS.items() if one is parser), "")
    [only] = choices if len(choices) == 1 else [()]
    return FreeSettings(tuple(sorted({example.output for example in task.train})) if only else (), name)


def classifies(task: Task) -> str:
    """Return why a classifier of labels does not apply to a task; "" if it does."""
    settings = free_settings(task)
    if len(settings.labels) > 1:
        return ""
    return f"{task.name} has no labels that all of its examples choose among"


def _parses(task: Task) -> str:
    return (
        "" if free_settings(task).parser else f"the outputs of {task.name} are no programs that can be parsed"
    )


def _rows(lesson: Lesson, settings: FreeSettings) -> Observed:
    return _seen(lesson.kept(_base(lesson.start)), lesson.bank, settings)


def _seen(encoder: Any, bank: Sequence[Example], settings: FreeSettings) -> Observed:
    """The bank as free methods see it."""
    return observe(encoder, bank, parser=settings.parser, output_vectors=not settings.labels)


@dataclass(frozen=True)
class CrossFitted(KeptSets):
    """Single candidates of training queries, by a free method that was trained without the query's own output.

    A method that has seen a query's output finds examples of that output better than it will for a new query.
    """

    weights: Weights
    positions: np.ndarray
    count: int

    @property
    def what(self) -> str:
        return f"finding single candidates ({self.weights.training.title})"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        settings: FreeSettings = self.weights.settings
        taken = (run.summary(self.weights) or {}).get("taken", self.weights.training.name)
        rows = _seen(kept(run, _base(run.get(self.weights.start))), run.get(self.weights.bank), settings)
        near = cross_fitted_shortlists(_fits(settings)[taken], rows, self.count)[self.positions]
        count = np.arange(self.count, dtype=np.int32)[None, :, None]
        return self.save(folder, CandidateSets(near, np.broadcast_to(count, (*near.shape, 1))))


def _cross_fitted(name: str) -> Callable[[Any, Any, int], Stage[CandidateSets]]:
    return lambda graph, queries, count: CrossFitted(graph.encoders(name), queries.positions, count)


def _base(start: Encoders) -> Any:
    return start.query.base if isinstance(start.query, FreeEncoder) else start.query


def _keep(lesson: Lesson, method: FreeMethod, rows: Observed, settings: FreeSettings) -> None:
    if isinstance(method, Cosine):
        write_json(lesson.folder / SETTINGS, {"method": ""})
        return
    pairs = rows.parts is not None
    FreeEncoder(_base(lesson.start), method, None, settings.parser, pairs).save_method(lesson.folder)


def _load(folder: Path, start: Encoders) -> Encoders:
    if not (folder / "free.npz").exists():
        return start
    one: Any = FreeEncoder.from_pretrained(folder, _base(start))
    return Encoders(one, one)


def _fits(settings: FreeSettings) -> Fits:
    """The free methods that apply."""
    found: dict[str, Callable[[Observed], FreeMethod]] = {"cosine": lambda rows: Cosine()}
    if settings.labels:
        found["head"] = fit_label_head
    if settings.parser:
        found["structures"] = fit_structure_head
    labels = settings.labels
    found["adapter"] = lambda rows: fit_adapter(rows, measured_by(rows, bool(labels)), labels=labels)
    return found


def _train(name: str) -> Callable[[Lesson], Mapping[str, Any]]:
    def train(lesson: Lesson) -> Mapping[str, Any]:
        settings: FreeSettings = lesson.settings
        rows = _rows(lesson, settings)
        method = _fits(settings)[name](rows)
        _keep(lesson, method, rows, settings)
        return {"bank": len(lesson.bank)}

    return train


def _train_best(lesson: Lesson) -> Mapping[str, Any]:
    settings: FreeSettings = lesson.settings
    rows, fits = _rows(lesson, settings), _fits(settings)
    kind = measured_by(rows, bool(settings.labels))
    found = agreement(fits, rows, kind, min(_JUDGED_BY, len(lesson.bank) // 2))
    best = best_free(found)
    said = ", ".join(f"{name} {values.mean():.3f}" for name, values in found.items())
    log.info("free supervision, by %s of held-out rows of the bank: %s; taken: %s", kind, said, best)
    _keep(lesson, fits[best](rows), rows, settings)
    return {"bank": len(lesson.bank), "taken": best, **{name: float(v.mean()) for name, v in found.items()}}


def _free(name: str, title: str, train: Any, applies: Callable[[Task], str] = lambda task: "") -> Training:
    return Training(
        name=name,
        title=title,
        train=train,
        load=_load,
        settings=lambda graph: free_settings(graph.task),
        applies=applies,
        candidates=_cross_fitted(name),
        lm_tokens=False,
    )


HEAD = _free("head", "label head", _train("head"), classifies)
"""P(the example's label | query) by logistic regression on the bank, + ½ cosine."""

STRUCTURES = _free("structures", "structures", _train("structures"), _parses)
"""Expected overlap of the query's predicted local structures with an example's (after Levy et al., ACL 2023)."""

ADAPTER = _free("adapter", "adapter", _train("adapter"))
"""Target similarity tuning of a small map on each side of the vectors, on all of the bank (Poesia et al., 2022)."""

FREE = _free("free", "free", _train_best)
"""The one of them that held-out rows of the bank favour, or cosines where none is better beyond noise."""

register_method("head", "dense", "label head", HEAD)
register_method("head_map", "dpp", "label head + MAP", HEAD, against=("head",))
register_method("classifier", "zero", "classifier alone", HEAD, against=("majority",), answers="classifier")
register_method("structures", "dense", "structures", STRUCTURES)
register_method("cover", "cover", "structures, covered", STRUCTURES, against=("structures", "topk"))
register_method("adapter", "dense", "adapter on outputs", ADAPTER)
register_method("free", "dense", "free", FREE)
register_method("free_map", "dpp", "free + MAP", FREE, against=("free", "classifier"))
