"""The bank's two files: `examples.parquet` and `vectors.npy`.

`examples.parquet` has the columns id, input, output, choices, references, and metadata as the struct `fields`;
`vectors.npy` is float32 [N, D], unit rows, memory-mapped when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.selector.bank import View
from ceil_jax.selector.folder.manifest import AGAIN
from ceil_jax.selector.rows import read_examples
from ceil_jax.tasks.example import Example

EXAMPLES, VECTORS = "examples.parquet", "vectors.npy"

_TEXTS = ("id", "input", "output")
_LISTS = ("choices", "references")


def write_bank(view: View, folder: Path) -> None:
    """Write both files of a bank into a folder.

    Raises:
        OSError: the folder cannot be written.
    """
    shape = (int(view.live.sum()), view.dim or 0)
    with (folder / VECTORS).open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        # block by block, so that a memory-mapped bank is never in memory as a whole
        for block in view.live_blocks():
            stream.write(np.ascontiguousarray(block, "<f4").data)
    _write_examples(list(view), folder / EXAMPLES)


def read_bank(folder: Path) -> tuple[list[Example], np.ndarray]:
    """Return the examples and their vectors, float32 [N, D], memory-mapped.

    Raises:
        UserError: a file that cannot be read or does not hold what is expected.
    """
    examples, file = _read_examples(folder / EXAMPLES), folder / VECTORS
    rows = len(examples)
    try:
        vectors = np.load(file, mmap_mode="r" if rows else None, allow_pickle=False)
    except (OSError, ValueError, SyntaxError, EOFError, OverflowError, MemoryError, TypeError) as error:
        raise UserError(f"cannot read {file}: {str(error)[:120]}; {AGAIN}") from None
    if vectors.ndim != 2 or len(vectors) != rows or vectors.dtype != np.float32:
        raise UserError(
            f"{file} holds {vectors.dtype} {vectors.shape} for {rows} examples; expected float32 ({rows}, D)"
        )
    return examples, np.asarray(vectors)


def _write_examples(examples: Sequence[Example], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = {name: pa.array([getattr(e, name) for e in examples], pa.string()) for name in _TEXTS}
    lists = {name: pa.array([getattr(e, name) for e in examples], pa.list_(pa.string())) for name in _LISTS}
    columns = texts | lists
    names = sorted({name for example in examples for name in example.fields})
    if names:  # a struct without members cannot be written
        kind = pa.struct([(name, pa.string()) for name in names])
        columns["fields"] = pa.array([dict(example.fields) for example in examples], kind)
    pq.write_table(pa.table(columns), file, compression="zstd")


def _read_examples(file: Path) -> list[Example]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
        missing = {*_TEXTS, *_LISTS} - set(table.column_names)
        columns = {name: table[name].to_pylist() for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        said = str(error).splitlines()[:1] or [type(error).__name__]
        raise UserError(f"cannot read {file}: {said[0]}; {AGAIN}") from None
    if missing:
        raise UserError(f"{file} has no column {', '.join(sorted(missing))}; expected a selector's examples")
    fields = columns.get("fields") or [None] * len(table)
    try:
        examples = read_examples(
            Example(id, input, output, tuple(choices or ()), tuple(references or ()), _present(row))
            for id, input, output, choices, references, row in zip(
                *(columns[name] for name in (*_TEXTS, *_LISTS)), fields, strict=True
            )
        )
    except (UserError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: {error}; {AGAIN}") from None
    if not all(example.id for example in examples):
        raise UserError(f"{file} has an example without an id; {AGAIN}")
    return examples


def _present(fields: Mapping[str, str | None] | None) -> Mapping[str, str]:
    """A struct has all members in every row; those that a row lacks are null."""
    return MappingProxyType({name: value for name, value in (fields or {}).items() if value is not None})
