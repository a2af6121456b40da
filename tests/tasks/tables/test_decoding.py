"""Bytes to text, by their byte order mark."""

import codecs

import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.tables.decoding import decoded

TEXT = "text,label\nüber,gut\nça va,bon\n"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        codecs.BOM_UTF8 + TEXT.encode("utf-8-sig"),  # marked twice
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16be"),
        TEXT.encode("utf-32"),
    ],
)
def test_texts_with_a_mark_or_in_utf_8(content):
    assert decoded(content) == TEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            TEXT.encode("utf-16le"),
            "looks like UTF-16LE without a byte order mark; convert it: iconv -f UTF-16LE",
        ),
        (TEXT.encode("utf-16be"), "looks like UTF-16BE"),
        (
            TEXT.encode("latin-1"),
            r"line 2: not UTF-8 \(byte 0xfc\).*iconv -f WINDOWS-1252 -t UTF-8 ",
        ),
        (TEXT.encode("utf-16")[:-1], "not UTF-16, which its first bytes say it is; it may be cut"),
        (
            "text,label\na,é".encode()[:-1],
            "line 2: ends in the middle of a character; it may be cut",
        ),
        (
            "text,label\n名前,良い\n".encode("shift-jis"),
            "line 2: not UTF-8 .*iconv -f ENCODING .such as GB18030, BIG5, SHIFT_JIS",
        ),
        ("текст,метка\nфильм,да\n".encode("cp1251"), "or WINDOWS-1251"),
    ],
)
def test_what_is_not_utf_8(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with refused(message):
        read_table(tmp_path / "a.csv")
