"""The content of a file, unpacked up to a size limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from ceil_jax.tasks.tables import magic
from ceil_jax.tasks.tables.magic import Kind, kind_of
from ceil_jax.tasks.tables.table_rows import FILE, TableError


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...


SMALL = 64 * 2**20
"""Bytes that any file may unpack to."""

RATIO = 100
"""Beyond that, the content may be this many times as large as the packed file. Texts are 3 to 20
times as large as their gzip files; a file that is made to fill the memory (a "bomb") is 1,000 times
as large."""

LARGEST = 4 * 2**30
"""The most bytes that are unpacked: all rows are held in memory, several times over while they are
read."""

LAYERS = 3
"""How many times over a file may be packed."""

_UNPACKERS: dict[Kind, Callable[[io.BytesIO], Readable]] = {
    magic.GZIP: lambda packed: gzip.GzipFile(fileobj=packed),
    magic.BZIP2: bz2.BZ2File,
    magic.XZ: lzma.LZMAFile,
}

_OFFICE = {
    "xl/": Kind("an Excel workbook", "save the sheet as CSV (UTF-8)"),
    "word/": Kind("a Word document", "save the table as CSV (UTF-8)"),
    "ppt/": Kind("a PowerPoint document", "save the table as CSV (UTF-8)"),
    "content.xml": Kind("an OpenDocument file", "save the sheet as CSV (UTF-8)"),
    "data.pkl": Kind("a file of torch", "save the rows as CSV, JSON lines or parquet"),
}
"""Zip archives that are documents, by the beginning of the name of a file inside."""


class Content(NamedTuple):
    """The bytes of a file, unpacked."""

    content: bytes
    kind: Kind
    """The kind of the content: parquet, Arrow or text."""
    name: str
    """The name of the file, or of the file inside an archive, without endings such as .gz."""


def unpacked(path: Path) -> Content:
    """Return the content of a file. gzip, bzip2 and xz are unpacked; from a zip archive, its only
    data file is taken.

    Raises:
        TableError: the file cannot be read, is cut off, or unpacks to more than the limit; or it is
            of a kind that holds no rows, for which the message says what to do.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TableError(f"cannot read {FILE}: {error.strerror or error}") from None
    limit = min(LARGEST, max(SMALL, RATIO * len(content)))
    name = path.name
    for _ in range(LAYERS):
        kind = kind_of(content)
        if kind in _UNPACKERS:
            content = _bounded(_UNPACKERS[kind](io.BytesIO(content)), limit, kind)
        elif kind == magic.ZIP:
            content, name = _only_file(content, limit)
        elif kind.way:
            raise TableError(f"{FILE} is {kind.name}: {kind.way}")
        else:
            return Content(content, kind, _unpacked_name(name))
    raise TableError(f"{FILE} is packed more than {LAYERS} times over; unpack it first")


def _unpacked_name(name: str) -> str:
    """The name of a file without endings such as .gz. A browser may have unpacked the file and kept
    the ending."""
    file = PurePosixPath(name)
    while file.suffix.lower() in (".gz", ".bz2", ".xz", ".zip"):
        file = PurePosixPath(file.stem)
    return str(file)


def _bounded(stream: Readable, limit: int, kind: Kind) -> bytes:
    """The whole stream. A TableError if it is longer than the limit, cut off or damaged."""
    try:
        content = stream.read(limit + 1)
    except EOFError:
        raise TableError(
            f"{FILE} is {kind.name} that is cut, as by a download that broke off; fetch it again"
        ) from None
    except (OSError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise TableError(
            f"{FILE} is {kind.name} that is damaged ({error}); fetch it again"
        ) from None
    if len(content) > limit:
        raise TableError(
            f"{FILE} unpacks to more than {limit / 2**20:,.0f} MiB, which no file of texts of its "
            f"size does (at most {RATIO} times as much is taken); if it is right, unpack it yourself"
        )
    return content


def _only_file(content: bytes, limit: int) -> tuple[bytes, str]:
    """The only data file of a zip archive, and its name."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise TableError(
            f"{FILE} is a zip archive that is cut or damaged ({error}); fetch it again"
        ) from None
    names = archive.namelist()
    for mark, kind in _OFFICE.items():
        if any(name.startswith(mark) or name.endswith(f"/{mark}") for name in names):
            raise TableError(f"{FILE} is {kind.name}: {kind.way}")
    files = [
        info for info in archive.infolist() if not info.is_dir() and not _beside(info.filename)
    ]
    if len(files) != 1:
        listed = ", ".join(repr(info.filename) for info in files[:5]) or "no file"
        more = f" and {len(files) - 5:,} more" if len(files) > 5 else ""
        raise TableError(
            f"{FILE} is a zip archive of {listed}{more}: unpack it, and name the file of rows"
        )
    [info] = files
    if info.flag_bits & 1:
        raise TableError(f"{FILE} is a zip archive with a password: unpack it first")
    try:
        stream = archive.open(info)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise TableError(
            f"{FILE} is a zip archive that cannot be read ({error}): unpack it"
        ) from None
    return _bounded(stream, limit, magic.ZIP), PurePosixPath(info.filename).name


def _beside(name: str) -> bool:
    """Whether a file in an archive is not data: a hidden file, or a readme, licence or the like."""
    file = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in file.parts)
    papers = file.stem.lower() in ("readme", "license", "licence", "citation", "thumbs", "desktop")
    return hidden or (papers and file.suffix.lower() in ("", ".md", ".txt", ".cff", ".db", ".ini"))
