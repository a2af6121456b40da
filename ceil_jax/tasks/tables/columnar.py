"""Parquet and Arrow to rows, with the names of their ClassLabels, as `datasets` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ceil_jax.tasks.spec import Row
from ceil_jax.tasks.tables import magic
from ceil_jax.tasks.tables.magic import Kind
from ceil_jax.tasks.tables.table_rows import (
    FILE,
    Remark,
    TableError,
    TableRows,
    check_names,
    numbered_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NO_FEATURES = Remark(
    "what `datasets` wrote about its columns cannot be read; labels keep their numbers"
)


def columnar_rows(content: bytes, kind: Kind) -> TableRows:
    """Return the rows of a parquet or an Arrow file, from its bytes.

    Raises:
        TableError: the file cannot be read, or is cut.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == magic.PARQUET and not content.endswith(b"PAR1"):
        raise TableError(f"{FILE} is a parquet file that is cut; fetch or write it again")
    buffer = pa.BufferReader(content)
    try:
        if kind == magic.PARQUET:
            table = pq.read_table(buffer)
        elif kind == magic.ARROW_FILE:
            table = pa.ipc.open_file(buffer).read_all()
        else:
            table = pa.ipc.open_stream(buffer).read_all()
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        RecursionError,
        SystemError,
        MemoryError,
    ) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TableError(f"cannot read {FILE}, {kind.name}: {reason}") from None
    return arrow_rows(table)


def arrow_rows(table: pa.Table) -> TableRows:
    """Return the rows of an Arrow table.

    Raises:
        TableError: two columns have one name.
    """
    import pyarrow as pa

    check_names(table.column_names)
    features = _features(table.schema.metadata or {})
    remarks = () if features is not None else (_NO_FEATURES,)
    columns: dict[str, list[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        names = label_names(features.get(name)) if features else None
        try:
            columns[name] = [with_label_names(value, names) for value in column.to_pylist()]
        except (
            pa.ArrowException,
            ValueError,
            OverflowError,
            LookupError,
            SystemError,
            MemoryError,
        ) as error:
            # such as a date out of Python's range: a tuple is not text, so the column is dropped
            # unless it is needed
            columns[name] = [(str(error),)] * len(column)
    rows: list[Row] = [
        dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
    ]
    return numbered_rows(rows, remarks=remarks)


def _features(metadata: Mapping[bytes, bytes]) -> Mapping[str, Any] | None:
    """The types of the columns, as `datasets` records them in the file; empty if the file was not
    written by it, None if they cannot be read."""
    written = metadata.get(b"huggingface")
    if written is None:
        return {}
    try:
        features = json.loads(written)["info"]["features"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return features if isinstance(features, Mapping) else None


def label_names(kind: Any) -> Sequence[str] | None:
    """Return the label names of a column of ClassLabels, or of lists of them, from its type as
    `datasets` records it; None for any other column."""
    # lists are written as [inner], or as a mapping with the inner type as its `feature`
    while isinstance(kind, list | Mapping):
        inner = next(iter(kind), None) if isinstance(kind, list) else kind.get("feature")
        if not inner:
            break
        kind = inner
    if not isinstance(kind, Mapping) or kind.get("_type") != "ClassLabel":
        return None
    names = kind.get("names")
    right = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if right else None


def with_label_names(value: Any, names: Sequence[str] | None) -> Any:
    """Return the name of a label number, or the names of a list of numbers; None for −1, which
    means no label. Other values, and columns without `names`, are unchanged."""
    if names is None or not isinstance(value, int | list):
        return value
    if isinstance(value, list):
        return [with_label_names(item, names) for item in value]
    return names[value] if 0 <= value < len(names) else None
