"""Files under a name that is not theirs, packed, cut, or made to fill the memory."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.tables import unpacking

TABLE = b"text,label\n" + b"".join(b"film %d,good\n" % i for i in range(50))
ROWS = [{"text": f"film {i}", "label": "good"} for i in range(50)]


def zipped(*files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return held.getvalue()


def parquet():
    held = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), held)
    return held.getvalue()


def arrow(new):
    held = io.BytesIO()
    table = pa.Table.from_pylist(ROWS)
    with new(held, table.schema) as writer:
        writer.write_table(table)
    return held.getvalue()


def tarred():
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE),
        ("a.csv", gzip.compress(TABLE)),
        ("a.csv.gz", TABLE),  # a browser unpacked it and kept the name
        ("a.csv", bz2.compress(TABLE)),
        ("a.csv.xz", lzma.compress(TABLE)),
        ("a.csv.gz", gzip.compress(gzip.compress(TABLE))),
        ("a.csv", zipped(("reviews.csv", TABLE))),
        (
            "a.zip",
            zipped(("data/reviews.csv", TABLE), ("__MACOSX/._reviews.csv", b"x"), ("data/", b"")),
        ),
        (
            "a.zip",
            zipped(
                ("README.md", b"# Reviews"),
                (".DS_Store", b""),
                ("r.tsv", TABLE.replace(b",", b"\t")),
            ),
        ),
        ("a.csv.zip", zipped(("r.parquet", parquet()))),
        ("a.parquet", parquet()),
        ("a.csv", parquet()),
        ("a", gzip.compress(parquet())),
        ("data.arrow", arrow(pa.ipc.new_stream)),
        ("a.feather", arrow(pa.ipc.new_file)),
        ("a.csv", json.dumps(ROWS).encode()),
        ("a.txt", "\n".join(map(json.dumps, ROWS)).encode()),
    ],
)
def test_rows_under_any_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_table(tmp_path / name).rows == ROWS


def database(folder):
    with sqlite3.connect(folder / "made.db") as connection:
        connection.execute("create table t (a)")
    connection.close()
    return (folder / "made.db").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            zipped(("xl/workbook.xml", b""), ("[Content_Types].xml", b"")),
            "an Excel workbook: save the sheet as CSV",
        ),
        (zipped(("mimetype", b""), ("content.xml", b"")), "an OpenDocument file: save the sheet"),
        (zipped(("word/document.xml", b"")), "a Word document"),
        (zipped(("a.csv", b""), ("b.csv", b"")), "a zip archive of 'a.csv', 'b.csv': unpack it"),
        (zipped(("._a.csv", b"")), "a zip archive of no file"),
        (zipped(("a.csv", TABLE))[:-30], "a zip archive that is cut or damaged"),
        (zipped(("m/data.pkl", b"x"), ("m/version", b"3")), "a file of torch"),
        (gzip.compress(TABLE)[:-9], "a gzip file that is cut, .*fetch it again"),
        (gzip.compress(TABLE)[:40] + b"\0\0\0\0\0\0\0\0\0\0\0\0", "a gzip file that is damaged"),
        (parquet()[:-20], "a parquet file that is cut"),
        (b"%PDF-1.7\n", "a PDF document: save the table as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "of old Office: save the table"),
        (b"\x28\xb5\x2f\xfd\x04\x00", r"a zstandard file: unpack it: zstd -d .*a\.csv"),
        (tarred(), "a tar archive: unpack it"),
        (gzip.compress(tarred()), "a tar archive: unpack it"),
        (pickle.dumps(ROWS), "a pickle, which could run any code"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a picture: name a file of rows"),
        (b"\x93NUMPY\x01\x00", "an array of numpy"),
        (b"ORC\n\x00\x05 ORC\x17", "an ORC file: save the table as CSV"),
        (b"r\x02\x01\x00", "a Stata file"),
        (bytes(range(256)) * 9, "no text file, and of no kind that is read here: save the table"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "a Git LFS pointer.*git lfs pull",
        ),
        (b"version https://git-l", "a Git LFS pointer"),
        (b"/annex/objects/SHA256E-s1--ab.csv\n", "a git-annex pointer.*git annex get"),
        (
            b"\n<!DOCTYPE html>\n<html><body>Sign in</body>",
            "a web page: a download that needs a login",
        ),
        (b'\xef\xbb\xbf<?xml version="1.0"?><rows/>', "an XML document"),
        (b"\0" * 5000, "nothing but zero bytes: a copy broke off"),
    ],
)
def test_what_is_not_read_is_told_by_its_name(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with refused(rf"a\.csv is .*{message}"):
        read_table(tmp_path / "a.csv")


def test_a_database_is_told_with_a_way_to_its_rows(tmp_path):
    (tmp_path / "a.csv").write_bytes(database(tmp_path))
    with refused("an SQLite database: export the rows: sqlite3 -header -csv "):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("header", ["ORC", "PAR1", "BZh", "GIF8", "RDX2", "PK"])
def test_a_header_that_begins_like_another_kind_is_a_header(tmp_path, header):
    (tmp_path / "a.csv").write_bytes(f"{header},label\na,b\n".encode())
    assert read_table(tmp_path / "a.csv").rows == [{header: "a", "label": "b"}]


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lambda held: zipped(("a.csv", held))]
)
def test_what_is_unpacked_has_a_bound(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpacking, "SMALL", 100_000)
    bomb = b"a,b\n" + b"x,y\n" * 500_000
    (tmp_path / "a.csv").write_bytes(pack(bomb))
    with refused(
        r"a\.csv unpacks to more than .* MiB, which no file of texts .*unpack it yourself"
    ):
        read_table(tmp_path / "a.csv")
    monkeypatch.setattr(unpacking, "SMALL", len(bomb))
    assert len(read_table(tmp_path / "a.csv").rows) == 500_000


def test_a_bomb_is_not_unpacked_beyond_the_bound(tmp_path, monkeypatch):
    """A file of 1 MB that holds 1,000 MB; what is read of it is the bound and a byte."""
    read = []

    class Counting(gzip.GzipFile):
        def read(self, size=-1):
            read.append(size)
            return super().read(size)

    monkeypatch.setattr(unpacking.gzip, "GzipFile", Counting)
    (tmp_path / "a.csv").write_bytes(gzip.compress(b"\0" * 70 * 2**20, compresslevel=9))
    with refused("unpacks to more than 64 MiB"):
        read_table(tmp_path / "a.csv")
    assert read == [64 * 2**20 + 1]


def test_an_archive_with_a_wrong_table_of_contents_is_told(tmp_path):
    """Its last lines say that the files begin before the file does."""
    content = zipped(("a.csv", TABLE))
    (tmp_path / "a.csv").write_bytes(content[:40] + content[60:])
    with refused(r"a\.csv is a zip archive that"):
        read_table(tmp_path / "a.csv")


def test_layers_have_a_bound(tmp_path):
    content = TABLE
    for _ in range(9):
        content = gzip.compress(content)
    (tmp_path / "a.csv").write_bytes(content)
    with refused("packed more than 3 times over"):
        read_table(tmp_path / "a.csv")
