"""The registry of rows, and `register_row` and `register_retriever`, which add to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import NamedTuple

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.letters import LETTERS
from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.copied import Copied
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.fixed_near import FixedNear
from ceil_jax.methods.free import Free, Labels
from ceil_jax.methods.row import Row
from ceil_jax.methods.second_round import SecondRound
from ceil_jax.methods.tst import TST
from ceil_jax.methods.untrained import Untrained
from ceil_jax.registry import Registry
from ceil_jax.retrieval.retriever import (
    RETRIEVERS,
    Needs,
    Retriever,
    RetrieverArguments,
    RetrieverKind,
    check_build,
)
from ceil_jax.retrieval.retrievers import (
    BM25,
    FIXED,
    FIXED_NEAR,
    MAP,
    MMR,
    NEAREST,
    RANDOM,
    ZERO,
)
from ceil_jax.skills.retrievers import (
    SKILL_BASE,
    SKILL_CONSISTENCY,
    SKILL_DISTINCT,
    TARGET_KNN,
    TARGET_SKETCH,
)
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.labels import shared_choices

log = logging.getLogger(__name__)

ROWS: Registry[Row] = Registry("method")
"""All rows by name, in the order in which tables show them."""


def register_row(name: str, row: Row, *, replace: bool = False) -> None:
    """Register a row by its name for `compare`, `tune`, `export`, dry runs and reports.

    The settings of its method are flags: `--NAME.SETTING`, where NAME is the method's.

    Args:
        name: as in `--method`.
        row: label, method and retriever.
        replace: whether a row of the same name is replaced; refused by default.

    Raises:
        UserError: the name is taken; another class has the name of the row's method; or the method
            is not a frozen dataclass, or does not define how it learns.
    """
    method = row.method
    check_kind(method)
    namesakes = [
        other.method
        for key, other in ROWS.items()
        if other.method.name == method.name and not (replace and key == name)
    ]
    if any(type(other) is not type(method) for other in namesakes):
        raise UserError(
            f"row {name!r}: a method {method.name!r} is registered already; give the method "
            "another name, or pass replace=True"
        )
    ROWS.register(name, changed(row, name=name), replace=replace)


def check_kind(method: Method) -> None:
    """Raise a UserError for a class that cannot be a method.

    It is not a frozen dataclass, or it claims to learn but does not define how.
    """
    kind = type(method)
    if "__dataclass_params__" not in vars(kind):
        raise UserError(
            f"method {kind.__name__}: write @dataclass(frozen=True) above its class, or its fields "
            "are not settings"
        )
    if kind.learn is Method.learn:
        raise UserError(
            f"method {kind.__name__} does not define `learn`; write it, or inherit from a method such "
            "as EPR"
        )


def register_retriever(
    name: str,
    build: Callable[[RetrieverArguments], Retriever],
    needs: Needs | None = None,
    label: str = "",
    *,
    replace: bool = False,
) -> None:
    """Register a retriever under a name for `--method`, with the untrained encoder.

    Args:
        name: its name in `build_retriever` and `--method`.
        build: arguments → retriever, such as a subclass of `Ranking`.
        needs: the arguments that it must be given, such as vectors; nothing by default.
        label: its name in tables; `name` by default.
        replace: whether a retriever of the same name is replaced; refused by default.

    Raises:
        UserError: the name is taken, or `build` does not return a retriever.
    """
    check_build(name, build)
    kind = RetrieverKind(name, label or name, build, needs or Needs())
    RETRIEVERS.register(name, kind, replace=replace)
    ROWS.register(name, Row(kind.label, retriever=kind, name=name), replace=replace)


def method_named(name: str) -> Method:
    """Return the registered method of a name.

    Raises:
        UserError: no row's method has that name.
    """
    methods = registered_methods()
    if name not in methods:
        raise unknown_name("start of training", name, methods)
    return methods[name]


def registered_methods() -> dict[str, Method]:
    """Return the methods of all rows by name."""
    return {row.method.name: row.method for row in reversed(ROWS.values())}


class Usable(NamedTuple):
    """The rows that can be evaluated, in order."""

    rows: tuple[Row, ...]
    left_out: str = ""
    """A line that says which rows are left out and why; "" if none are."""


def applicable(task: Task, rows: Sequence[Row]) -> Usable:
    """Return the rows whose methods can be used on a task."""
    refusals: dict[str, list[str]] = {}
    usable = []
    for row in rows:
        # a row without vectors does not use its method
        methods = row.method.chain if row.encodes else ()
        reasons = [reason for method in methods if (reason := method.refusal(task))]
        if reasons:
            why = reasons[0]
            refusals.setdefault(why, []).append(row.label)
        else:
            usable.append(row)
    lines = (f"{', '.join(labels)}: {why}" for why, labels in refusals.items())
    return Usable(tuple(usable), f"Left out: {'; '.join(lines)}." if refusals else "")


def usable_with(lm: LanguageModel, rows: Sequence[Row], task: Task | None = None) -> Usable:
    """Return the rows that can be used with an LM on a task.

    If no task is given, those that can be used on at least one. Most that learn from an LM need
    log-probabilities, of which a chat server gives at most those of labels. Rows that are left out
    are also logged.

    Raises:
        UserError: no row is left.
    """
    of_what = _no_log_probs(lm, task)
    usable = tuple(row for row in rows if of_what is None or not row.needs_log_probs)
    if len(usable) == len(rows):
        return Usable(usable)
    labels = ", ".join(row.label for row in rows if row not in usable)
    why = (
        f"{lm.name} gives no log-probabilities{of_what}, on which {labels} would be trained; free "
        "and free_map learn from the bank's outputs instead"
    )
    if not usable:
        raise UserError(why)
    log.warning("%s; left out", why)
    return Usable(usable, f"Left out: {why}.")


def _no_log_probs(lm: LanguageModel, task: Task | None) -> str | None:
    """Return for which outputs an LM gives no log-probabilities, in words: "" for all, None for none."""
    if lm.can_score:
        return None
    if not lm.can_weigh:
        return ""
    if task is None:
        return None
    labels = shared_choices([*task.train, *task.validation])
    if not labels:
        return " of outputs that are not labels"
    return f" of more than {len(LETTERS)} labels" if len(labels) > len(LETTERS) else None


RETRIEVERS.update(
    {
        kind.name: kind
        for kind in (
            ZERO,
            RANDOM,
            BM25,
            NEAREST,
            FIXED,
            FIXED_NEAR,
            MMR,
            MAP,
            SKILL_BASE,
            SKILL_CONSISTENCY,
            SKILL_DISTINCT,
            TARGET_KNN,
            TARGET_SKETCH,
        )
    }
)

ZERO_ROW = Row("zero examples", retriever=ZERO, against=(), name="zero")
RANDOM_ROW = Row("random", retriever=RANDOM, against=(), name="random")
TOPK_ROW = Row("dense top-k", Untrained(), NEAREST, against=("zero", "copied"), name="topk")
FREE_ROW = Row("free", Free(), NEAREST, against=("topk", "copied"), name="free")
CLASSIFIER_ROW = Row(
    "classifier alone",
    Labels(),
    ZERO,
    against=("majority",),
    answers="classifier",
    name="classifier",
)
COPIED_ROW = Row(
    "nearest output, copied", Copied(), NEAREST, against=(), answers="copied", name="copied"
)

for _name, _row in {
    "majority": Row("most common output", retriever=ZERO, against=(), answers="majority"),
    "copied": COPIED_ROW,
    "zero": ZERO_ROW,
    "random": RANDOM_ROW,
    "bm25": Row("BM25", retriever=BM25),
    "topk": TOPK_ROW,
    "mmr": Row("MMR", Untrained(), MMR),
    "dpp": Row("DPP-MAP", Untrained(), MAP),
    "classifier": CLASSIFIER_ROW,
    "free": FREE_ROW,
    "free_map": Row("free + MAP", Free(), MAP, against=("free", "classifier")),
    "tst": Row("TST", TST(), NEAREST),
    "fixed": Row("fixed", FixedPrompt(), FIXED, against=("random", "topk")),
    "fixed_near": Row("fixed + near", FixedNear(), FIXED_NEAR, against=("fixed", "free", "topk")),
    "epr": Row("EPR", EPR(), NEAREST, against=("free", "topk")),
    "epr_map": Row("EPR + MAP", EPR(), MAP, against=()),
    "second_round": Row("second round", SecondRound(), NEAREST, against=("epr", "free", "topk")),
    "ceil_topk": Row("CEIL top-k", CEIL(), NEAREST, against=("epr",)),
    "ceil": Row("CEIL", CEIL(), MAP, against=("epr", "epr_map", "free", "topk")),
    "skill_base": Row("Skill-KNN", retriever=SKILL_BASE),
    "skill_consistency": Row("Skill-KNN, consistency", retriever=SKILL_CONSISTENCY),
    "skill_distinct": Row("Skill-KNN, distinctiveness", retriever=SKILL_DISTINCT),
    "target_knn": Row("target-KNN (oracle)", retriever=TARGET_KNN),
    "target_sketch": Row("target sketch (oracle)", retriever=TARGET_SKETCH),
}.items():
    register_row(_name, _row)
