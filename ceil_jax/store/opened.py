"""Reading of folders that anybody may have written.

Its regular files are data, with checked sizes and types; nothing in them is a name of code, an
address, or a path out of the folder.

Everything that a saved selector, head, classifier, encoder or DSPy program holds is read here.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import os
import reprlib
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import ml_dtypes
import numpy as np
from jaxtyping import Float
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from ceil_jax.errors import UserError
from ceil_jax.store.hashing import POINTER, is_pointer
from ceil_jax.store.progress import bar
from ceil_jax.store.weights import no_model

T = TypeVar("T")

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""The rules for a dataclass that is read from JSON: no value is converted, no key is ignored."""

AGAIN = "save or fetch it again"

MOST_TEXT = 64 * 2**20
"""The maximum size of a JSON file, or of a line of a JSONL file, in bytes."""

MOST_FILES = 200
MOST_BYTES = 32 * 2**30
"""The maximum number of files that a saved folder may name, and the maximum size of each in bytes."""

_SPARSE = 2**30
"""The size in bytes from which a file is refused if nearly all of it is holes."""

_MOST_HEADER = 8 * 2**20
"""The maximum size of the header of a safetensors file in bytes; BERT-large has 40,000."""

_MOST_ARRAYS = 2**30

_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
"""The types of a safetensors file that are read; others, such as quantised ones, are refused."""


def _relative(name: str) -> str:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or {*"\\:\0"} & {*name}:
        raise ValueError("expected a path inside the folder, such as encoder/config.json")
    return name


Title = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A name that is shown: one line without control characters."""

RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path inside a folder, with slashes."""

Size = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass
class _Tensor:
    """An entry in the header of a safetensors file."""

    dtype: str
    shape: Annotated[list[Size], Field(max_length=8)]
    data_offsets: tuple[Size, Size]


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def checked(content: bytes, kind: type[T], where: str) -> T:
    """Return JSON as a value of a type, which may be a dataclass. Types are not converted.

    Args:
        content: the JSON text.
        kind: the type; a dataclass with the configuration `STRICT` has no other keys than its
            fields.
        where: the beginning of the message, such as the file.

    Raises:
        UserError: it is not JSON, or a value is not of its type; the message names the place, what
            was expected and what was found.
    """
    try:
        adapter = _adapter(kind)  # type: ignore[arg-type]  # types are hashable
        return adapter.validate_json(content.removeprefix(b"\xef\xbb\xbf"), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        why = first["msg"].removeprefix("Invalid JSON: ")
        raise UserError(f"{where} is not JSON ({why:.80}); {AGAIN}")
    place = ".".join(str(part)[:40] for part in first["loc"][:6])
    said = first["msg"].replace("Input should be", "expected").replace("Value error, ", "")
    raise UserError(
        f"{where}{place and f', {place!r}'}: {said:.160}, found {reprlib.repr(first['input'])}; "
        f"{AGAIN}"
    )


def titled(name: str) -> str:
    """Return a name as a `Title`."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:200]


class Files:
    """The files of a folder, by relative path such as `encoder/config.json`.

    A file is opened only if it is a regular file inside the folder, or a link to one there or to a
    blob of the hub's cache. An open file stays readable while another process replaces the folder.

    Args:
        folder: the folder.
        names: the files that may be read; they are opened at once. By default every file may be, and
            is opened when it is read.

    Raises:
        UserError: one of `names` is missing or is not a regular file.
    """

    def __init__(self, folder: Path, names: Iterable[str] | None = None) -> None:
        self.folder = folder
        self._root = Path(os.path.realpath(folder))
        self._prefix = ""
        self._names = None if names is None else {*names}
        self._streams: dict[str, BinaryIO] = {}
        try:
            for name in self._names or ():
                self.stream(name)
        except UserError:
            self.close()
            raise

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. Arrays that are mapped stay valid."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def inside(self, folder: str) -> Files:
        """Return the files of a folder in this one; "" is this one itself."""
        if not folder:
            return self
        files = Files.__new__(Files)
        vars(files).update(vars(self), _prefix=f"{self._prefix}{folder}/")
        return files

    def path(self, name: str = "") -> Path:
        """Return the path of a file, for messages."""
        return self.folder / f"{self._prefix}{name}"

    def __contains__(self, name: str) -> bool:
        """Return whether a file of this name, or a folder with files, may be read."""
        if self._names is None:
            return os.path.exists(self.path(name))
        full = f"{self._prefix}{name}"
        return any(known == full or known.startswith(f"{full}/") for known in self._names)

    def names(self) -> list[str]:
        """Return the names of the files in this folder, not in folders inside it."""
        if self._names is None:
            folder = self.path()
            return sorted(os.listdir(folder)) if folder.is_dir() else []
        known = (name for name in self._names if name.startswith(self._prefix))
        names = (name.removeprefix(self._prefix) for name in known)
        return sorted(name for name in names if "/" not in name)

    def stream(self, name: str) -> BinaryIO:
        """Return a file, open for reading at its beginning."""
        full = f"{self._prefix}{name}"
        if full not in self._streams:
            self._streams[full] = self._opened(self.path(name))
        self._streams[full].seek(0)
        return self._streams[full]

    def _opened(self, path: Path) -> BinaryIO:
        try:
            real = Path(os.path.realpath(path, strict=True))
            if not (real.is_relative_to(self._root) or self._is_blob(real)):
                raise UserError(
                    f"{path} leads out of its folder, to {real}; put the file itself there"
                )
            status = real.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{path} is not a regular file; {AGAIN}")
            # a file of holes is none that anybody writes; reading it takes as long as its size says
            blocks = getattr(status, "st_blocks", status.st_size)
            is_sparse = status.st_size > _SPARSE and 512 * blocks < status.st_size / 1000
            if status.st_size > MOST_BYTES or is_sparse:
                what = "which are holes" if is_sparse else f"more than {MOST_BYTES:,}"
                raise UserError(f"{path} has {status.st_size:,} bytes, {what}")
            return real.open("rb")
        except FileNotFoundError:
            raise UserError(f"{path} is missing; {AGAIN}") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UserError(f"{path} cannot be read ({why}); {AGAIN}") from None

    def _is_blob(self, real: Path) -> bool:
        """Return whether a file is a blob in the hub's cache that this folder may link to.

        This folder is a snapshot, and the blob belongs to the same repository.
        """
        above = self._root.parents
        repository = next((path.parent for path in above if path.name == "snapshots"), None)
        return repository is not None and real.parent == repository / "blobs"

    def read(self, name: str, most: int = MOST_TEXT) -> bytes:
        """Return the content of a file; a UserError if it has more than `most` bytes."""
        content = self.stream(name).read(most + 1)
        if len(content) > most:
            raise UserError(f"{self.path(name)} has more than {most:,} bytes; {AGAIN}")
        return content

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file, each of at most MOST_TEXT bytes."""
        for line in iter(functools.partial(self.stream(name).readline, MOST_TEXT + 1), b""):
            if len(line) > MOST_TEXT:
                raise UserError(
                    f"{self.path(name)}: a line of more than {MOST_TEXT:,} bytes; {AGAIN}"
                )
            yield line

    def json(self, name: str, kind: type[T], missing: T | None = None) -> T:
        """Return the JSON value in a file as a type (see `checked`).

        `missing`, if it is given and there is no such file.
        """
        if missing is not None and name not in self:
            return missing
        return checked(self.read(name), kind, str(self.path(name)))

    def check(self, hashes: Mapping[str, str]) -> None:
        """Check that files have the expected sha256.

        Raises:
            UserError: a file has other content; the message says if it is a pointer of Git LFS, or
                has other line ends.
        """
        sizes = sum(os.fstat(self.stream(name).fileno()).st_size for name in hashes)
        with bar(sizes, "checking the files", delay=2.0) as progress:
            for name, sha256 in hashes.items():
                digest = hashlib.sha256()
                for part in iter(functools.partial(self.stream(name).read, 2**20), b""):
                    digest.update(part)
                    progress.update(len(part))
                if digest.hexdigest() != sha256:
                    raise self._damaged(name, sha256)

    def _damaged(self, name: str, sha256: str) -> UserError:
        path = self.path(name)
        if is_pointer(path):
            return UserError(f"{path} {POINTER}")
        unix = self.stream(name).read(MOST_TEXT).replace(b"\r\n", b"\n")
        if hashlib.sha256(unix).hexdigest() == sha256:
            return UserError(
                f"{path} has other line ends than were saved, as git writes on Windows; switch that off "
                "(git config core.autocrlf false, or '* -text' in .gitattributes) and fetch it again"
            )
        return UserError(f"{path} is missing, damaged, or of another save; {AGAIN}")

    def arrays(self, name: str, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """Return those arrays of an .npz file that are wanted and in it, by name.

        It must not be compressed, as `np.savez` writes it.

        Raises:
            UserError: it is no such file, or an array holds Python objects.
        """
        arrays = {}
        try:
            with zipfile.ZipFile(self.stream(name)) as archive:
                for entry in archive.infolist():
                    key = entry.filename.removesuffix(".npy")
                    if key not in wanted:
                        continue
                    if key in arrays:
                        raise ValueError(f"{key} occurs twice")
                    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > _MOST_ARRAYS:
                        raise ValueError(
                            f"{key} is compressed, or larger than {_MOST_ARRAYS:,} bytes"
                        )
                    with archive.open(entry) as stream:
                        arrays[key] = np.lib.format.read_array(stream, allow_pickle=False)
        except UserError:
            raise
        except Exception as error:  # zipfile, numpy and Python's tokenizer have errors of their own
            raise self._unreadable(name, error) from None
        return arrays

    def matrix(self, name: str, rows: int) -> Float[np.ndarray, "n d"]:
        """Return the rows that `np.save` wrote from a float32 array [N, D], memory-mapped.

        Raises:
            UserError: the file holds something else, or another number of rows.
        """
        stream = self.stream(name)
        if not rows:
            return np.zeros((0, 0), np.float32)
        size = os.fstat(stream.fileno()).st_size
        columns = max(0, size - len(matrix_header(rows, 1))) // (4 * rows)
        header = matrix_header(rows, columns)
        if size != len(header) + 4 * rows * columns or stream.read(len(header)) != header:
            raise UserError(
                f"{self.path(name)}: expected float32 vectors [{rows}, D], one for each example, as "
                f"np.save writes them; {AGAIN}"
            )
        shape = rows, columns
        return np.memmap(stream, np.float32, mode="r", offset=len(header), shape=shape)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the arrays in all `model*.safetensors`, by name.

        They are mapped: their shapes are known, and their numbers are read when they are used.
        Pickles are never opened.

        Raises:
            UserError: there is no such file; or one is damaged, or has a type that is not read.
        """
        names = [name for name in self.names() if name.startswith("model")]
        names = [name for name in names if name.endswith(".safetensors")]
        if not names:
            raise no_model(self.path(), "encoder")
        tensors: dict[str, np.ndarray] = {}
        for name in names:
            tensors |= self._tensors(name)
        return tensors

    def _tensors(self, name: str) -> dict[str, np.ndarray]:
        stream = self.stream(name)
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= _MOST_HEADER:
            raise self._unreadable(name, f"a header of {length:,} bytes")
        where = f"{self.path(name)} cannot be read: its header"
        header = checked(stream.read(length), dict[str, _Tensor | dict[str, str]], where)
        raw = np.memmap(stream, np.uint8, mode="r")[8 + length :]
        tensors = {}
        spans = []
        for key, entry in header.items():
            if isinstance(entry, dict):  # the metadata
                continue
            dtype = _DTYPES.get(entry.dtype)
            if dtype is None:
                what = f"{key[:80]} has the type {entry.dtype[:20]}: take a checkpoint that is not quantised"
                raise self._unreadable(name, what)
            start, stop = entry.data_offsets
            size = math.prod(entry.shape) * dtype.itemsize
            if not 0 < stop - start == size or stop > len(raw):
                raise self._unreadable(name, f"{key[:80]} does not fit into the file")
            spans.append((start, stop))
            tensors[key] = raw[start:stop].view(dtype).reshape(entry.shape)
        # a small file would hold a network of any size
        if any(after[0] < before[1] for before, after in pairwise(sorted(spans))):
            raise self._unreadable(name, "tensors share their numbers")
        return tensors

    def _unreadable(self, name: str, why: object) -> UserError:
        if is_pointer(self.path(name)):
            return UserError(f"{self.path(name)} {POINTER}")
        reason = str(why).partition("\n")[0]
        return UserError(f"{self.path(name)} cannot be read ({reason:.160}); {AGAIN}")


def matrix_header(rows: int, columns: int) -> bytes:
    """Return the header that `np.save` writes for a float32 array [rows, columns], as bytes."""
    out = io.BytesIO()
    form = {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
    np.lib.format.write_array_header_1_0(out, form)
    return out.getvalue()
