"""The rows of a comparison: a retriever and the encoders that it compares with; and the registry of
trained methods.

TST, EPR and CEIL are registered at the end of `trainings`, those that need no LM at the end of
`free`; a plugin registers its own in the same way.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import LanguageModel
from ceil_jax.pipeline.encoders import Training
from ceil_jax.registry import Registry
from ceil_jax.retrieval.registry import Needs, retrievers
from ceil_jax.tasks.example import Task

log = logging.getLogger(__name__)


class Method(NamedTuple):
    """A way of choosing examples: a retriever, and whose encoders it compares with."""

    retriever: str
    """A name in the registry of retrievers."""
    encoder: str | None
    """base (untrained) or the name of a training; None where no encoder is used."""
    label: str
    answers: Literal["lm", "majority", "classifier"] = "lm"
    """Who answers: the LM; the most common output of the bank; or a classifier that the bank's
    outputs trained."""
    against: tuple[str, ...] = ()
    """The rows that a table compares this one with: this one − that one."""

    @property
    def needs(self) -> Needs:
        """The needs of its retriever."""
        return retrievers()[self.retriever].needs

    @property
    def trains(self) -> bool:
        """Whether it needs trained encoders."""
        return self.training is not None

    @property
    def seeded(self) -> bool:
        """Whether another seed gives another run."""
        return self.trains or self.needs.seeded

    @property
    def training(self) -> Training | None:
        """How its encoders are trained; None where they are not."""
        return TRAININGS.get(self.encoder or "")

    @property
    def learns_from_lm(self) -> bool:
        """Whether it needs an LM's scores before its first query."""
        return self.training is not None and self.training.lm_tokens

    @property
    def exports(self) -> bool:
        """Whether it can be written as a selector."""
        return self.answers == "lm" and (self.needs.ends_in_map or self.needs.ends_in_nearest)


TRAININGS: Registry[Training] = Registry("trained method")

_ROWS: Registry[Method] = Registry("method")
_ROWS.update(
    {
        "majority": Method("zero", None, "most common output", "majority"),
        "zero": Method("zero", None, "zero examples"),
        "random": Method("random", None, "random"),
        "bm25": Method("bm25", None, "BM25", against=("topk",)),
        "topk": Method("dense", "base", "dense top-k", against=("zero",)),
        "mmr": Method("mmr", "base", "MMR", against=("topk",)),
        "dpp": Method("dpp", "base", "DPP-MAP", against=("topk",)),
    }
)


def register_method(
    name: str,
    retriever: str,
    label: str = "",
    training: Training | str | None = None,
    *,
    against: tuple[str, ...] = ("topk",),
    answers: Literal["lm", "majority", "classifier"] = "lm",
    replace: bool = False,
) -> None:
    """Add a row: `compare`, `tune`, `export`, dry runs and reports then know it by its name.

    Args:
        name: as in `--method`.
        retriever: the name of a registered retriever, such as dense (the nearest) or dpp (sets).
        label: its name in tables; `name` by default.
        training: how its encoders are trained, or the name of a training that is registered
            already; by default it compares with the untrained encoder, if it needs one.
        against: the rows that tables subtract from it.
        answers: who answers.
        replace: take the place of a row, and of a training, with this name.

    Raises:
        UserError: the name is taken and `replace` is not given.
    """
    load_own()
    if isinstance(training, Training):
        if TRAININGS.get(training.name) is not training:
            TRAININGS.register(training.name, training, replace=replace)
        training = training.name
    encoder = training or ("base" if retrievers()[retriever].needs.encoder else None)
    _ROWS.register(
        name, Method(retriever, encoder, label or name, answers, against), replace=replace
    )


def load_own() -> None:
    """Register the package's own trained methods; imported by name, because their modules import
    this one."""
    for module in ("trainings", "free"):
        importlib.import_module(f"ceil_jax.pipeline.{module}")


class Methods(Mapping[str, Method]):
    """All rows by name; every retriever that no row uses is a row under its own name."""

    def _all(self) -> dict[str, Method]:
        load_own()
        used = {row.retriever for row in _ROWS.values()}
        others = {
            name: Method(name, "base" if needs.encoder else None, label, against=("topk",))
            for name, (_, needs, label) in retrievers().items()
            if name not in used
        }
        return {**_ROWS, **others}

    def __getitem__(self, name: str) -> Method:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


METHODS = Methods()


def method_named(name: str) -> Method:
    """Return a row.

    Raises:
        UserError: a name that is not known.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def label_of(name: str, config: Mapping[str, Any]) -> str:
    """Return a row's name in tables: "CEIL from free" where its training began with a free method.
    A row that is not known keeps its name; `config` has settings by their names in RunConfig."""
    if name not in METHODS:
        return name
    method, start = METHODS[name], METHODS[name].encoder or ""
    while isinstance(own := config.get(start), Mapping) and "initial" in own:
        start = own["initial"]
    built = start in TRAININGS and start != method.encoder
    return f"{method.label} from {TRAININGS[start].title}" if built else method.label


class Usable(NamedTuple):
    """The rows that can be evaluated, in order, and one line on those that are left out."""

    names: tuple[str, ...]
    left_out: str = ""
    """Which rows and why; "" where none is."""


def applicable(task: Task, names: Sequence[str]) -> Usable:
    """Return the rows that can be trained on a task."""
    refusals: dict[str, list[str]] = {}
    kept = []
    for name in names:
        training = METHODS[name].training
        if training is not None and (why := training.refusal(task)):
            refusals.setdefault(why, []).append(METHODS[name].label)
        else:
            kept.append(name)
    reasons = (f"{', '.join(labels)}: {why}" for why, labels in refusals.items())
    return Usable(tuple(kept), f"Left out: {'; '.join(reasons)}." if refusals else "")


def scorable(lm: LanguageModel, names: Sequence[str]) -> Usable:
    """Return the rows that an LM can teach: one that gives no log-probabilities, such as a chat
    server, teaches none. What is left out is logged as well.

    Raises:
        UserError: none is left.
    """
    kept = tuple(name for name in names if lm.can_score or not METHODS[name].learns_from_lm)
    labels = [METHODS[name].label for name in names if name not in kept]
    why = (
        f"{lm.name} gives no log-probabilities, which {', '.join(labels)} would learn from; free "
        "and free_map learn from the bank's outputs instead"
    )
    if labels and not kept:
        raise UserError(why)
    if labels:
        log.warning("%s; left out", why)
    return Usable(kept, f"Left out: {why}." if labels else "")
