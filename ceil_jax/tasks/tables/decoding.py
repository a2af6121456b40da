"""Bytes to text: UTF-8, or the encoding that a byte order mark names."""

from __future__ import annotations

import codecs

from ceil_jax.tasks.tables.table_rows import FILE, TableError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_WESTERN = 0.2
"""The largest share of bytes above 127 in texts of Western languages."""


def decoded(content: bytes, name: str = "table.csv") -> str:
    """Return the text of a file: UTF-8, or UTF-16 and UTF-32 with a byte order mark.

    Args:
        content: the bytes of the file.
        name: the file's name without folders, for the command in the message.

    Raises:
        TableError: the bytes are in another encoding; the message names the first wrong line and a
            command that converts the file.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    if encoding == "utf-8" and (guess := _wide(content)):
        raise TableError(
            f"{FILE} looks like {guess.upper()} without a byte order mark; convert it: iconv -f "
            f"{guess.upper()} -t UTF-8 {FILE} > utf8-{name}"
        )
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start] if error.start < len(error.object) else 0
        if encoding.startswith(("utf-16", "utf-32")):
            raise TableError(
                f"{FILE}, line {line}: not {encoding.upper()}, which its first bytes say it is; "
                "it may be cut: fetch it again"
            ) from None
        if error.start >= len(content) - 3 and error.reason == "unexpected end of data":
            raise TableError(
                f"{FILE}, line {line}: ends in the middle of a character; it may be cut: fetch it "
                "again"
            ) from None
        if b"\x00" in content[:4096]:
            raise TableError(
                f"{FILE} is no text file, and of no kind that is read here: save the table as CSV "
                "(UTF-8), JSON lines or parquet"
            ) from None
        # of Western text a small part has accents
        share = sum(value > 127 for value in content) / len(content)
        known = "WINDOWS-1252"
        if share > _WESTERN:
            known = "ENCODING (such as GB18030, BIG5, SHIFT_JIS, EUC-KR or WINDOWS-1251)"
        raise TableError(
            f"{FILE}, line {line}: not UTF-8 (byte {byte:#04x}); convert the file, for example "
            f"with iconv -f {known} -t UTF-8 {FILE} > utf8-{name}"
        ) from None
    return text.removeprefix("\ufeff")


def _wide(content: bytes) -> str:
    """ "utf-16le" or "utf-16be" if the content seems to be in it, by its zero bytes; else ""."""
    start = content[:2000]
    for name, other in (("utf-16le", start[1::2]), ("utf-16be", start[0::2])):
        if len(other) > 8 and other.count(0) > 0.4 * len(other):
            return name
    return ""
