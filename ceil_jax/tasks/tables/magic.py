"""The kind of a file, by its first bytes and not by its name."""

from __future__ import annotations

import re
from typing import NamedTuple

from ceil_jax.tasks.tables.table_rows import FILE


class Kind(NamedTuple):
    """A kind of file."""

    name: str
    """The kind in words, such as "a PDF document"."""
    way: str = ""
    """Advice for a kind that is not read here; "" for one that is."""


GZIP = Kind("a gzip file")
BZIP2 = Kind("a bzip2 file")
XZ = Kind("an xz file")
ZIP = Kind("a zip archive")
PARQUET = Kind("a parquet file")
ARROW_FILE = Kind("an Arrow file")
ARROW_STREAM = Kind("an Arrow stream")
TEXT = Kind("a text file")

_UNPACK = "unpack it, and name the file of rows"
_TABLE = "save the table as CSV (UTF-8), JSON lines or parquet"
_FETCH = "fetch the file itself"
_IMAGE = Kind("a picture", "name a file of rows")

_BEGINNINGS: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b", GZIP),
    (b"\xfd7zXZ\x00", XZ),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"PARE", Kind("an encrypted parquet file", "write it again without encryption")),
    (b"ARROW1\x00\x00", ARROW_FILE),
    (b"\xff\xff\xff\xff", ARROW_STREAM),
    (b"FEA1", Kind("a Feather file of version 1", "write it again with a newer pyarrow")),
    (b"\x28\xb5\x2f\xfd", Kind("a zstandard file", f"unpack it: zstd -d {FILE}")),
    (b"\x04\x22\x4d\x18", Kind("an lz4 file", f"unpack it: lz4 -d {FILE}")),
    (b"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", _UNPACK)),
    (b"Rar!\x1a\x07", Kind("a RAR archive", _UNPACK)),
    (
        b"SQLite format 3\x00",
        Kind(
            "an SQLite database",
            f"export the rows: sqlite3 -header -csv {FILE} 'select * from TABLE' > rows.csv",
        ),
    ),
    (b"%PDF-", Kind("a PDF document", _TABLE)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind("a workbook or document of old Office", _TABLE)),
    (b"{\\rtf", Kind("a rich text document", _TABLE)),
    (b"\x89PNG\r\n\x1a\n", _IMAGE),
    (b"\xff\xd8\xff", _IMAGE),
    (b"GIF87a", _IMAGE),
    (b"GIF89a", _IMAGE),
    (b"\x89HDF\r\n\x1a\n", Kind("an HDF5 file", _TABLE)),
    (b"\x93NUMPY", Kind("an array of numpy", _TABLE)),
    (b"Obj\x01", Kind("an Avro file", _TABLE)),
    (b"RDX2\n", Kind("a file of R objects", _TABLE)),
    (b"RDX3\n", Kind("a file of R objects", _TABLE)),
    (b"X\n\x00\x00\x00", Kind("a file of R objects", _TABLE)),
    (b"$FL2@(#)", Kind("an SPSS file", _TABLE)),
    (b"<stata_dta>", Kind("a Stata file", _TABLE)),
    (
        b"version https://git",
        Kind("a Git LFS pointer, which stands for the file", f"{_FETCH}: git lfs pull"),
    ),
    (
        b"/annex/objects/",
        Kind("a git-annex pointer, which stands for the file", f"{_FETCH}: git annex get {FILE}"),
    ),
)

PICKLE = Kind("a pickle, which could run any code when it is read", _TABLE)

_MARK = rb"(?:\xef\xbb\xbf)?"
"""The byte order mark of UTF-8."""

_PATTERNS = (
    # patterns, because a text may begin with the same letters
    (re.compile(rb"BZh[1-9]1AY&SY"), BZIP2),
    (re.compile(rb"PAR1[^ -~\r\n]"), PARQUET),
    (re.compile(rb"ORC.*\x00.*ORC.\Z", re.S), Kind("an ORC file", _TABLE)),
    (re.compile(rb"[l-s][\x01\x02]\x01\x00"), Kind("a Stata file", _TABLE)),
    (re.compile(rb"\x80[\x02-\x05].*\.\Z", re.S), PICKLE),
    (
        re.compile(
            _MARK + rb"\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body|table)\b", re.I | re.S
        ),
        Kind(
            "a web page",
            "a download that needs a login gives one; fetch the file itself, or, if the page shows the "
            "table, save that as CSV (UTF-8)",
        ),
    ),
    (re.compile(_MARK + rb"\s*<\?xml\b", re.I), Kind("an XML document", _TABLE)),
)


def kind_of(content: bytes) -> Kind:
    """Return the kind of a file's content; `TEXT` if nothing else is recognised."""
    start = content[:4096]
    for beginning, kind in _BEGINNINGS:
        if start.startswith(beginning):
            return kind
    if start[257:262] == b"ustar":
        return Kind("a tar archive", f"unpack it (tar -xf {FILE}), and name the file of rows")
    for pattern, kind in _PATTERNS:
        if pattern.match(content):
            return kind
    if content and not content.strip(b"\x00"):
        return Kind("nothing but zero bytes", "a copy broke off; fetch the file again")
    return TEXT
