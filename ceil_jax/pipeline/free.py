"""Trained methods that learn from the outputs of the bank, without an LM, on any encoder's vectors
(`training.free`).

`head` (outputs that are labels) and `structures` (outputs that parse) are one method each; `free` is the
one that applies, or the untrained encoder where its nearest examples have outputs as much like
those of held-out rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ceil_jax.pipeline.encoders import Encoders, Lesson, Training, Weights, cached
from ceil_jax.pipeline.methods import register_method
from ceil_jax.pipeline.stage import Run, Stage
from ceil_jax.store.folder import load_arrays, save_arrays, write_json
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.labels import labels_of
from ceil_jax.tasks.structures import structure_parser_of
from ceil_jax.training.free.choice import Fit, agreement, best_free, cross_fitted_queries
from ceil_jax.training.free.encoder import PARSERS, SETTINGS, FreeEncoder, are_pairs, marks, observe
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.free.rows import Cosine, Observed
from ceil_jax.training.free.structures import fit_structure_head

log = logging.getLogger(__name__)

_JUDGED_BY = 4
"""Nearest examples of a held-out row by which a free method is judged."""


@dataclass(frozen=True)
class FreeSettings:
    """The kind of a task's outputs."""

    labels: tuple[str, ...] = ()
    """The labels that the outputs are (`tasks.labels.labels_of`)."""
    parser: str = ""
    """The name of the outputs' parser, where they are programs."""


def free_settings(task: Task) -> FreeSettings:
    """Return what a task says of its outputs."""
    parser = structure_parser_of(task.train)
    name = next((name for name, one in PARSERS.items() if one is parser), "")
    return FreeSettings(labels_of(task.train), name)


def no_labels(task: Task) -> str:
    """Return why a classifier of labels does not apply to a task; "" if it does."""
    labels = free_settings(task).labels
    if len(labels) == 1:
        return f"all outputs of {task.name} are {labels[0]!r}; expected two labels or more"
    return "" if labels else f"the outputs of {task.name} are no labels that many examples share"


def _no_programs(task: Task) -> str:
    why = f"the outputs of {task.name} are no programs that can be parsed"
    return "" if free_settings(task).parser else why


def _rows(encoder: Any, bank: Sequence[Example], settings: FreeSettings) -> Observed:
    """The bank as free methods learn from it."""
    return observe(encoder, bank, pairs=are_pairs(bank), parser=settings.parser)


@dataclass(frozen=True)
class CrossFitted(Stage[np.ndarray]):
    """A free method's vectors of the bank's rows as queries, each without what that row's output
    has taught it."""

    version: ClassVar[int] = 2
    weights: Weights

    @property
    def what(self) -> str:
        return f"cross-fitting {self.weights.training.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        start, settings = run.get(self.weights.start), self.weights.settings
        rows = _rows(cached(run, _base(start)), run.get(self.weights.bank), settings)
        taken = run.summary(self.weights)["taken"]
        trained = run.get(self.weights).query
        method = trained.method if isinstance(trained, FreeEncoder) else Cosine()
        found = cross_fitted_queries(_fits(settings)[taken], method, rows)
        save_arrays(folder / "vectors.npz", vectors=found)
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


def _fits(settings: FreeSettings) -> dict[str, Fit]:
    """The free methods that apply."""
    found: dict[str, Fit] = {"cosine": lambda rows, like=None: Cosine()}
    if settings.labels:
        found["head"] = fit_label_head
    if settings.parser:
        found["structures"] = fit_structure_head
    return found


def _train(lesson: Lesson, name: str = "") -> Mapping[str, Any]:
    """Train a free method; without a name, the one that held-out rows of the bank favour."""
    settings: FreeSettings = lesson.settings
    rows, fits = _rows(lesson.cached(_base(lesson.start)), lesson.bank, settings), _fits(settings)
    found: Mapping[str, np.ndarray] = {}
    if not name and len(fits) > 1:
        kind: Literal["label", "structures"] = "label" if settings.labels else "structures"
        found = agreement(fits, rows, kind, min(_JUDGED_BY, len(lesson.bank) // 2))
        name = best_free(found)
        said = ", ".join(f"{one} {values.mean():.3f}" for one, values in found.items())
        log.info(
            "free supervision, by held-out rows' %s: %s; taken (cosine in a tie): %s",
            kind,
            said,
            name,
        )
    elif not name:
        name = "cosine"
        log.info(
            "free supervision: outputs are neither labels nor programs; the untrained encoder is "
            "taken"
        )
    method = fits[name](rows)
    if isinstance(method, Cosine):
        write_json(lesson.folder / SETTINGS, {"method": ""})
    else:
        base, pairs = _base(lesson.start), rows.parts is not None
        learnt = marks(lesson.bank)
        FreeEncoder(base, method, None, settings.parser, pairs, learnt).save_method(lesson.folder)
    return {
        "bank": len(lesson.bank),
        "taken": name,
        **{one: float(v.mean()) for one, v in found.items()},
    }


def _free(
    name: str, title: str, train: Any, refusal: Callable[[Task], str] = lambda task: ""
) -> Training:
    return Training(
        name=name,
        title=title,
        train=train,
        load=_load,
        settings=lambda graph: free_settings(graph.task),
        refusal=refusal,
        cross_fitted=CrossFitted,
        lm_tokens=False,
        version=3,
    )


HEAD = _free("head", "label head", partial(_train, name="head"), no_labels)
"""P(the example's label | query) by logistic regression on the bank, + ½ cosine."""

STRUCTURES = _free("structures", "structures", partial(_train, name="structures"), _no_programs)
"""Expected overlap of the query's predicted local structures with an example's (after Levy et al.,
ACL 2023)."""

FREE = _free("free", "free", _train)
"""The one of them that applies, or cosines where none does, or where held-out rows do not favour it
beyond noise."""

register_method("head", "dense", "label head", HEAD)
register_method("head_map", "dpp", "label head + MAP", HEAD, against=("head",))
register_method(
    "classifier", "zero", "classifier alone", HEAD, against=("majority",), answers="classifier"
)
register_method("structures", "dense", "structures", STRUCTURES)
register_method("free", "dense", "free", FREE)
register_method("free_map", "dpp", "free + MAP", FREE, against=("free", "classifier"))
