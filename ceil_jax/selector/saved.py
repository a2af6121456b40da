"""Checking the content of a selector's folder, which anybody may have written.

Each part either comes out with the right types, or a UserError names the wrong file, row and field:
the manifest (`read_manifest`), the files that it names (`check_files`), the examples
(`read_examples`) and their vectors (`read_vectors`). Nothing else in the folder is read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ceil_jax.errors import UserError
from ceil_jax.selector.card import Card
from ceil_jax.selector.rows import as_examples
from ceil_jax.selector.settings import Settings
from ceil_jax.store.hashing import file_sha256, is_pointer, is_sidecar
from ceil_jax.store.weights import POINTER
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.rows import Columns

FORMAT = 5
MANIFEST = "selector.json"
EXAMPLES = "examples.jsonl"
VECTORS = "vectors.npy"
ENCODERS = ("encoder", "query_encoder")
AGAIN = "save or fetch the selector again"

CONTENT = re.compile(r"content-[1-9]\d{0,17}")
"""The form of the name of a save's folder."""

_UNIT = 1e-3
"""The most by which a vector's length may differ from 1."""

_ROWS_AT_ONCE = 65_536

_UNREADABLE = (ValueError, SyntaxError, RecursionError, MemoryError, OverflowError, OSError)
"""Errors that readers of JSON and npy raise for invalid content."""


@dataclass(frozen=True)
class Manifest:
    """The content of `selector.json`."""

    content: str
    """The name of the save's folder."""
    settings: dict[str, Any]
    """The arguments of `Settings`."""
    next_id: int
    encoders: dict[str, str]
    """Folder → the encoder's name: "encoder", and "query_encoder" if there is one."""
    files: dict[str, str]
    """Relative path in the save's folder → sha256."""


def read_manifest(file: Path) -> Manifest:
    """Return the content of a selector's `selector.json`.

    Raises:
        UserError: the file is missing, damaged or of another format, or a setting has a wrong type
            or value.
    """
    try:
        record = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent} holds no {file.name}; expected what CeilSelector.save_pretrained wrote"
        ) from None
    except _UNREADABLE:
        record = None
    if not (
        isinstance(record, dict)
        and record.get("format") == FORMAT
        and isinstance(record.get("content"), str)
        and CONTENT.fullmatch(record["content"])
    ):
        raise UserError(f"{file} is damaged, or of another version than this one reads; {AGAIN}")
    encoders = _texts(record, "encoders", file)
    if "encoder" not in encoders or not encoders.keys() <= {*ENCODERS}:
        raise _wrong(file, "encoders", f"the names {' and possibly '.join(ENCODERS)}", encoders)
    next_id = record.get("next_id")
    if not isinstance(next_id, int) or isinstance(next_id, bool) or not 0 <= next_id < 2**63:
        raise _wrong(file, "next_id", "a whole number from 0", next_id)
    files = _texts(record, "files", file)
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\0" in name or not name:
            raise _wrong(file, "files", "paths inside the selector's folder", name)
    for name in (EXAMPLES, VECTORS):
        if name not in files:
            raise _wrong(file, "files", f"a file {name}", list(files))
    settings = _settings(record.get("settings"), file)
    return Manifest(record["content"], settings, next_id, encoders, files)


def _settings(record: Any, file: Path) -> dict[str, Any]:
    """The settings, from their JSON object."""
    if not isinstance(record, dict):
        raise _wrong(file, "settings", "settings by their names", record)
    known = {field.name for field in fields(Settings)} - {"count_tokens"}
    if unknown := record.keys() - known:
        raise _wrong(file, "settings", f"some of {', '.join(sorted(known))}", sorted(unknown))
    template = _typed(Template, record.get("template"), "template", file)
    card = _typed(Card, record.get("card"), "card", file, _CARD)
    settings = {**record, "template": template, "card": card}
    Settings(**settings)  # refuses wrong types and values
    return settings


def _typed(
    kind: type, record: Any, name: str, file: Path, others: Mapping[str, _JsonType] | None = None
) -> Any:
    """A dataclass from its JSON object. Its fields are texts, but for those in `others`."""
    known = {field.name for field in fields(kind)}
    if not isinstance(record, dict) or not record.keys() <= known:
        raise _wrong(file, name, f"an object with {', '.join(sorted(known))}", record)
    for key, value in record.items():
        expected = (others or {}).get(key, _TEXT)
        if not expected.fits(value):
            raise _wrong(file, f"{name}.{key}", expected.title, value)
    try:
        return kind(**record)
    except TypeError as error:  # a field is missing
        raise UserError(f"{file}, {name!r}: {error}; {AGAIN}") from None


def _texts(record: Mapping[str, Any], name: str, file: Path) -> dict[str, str]:
    value: Any = record.get(name)
    if not _TEXTS_BY_NAME.fits(value):
        raise _wrong(file, name, _TEXTS_BY_NAME.title, value)
    return value


def _wrong(file: Path, field: str, expected: str, value: Any) -> UserError:
    text = repr(value)
    text = text if len(text) <= 80 else f"{text[:80]}…"
    return UserError(f"{file}, {field!r}: expected {expected}, found {text}; {AGAIN}")


def _has_other_line_ends(path: Path, sha256: str) -> bool:
    try:
        content = path.read_bytes().replace(b"\r\n", b"\n")
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == sha256


def check_files(content: Path, files: Mapping[str, str]) -> None:
    """Check that the files of a save have their recorded sha256.

    Files that the manifest does not name are not read. In an encoder's folder, whose loader looks
    for files by name, they are refused, except those of file managers (`is_sidecar`).

    Raises:
        UserError: a file is missing, has other content, or is not named in the manifest.
    """
    for name, sha256 in files.items():
        path = content / name
        try:
            is_whole = path.is_file() and file_sha256(path) == sha256
        except OSError:
            is_whole = False
        if not is_whole and is_pointer(path):
            raise UserError(f"{path} {POINTER}")
        if not is_whole and _has_other_line_ends(path, sha256):
            raise UserError(
                f"{path} has other line ends than were saved, as git writes on Windows; switch that off "
                "(git config core.autocrlf false, or '* -text' in .gitattributes) and fetch it again"
            )
        if not is_whole:
            raise UserError(f"{path} is missing, damaged, or of another save; {AGAIN}")
    for encoder in ENCODERS:
        for path in sorted((content / encoder).rglob("*")):
            relative = path.relative_to(content)
            if path.is_file() and not is_sidecar(relative) and relative.as_posix() not in files:
                raise UserError(f"{path} is no file of this selector; remove it")


def read_examples(file: Path) -> list[Example]:
    """Return the examples of a save.

    Raises:
        UserError: a line is not an example with the types of `Example`, or two have the same id.
    """
    rows: list[Example] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{file}, line {number}"
            try:
                record = json.loads(line)
            except _UNREADABLE:
                raise UserError(f"{where}: not JSON; {AGAIN}") from None
            rows.append(example_of(record, where))
    examples = as_examples(rows, Columns(), str(file), "line")
    counts = Counter(example.id for example in examples)
    for number, example in enumerate(examples, 1):
        if counts[example.id] > 1 or not example.id:
            what = f"{example.id!r}, which {counts[example.id]} examples have"
            expected = "an id that no other example has"
            raise UserError(f"{file}, line {number}, 'id': expected {expected}, found {what}")
    return examples


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_texts_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_numbers_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(n, int | float) for n in value.values())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class _JsonType(NamedTuple):
    """A type that a field has in JSON."""

    title: str
    """The words after "expected" in an error."""
    fits: Callable[[Any], bool]


_TEXT = _JsonType("a text", _is_text)
_TEXTS = _JsonType("a list of texts", _is_list_of_texts)
_TEXTS_BY_NAME = _JsonType("texts by their names", _is_texts_by_name)

_EXAMPLE = {
    "id": _TEXT,
    "input": _TEXT,
    "output": _TEXT,
    "choices": _TEXTS,
    "references": _TEXTS,
    "fields": _TEXTS_BY_NAME,
    "parts": _TEXTS,
}
"""The JSON type of each field of an Example."""

_CARD = {
    "metrics": _JsonType("numbers by their names", _is_numbers_by_name),
    "k": _JsonType("a whole number from 0", _is_count),
}
"""The JSON types of the fields of a Card that are no texts."""


def example_of(record: Any, where: str) -> Example:
    """Return the example in a JSON object. A UserError, which begins with `where`, if it is not
    one."""
    if not isinstance(record, dict) or record.keys() != _EXAMPLE.keys():
        text = f"{record!r:.80}"
        raise UserError(f"{where}: expected the fields {', '.join(_EXAMPLE)}, found {text}")
    for name, expected in _EXAMPLE.items():
        if not expected.fits(record[name]):
            raise UserError(
                f"{where}, {name!r}: expected {expected.title}, found {record[name]!r:.80}; {AGAIN}"
            )
    lists = {name: tuple(value) for name, value in record.items() if isinstance(value, list)}
    return Example(**{**record, **lists})


def read_vectors(
    file: Path, examples: int, encoders: Mapping[str, Any]
) -> Float[np.ndarray, "n d"]:
    """Return the vectors of a save, float32 [N, D], memory-mapped if there are any.

    Args:
        file: the file of the vectors.
        examples: N, the number of examples.
        encoders: the encoders by name. D must equal the `dim` of those that have one.

    Raises:
        UserError: the number, length or type of the vectors is wrong, or they are not unit vectors.
    """
    try:
        if examples:
            vectors: np.ndarray = np.lib.format.open_memmap(file, mode="r")
        else:  # an empty array cannot be mapped
            with file.open("rb") as stream:
                vectors = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:  # numpy's own errors, and all that Python's tokenizer raises
        message = str(error).partition("\n")[0]
        raise UserError(f"{file} is no array ({message:.80}); {AGAIN}") from None
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != examples:
        raise UserError(
            f"{file}: expected float32 vectors [{examples}, D], one for each example, found "
            f"{vectors.dtype} {list(vectors.shape)}; {AGAIN}"
        )
    length = vectors.shape[1]
    if not examples:
        return np.asarray(vectors)
    for name, encoder in encoders.items():
        dim = getattr(encoder, "dim", None)
        if dim is not None and dim != length:
            raise UserError(
                f"{file}: vectors of {length} numbers, and those of the {name} have {dim}; {AGAIN}"
            )
    all_zero = True
    for start in range(0, examples, _ROWS_AT_ONCE):
        lengths = np.linalg.norm(vectors[start : start + _ROWS_AT_ONCE], axis=1)
        # an encoder may give a vector of zeros for a text without known words
        wrong = ~((np.abs(lengths - 1) <= _UNIT) | (lengths == 0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise UserError(
                f"{file}, vector {start + row + 1}: expected unit length, found "
                f"{lengths[row]:g}; {AGAIN}"
            )
        all_zero = all_zero and not lengths.any()
    if all_zero:
        raise UserError(f"{file}: all vectors are zero; {AGAIN}")
    return np.asarray(vectors)
