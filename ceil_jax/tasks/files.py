"""Local files to rows, each knowing the line it stood on, and rows to examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.formats import csv_rows, json_rows, jsonl_rows, parquet_rows
from ceil_jax.tasks.spec import FieldError, Row

_READERS = {".jsonl": jsonl_rows, ".json": json_rows, ".csv": csv_rows, ".parquet": parquet_rows}
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Split:
    """Rows, and where each of them came from."""

    source: str
    """A file, or a hub repository at a revision."""
    rows: Sequence[Row]
    lines: Sequence[int]
    """For each row: its line in a text file, its number (from 1) elsewhere."""
    unit: str = "line"
    """The unit that `lines` counts: line or row."""

    def where(self, position: int) -> str:
        """Return `FILE, line N` of a row, for a message."""
        return f"{self.source}, {self.unit} {self.lines[position]}"


def read_split(path: Path) -> Split:
    """Return the rows of one file, by its suffix.

    Args:
        path: a file that ends in one of `SUFFIXES`.

    Raises:
        UserError: there is no such file, its suffix is unknown, it holds no rows or more than the limits allow, or a
            line cannot be read; the message names the first such line.
    """
    kind = Path(path.name.removesuffix(".gz")).suffix
    if path.is_dir():
        raise UserError(f"{path} is a folder: name one file, ending in {', '.join(SUFFIXES)}")
    if kind not in _READERS:
        raise UserError(f"cannot read {path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"no file {path}")
    try:
        numbered = list(_READERS[kind](path))
    except MemoryError:
        raise UserError(f"cannot read {path}: its rows do not fit into memory") from None
    if not numbered:
        raise UserError(f"{path} holds no rows")
    unit = "row" if kind in (".json", ".parquet") else "line"
    return Split(str(path), [row for _, row in numbered], [line for line, _ in numbered], unit)


def find_split(folder: Path, *names: str) -> tuple[Path, bool] | None:
    """Return (file, whether it is the whole split) for the first name that has a file; None if none has.

    Args:
        folder: where to look.
        names: what the file may be called, without suffix. A part of a split has an addition to its name, as in
            `train_sample.jsonl`, and is taken where no whole split is found.
    """
    for name in names:
        for suffix in SUFFIXES:
            if (folder / f"{name}{suffix}").is_file():
                return folder / f"{name}{suffix}", True
    for name in names:
        partial = [p for suffix in SUFFIXES for p in sorted(folder.glob(f"{name}_*{suffix}")) if p.is_file()]
        if partial:
            return partial[0], False
    return None


def read_examples(
    split: Split,
    name: str,
    columns: Sequence[str],
    example: Callable[[str, Row], Example],
    keep: Callable[[Row], bool] | None = None,
    enrich: Callable[[Row], Row] | None = None,
) -> list[Example]:
    """Return the example of each row of a split.

    Args:
        split: the rows.
        name: the split's name. An example's id is this name and the row's place, also counting rows not kept.
        columns: what every row must have.
        example: (id, row) -> example; it raises FieldError for a row that it cannot read.
        keep: which rows are wanted; all by default.
        enrich: adds to a row what other files hold; nothing by default.

    Raises:
        UserError: a row lacks a column or cannot be read; the message names the file, the line and the field.
    """
    examples = []
    for position, row in enumerate(split.rows):
        missing = [column for column in columns if column not in row]
        if missing:
            raise UserError(
                f"{split.where(position)}: no field {', '.join(map(repr, missing))}; it has {', '.join(row)}"
            )
        if keep is not None and not keep(row):
            continue
        try:
            examples.append(example(f"{name}-{position}", enrich(row) if enrich else row))
        except FieldError as error:
            raise UserError(f"{split.where(position)}, {error}") from None
    return examples
