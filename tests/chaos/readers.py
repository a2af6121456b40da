"""Flipped bits and other harms for what reads a file: it gives a value, or one line that says what is wrong."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.skills.rewriter import load_demonstrations
from ceil_jax.tasks.families.sql import declared_schemas
from ceil_jax.tasks.load import load_file
from chaos.attempt import attempt
from chaos.damage import HARMS

ROOT = Path(__file__).parents[2]
ROWS = [
    {"input": f"film {i} – “fine”", "output": "good" if i % 2 else "bad", "year": 1990 + i} for i in range(30)
]


def _jsonl() -> bytes:
    return "".join(json.dumps(row, ensure_ascii=i % 3 == 0) + "\n" for i, row in enumerate(ROWS)).encode()


def _csv() -> bytes:
    return (
        "input,output,year\n" + "".join(f'"{r["input"]}",{r["output"]},{r["year"]}\n' for r in ROWS)
    ).encode()


def _parquet() -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def _tables() -> bytes:
    columns = [[-1, "*"], [0, "id"], [0, "name"]]
    return json.dumps(
        [{"db_id": "zoo", "table_names_original": ["cat"], "column_names_original": columns}]
    ).encode()


def _data(path: Path) -> object:
    return load_file(path, metric="accuracy")


FILES: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "data jsonl": ("a.jsonl", _jsonl, _data),
    "data jsonl.gz": ("a.jsonl.gz", lambda: gzip.compress(_jsonl()), _data),
    "data json": ("a.json", lambda: json.dumps(ROWS).encode(), _data),
    "data csv": ("a.csv", _csv, _data),
    "data parquet": ("a.parquet", _parquet, _data),
    "schemas": ("tables.json", _tables, lambda path: declared_schemas(path.parent)),
    "demonstrations": (
        "d.json",
        lambda: next(iter(sorted((ROOT / "ceil_jax/skills/demonstrations").glob("*.json")))).read_bytes(),
        load_demonstrations,
    ),
}
"""Kind -> (file name, its content while it is whole, what reads it)."""


class Readers:
    """Whole content of each kind, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._content = {kind: make() for kind, (_, make, _) in FILES.items()}

    @cached_property
    def _encoder(self) -> dict[Path, bytes]:
        """The files of a saved encoder."""
        whole = self.folder / "encoder-whole"
        load_encoder("tiny").save_pretrained(whole)
        files = (file for file in sorted(whole.rglob("*")) if file.is_file())
        return {file.relative_to(whole): file.read_bytes() for file in files}

    def file(self, kind: str, draw: random.Random) -> tuple[str, str]:
        """One harmed file, read."""
        name, _, read = FILES[kind]
        how = draw.choice([*HARMS, "flip", "flip", "flip"])
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            path = Path(scratch) / name
            path.write_bytes(HARMS[how](self._content[kind], draw))
            return attempt(lambda: read(path), how)

    def encoder(self, draw: random.Random) -> tuple[str, str]:
        """An encoder's folder with one harmed file; its vectors are finite, or it is refused."""
        whole = self._encoder
        chosen, how = draw.choice(sorted(whole)), draw.choice([*HARMS, "flip", "flip", "flip"])
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            for file, content in whole.items():
                target = Path(scratch) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(HARMS[how](content, draw) if file == chosen else content)

            def read() -> None:
                vectors = load_encoder(scratch).encode(["a film", "another"])
                if not np.isfinite(vectors).all():
                    raise ValueError("vectors that are not finite")

            return attempt(read, f"{how} {chosen}")
