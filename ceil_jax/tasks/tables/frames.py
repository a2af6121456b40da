"""Tables in memory to rows: pandas, polars, Arrow, `datasets`, and mappings of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import plain
from ceil_jax.tasks.spec import Row
from ceil_jax.tasks.tables.columnar import arrow_rows, label_names, with_label_names
from ceil_jax.tasks.tables.json_rows import rows_of_object
from ceil_jax.tasks.tables.table_rows import TableError, TableRows, check_names, numbered_rows


def frame_rows(table: Any) -> TableRows | None:
    """Return the rows of a table in memory; None if the value is not one.

    Accepted are frames of pandas and polars (including lazy ones), Arrow tables and batches, data
    sets of `datasets` (including streamed ones), other objects with Arrow's C interface, and
    mappings laid out like a JSON object of rows (`json_rows.rows_of_object`).

    Raises:
        UserError: several tables by name, such as the splits of a DatasetDict; two columns of one
            name.
    """
    if isinstance(table, str | bytes | list | tuple):
        return None
    if isinstance(table, Mapping):
        return _named("columns", _mapping_rows, table)
    if hasattr(table, "features") and hasattr(table, "with_format"):
        return _named("data set", _dataset_rows, table)
    if hasattr(table, "collect") and hasattr(table, "lazy"):  # a LazyFrame of polars
        table = table.collect()
    if hasattr(table, "columns") and (hasattr(table, "to_dicts") or hasattr(table, "to_dict")):
        return _named("data frame", _data_frame_rows, table)
    hands_over = hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")
    if hands_over and (hasattr(table, "schema") or hasattr(table, "columns")):
        import pyarrow as pa

        return _named("Arrow table", arrow_rows, pa.table(table))
    return None


def _named(source: str, read: Callable[[Any], TableRows | None], table: Any) -> TableRows | None:
    """The rows that `read` finds in a table, named `source` in messages; None if it finds none."""
    try:
        rows = read(table)
    except TableError as error:
        raise error.naming(source) from None
    return None if rows is None else rows.named(source)


def is_frame(table: Any) -> bool:
    """Return whether a value looks like a table in memory."""
    marks = ("columns", "column_names", "with_format")
    return not isinstance(table, Mapping) and any(hasattr(table, mark) for mark in marks)


def _data_frame_rows(frame: Any) -> TableRows:
    columns = {str(name) for name in frame.columns}
    # an index of pandas that has a name, as after set_index("id"), is a column: so are those in a
    # parquet file that pandas has written
    levels = getattr(getattr(frame, "index", None), "names", None) or []
    named = [level for level in levels if level is not None and str(level) not in columns]
    if named:
        frame = frame.reset_index(level=named)
    names = [str(name) for name in frame.columns]
    check_names(names)
    records = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    return numbered_rows([{str(name): value for name, value in row.items()} for row in records])


def _dataset_rows(dataset: Any) -> TableRows:
    """The rows of a data set of `datasets`, with the names of its labels."""
    if hasattr(dataset, "num_rows"):
        return arrow_rows(dataset.with_format("arrow")[:])
    features = dataset.features.to_dict() if dataset.features is not None else {}
    names = {name: label_names(kind) for name, kind in features.items()}
    rows: list[Row] = [
        {name: with_label_names(value, names.get(name)) for name, value in row.items()}
        for row in dataset
    ]
    return numbered_rows(rows)


def _mapping_rows(tables: Mapping[Any, Any]) -> TableRows | None:
    """The rows of a mapping; None if it has none. A UserError if its values are tables."""
    splits = [repr(name) for name, part in tables.items() if is_frame(part)]
    if splits and len(splits) == len(tables):
        raise UserError(
            f"expected one table, found {', '.join(splits)} in a {type(tables).__name__}; give one "
            f"of them, as in data[{splits[0]}]"
        )
    rows = rows_of_object({str(name): _listed(part) for name, part in tables.items()})
    if rows is None:
        return None
    check_names(list(dict.fromkeys(name for row in rows for name in row)))
    return numbered_rows(rows)


def _listed(part: Any) -> Any:
    """A column as a list, or as a mapping with text keys."""
    if isinstance(part, Mapping):
        return {str(name): value for name, value in part.items()}
    part = plain(part)
    return list(part) if isinstance(part, tuple) else part
