"""The description of a named task.

The source of its rows, and the function from a row to an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ceil_jax.tasks.example import Example, Template

Row = Mapping[str, Any]
"""One row of a split, under the hub's column names."""

PAPER_METHODS = ("random", "BM25", "Contriever", "SimCSE", "BERT", "DPP-BERT", "EPR", "CEIL")


def table2(*percent: float) -> Mapping[str, float]:
    """Return a column of CEIL's Table 2 (GPT-Neo 2.7B): method -> percent.

    The numbers are given in the order of `PAPER_METHODS`.
    """
    return dict(zip(PAPER_METHODS, percent, strict=True))


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hugging Face hub, at one revision."""

    repo: str
    config: str | None = None
    revision: str = "main"
    """A commit; `refs/convert/parquet` for a repository that is a script, which `datasets` no
    longer runs; or `main`, which can change, if the commit was not known."""


@dataclass(frozen=True)
class TaskSpec:
    """The description of a data set, from which it is loaded."""

    name: str
    template: Template
    metric: str
    """The name of the metric in `ceil_jax.metrics.METRICS`."""
    example: Callable[[str, Row], Example]
    """(id, row) -> Example, a pure function. It raises FieldError for a row that it cannot read."""
    columns: tuple[str, ...]
    """The columns that `example` reads; others are ignored."""
    folder: str = ""
    """The task's folder under a local `data_dir`."""
    hub: Hub | None = None
    embedded: Callable[[], Mapping[str, Sequence[Row]]] | None = None
    """Returns the splits of a task that needs neither the hub nor a folder."""
    enrich: Callable[[Path], Callable[[Row], Row]] | None = None
    """data_dir → a function that adds to a row the contents of other files in `data_dir`; for tasks
    without a hub copy."""
    keep: Callable[[Row], bool] | None = None
    """Whether a row of the validation splits is a query of this task; all are by default."""
    train: tuple[str, ...] = ("train",)
    """The splits that make up the bank, in order."""
    validation: tuple[str, ...] = ("validation",)
    """The splits that make up the queries, in order."""
    few_shot: str | None = None
    """The split whose examples open every prompt, last one first."""
    optional: tuple[str, ...] = ()
    """Splits that a local folder need not have."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Split → another name that its file may have in a local folder."""
    bank_of: str | None = None
    """The name of the task whose bank this one uses; by default its own."""
    bank_size: int | None = None
    """How many examples the papers draw from the split for their bank; all by default."""
    deduplicate: bool = True
    """Whether only the first of the bank's examples with equal inputs is kept, as CEIL does."""
    # as in `Task`
    per_token: bool = False
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ("\n",)
    more_metrics: tuple[str, ...] = ()
    language: str = ""

    paper: Mapping[str, float] = field(default_factory=dict)
    """CEIL's Table 2, method -> percent, where the paper has the task."""
    note: str = ""
    """Remarks for a reader of its numbers."""


NOT_EMPTY = "a text that is not empty"


class RowError(ValueError):
    """A row that cannot be used. The reader adds the file and line."""


class FieldError(RowError):
    """A field of a row is not what the task needs."""

    def __init__(self, name: str, expected: str, value: object) -> None:
        text = repr(value)
        if len(text) > 60:
            text = f"{text[:60]}…"
        super().__init__(f"field {name!r}: expected {expected}, found {text}")


def text(row: Row, name: str) -> str:
    """Return a field unchanged. A FieldError unless it is a text that is not empty."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise FieldError(name, NOT_EMPTY, value)
    return value


def label(row: Row, name: str, classes: int) -> int:
    """Return a field that is a class number from 0 to `classes` − 1.

    Digits as text (HellaSwag's "3") are accepted, and truth values if there are two classes. A
    FieldError otherwise, as for the −1 of splits that are unlabelled on the hub.
    """
    value: Any = row.get(name)
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
    is_truth_value_of_two = isinstance(value, bool) and classes == 2
    if is_digits or is_truth_value_of_two:
        value = int(value)
    # other truth values are refused, although they are integers in Python
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not 0 <= value < classes:
        raise FieldError(name, f"a label from 0 to {classes - 1}", value)
    return value


def texts(row: Row, name: str, count: int | None = None) -> tuple[str, ...]:
    """Return a field that is a list of `count` texts, by default one or more.

    A FieldError otherwise.
    """
    value = row.get(name)
    are_texts = isinstance(value, (list, tuple)) and all(
        isinstance(part, str) and part.strip() for part in value
    )
    if not are_texts or not value or (count is not None and len(value) != count):
        raise FieldError(name, f"a list of {count or 'one or more'} texts", value)
    return tuple(value)


def pair_task(
    name: str, columns: tuple[str, str], *, metric: str = "exact_match", **others: Any
) -> TaskSpec:
    """Return the entry of a task whose columns are an input and an output.

    A tab is between them in prompts. `others` are further fields of `TaskSpec`.
    """

    def example(id: str, row: Row) -> Example:
        source, target = (text(row, column).strip() for column in columns)
        return Example(id, source, target)

    return TaskSpec(name, Template("{input}\t{output}"), metric, example, columns, **others)
