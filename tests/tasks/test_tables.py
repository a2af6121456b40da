"""The one reader of tables: what is read, what a cell is, and the one message for the rest."""

import bz2
import gzip
import io
import json
import lzma
import re
import sqlite3
import zipfile
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.tasks import tables
from ceil_jax.tasks.load import load_file
from ceil_jax.tasks.own_file import FileKeywords
from ceil_jax.tasks.spec import RowError
from ceil_jax.tasks.tables import read_table

ROWS = [{"text": f"film {i}, “fine”", "label": ["bad", "good"][i % 2]} for i in range(6)]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def separated(delimiter):
    lines = [[f'"{row["text"]}"', row["label"]] for row in ROWS]
    return "".join(f"{delimiter.join(line)}\r\n" for line in (["text", "label"], *lines)).encode()


def parquet(table):
    held = io.BytesIO()
    pq.write_table(table, held)
    return held.getvalue()


def zipped(*names):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"" if name.endswith("/") else separated(","))
    return held.getvalue()


def zstd(content):
    return pa.compress(content, "zstd", asbytes=True)


LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", separated(",")),
        ("A.CSV", separated(",").replace(b"\r\n", b"\n")),
        ("a.csv", separated(",").replace(b"\r\n", b"\r")),
        ("a.csv", b"\xef\xbb\xbf" + separated(",")),
        ("a.csv", separated(";")),
        ("a.csv", separated("\t")),
        ("a.csv", separated("|")),
        ("a.tsv", separated("\t")),
        ("a.jsonl", LINES),
        ("a.jsonl", LINES.replace(b"\n", b"\r\n\r\n")),
        ("a.json", json.dumps(ROWS).encode()),
        ("a.json", json.dumps(ROWS, indent=2, ensure_ascii=False).encode()),
        ("a.parquet", parquet(pa.table(COLUMNS))),
        ("a.csv.gz", gzip.compress(separated(","))),
        ("a.tsv.bz2", bz2.compress(separated("\t"))),
        ("a.jsonl.xz", lzma.compress(LINES)),
        ("a.jsonl.zst", zstd(LINES)),
        ("a.parquet.gz", gzip.compress(parquet(pa.table(COLUMNS)))),
        ("a.zip", zipped("data/", "data/reviews.csv")),
    ],
)
def test_what_is_read(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_table(tmp_path / name).rows == ROWS


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8"])
def test_an_encoding_that_is_named(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes(separated(",").decode().encode(encoding))
    assert read_table(tmp_path / "a.csv", encoding=encoding).rows == ROWS
    named = {"input_key": "text", "output_key": "label", "encoder": Words()}
    selector = CeilSelector.from_csv(tmp_path / "a.csv", encoding=encoding, **named)
    assert [example.output for example in selector.examples] == COLUMNS["label"]
    task = load_file(tmp_path / "a.csv", input="text", output="label", encoding=encoding)
    assert "“fine”" in task.train[0].input


ALL = "Supported: .csv and .tsv with a header, .jsonl, .json (a list of objects) and .parquet; "


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.xlsx", b"PK\x03\x04\x14", "its name ends in '.xlsx'"),
        ("a.arrow", b"ARROW1\x00\x00", "its name ends in '.arrow'"),
        ("a", LINES, "its name ends in ''"),
        ("a.txt", separated("\t"), "its name ends in '.txt'"),
        ("a.csv", "text,label\nfein,über\n".encode("cp1252"), "line 2 is not utf-8"),
        ("a.csv", "text,label\n".encode("utf-16"), "line 1 is not utf-8"),
        ("a.csv", gzip.compress(LINES, mtime=0), "line 1 is not utf-8"),
        ("a.csv.gz", b"text,label\n", "Not a gzipped file"),
        ("a.csv.gz", gzip.compress(LINES, mtime=0)[:-9], "Compressed file ended before"),
        ("a.csv.bz2", bz2.compress(LINES)[:-9], "Compressed file ended before"),
        ("a.csv.xz", lzma.compress(LINES)[:-9], "Compressed file ended before"),
        ("a.csv.zst", zstd(LINES * 99)[:-9], "Truncated compressed stream"),
        ("a.zip", zipped("a.csv", "b.csv"), "it is a .zip of 2 files"),
        ("a.zip", zipped("a.csv")[:-30], "File is not a zip file"),
        ("a.zip", zipped("a.png"), "its name ends in '.png'"),
        ("a.csv", b'text,label\nfine,good\n"a "quoted" word,bad\n', "begins in line 3 is not CSV"),
        ("a.csv", b'text,label\n"never closed,bad\n', "begins in line 2 is not CSV"),
        ("a.json", LINES, "Extra data: line 2"),
        ("a.json", b'{"data": [], "version": 1}', "found one object of 'data', 'version'"),
        ("a.json", b'[{"a": 1}, {"a": 2', "line 1 column"),
        ("a.json", b'[{"a": 1, "a": 2}]', "a name is repeated in a, a"),
        ("a.json", b"[" * 100_000, "recursion"),
        ("a.json", b"[1, 2]", "row 1: expected an object of columns, found int"),
        ("a.jsonl", b"[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", b"\n[1]\n[2]\n", "line 2: expected an object of columns, found list"),
        ("a.jsonl", separated(","), "line 1: not JSON"),
        ("a.csv", b"Report 2025\n\ntext,label\na,b\n", "line 3: 2 cells, the header has 1 (line 1"),
        ("a.parquet", LINES, "magic bytes"),
        ("a.parquet", b"", "size is 0 bytes"),
        ("a.parquet", parquet(pa.table(COLUMNS))[:-90], "magic bytes"),
    ],
)
def test_every_other_file_ends_in_one_message(tmp_path, name, content, why):
    file = tmp_path / name
    file.write_bytes(content)
    with refused("^cannot read ") as caught:
        load_file(file, input="text", output="label")
    said = str(caught.value)
    assert why.lower() in said.lower()
    assert said.startswith(f"cannot read {file}: ")
    assert f". It begins with {content[:80]!r}. {ALL}" in said
    assert said.endswith("and save it as CSV (UTF-8)")
    assert "\n" not in said


def test_the_page_and_the_message_name_what_is_read(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
    contract = page.partition("## What is read")[2].partition("\n\nText tables")[0]
    (tmp_path / "a").write_text("")
    with refused("cannot read") as caught:
        read_table(tmp_path / "a")
    message = str(caught.value).partition("Supported: ")[2]
    for text in (re.findall(r"`(\.[a-z0-9]+)`", contract), re.findall(r"\.[a-z0-9]+\b", message)):
        assert {*text} == {*tables.ENDINGS, *tables.COMPRESSED}
    for flag in ("encoding", "delimiter"):
        assert f"--{flag}" in contract
        assert f"{flag}" in FileKeywords.__annotations__


def test_an_encoding_that_is_unknown(tmp_path):
    (tmp_path / "a.csv").write_bytes(separated(","))
    with refused("cannot read .*a.csv: unknown encoding: latin-99"):
        read_table(tmp_path / "a.csv", encoding="latin-99")


def test_no_file(tmp_path):
    for name in ("missing.csv", "https://example.org/r.csv", "text,label\na,b", "x" * 9_000):
        with refused("^no file [^\n]*$"):
            read_table(name)
    with refused("is a folder; expected a file"):
        read_table(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_file_without_rows(tmp_path, name):
    (tmp_path / name).write_text({"a.csv": "text,label\n", "a.json": "[]"}.get(name, "\n"))
    with refused(f"{name} holds no rows"):
        read_table(tmp_path / name)


# --- delimiters, cells and rows of CSV


@pytest.mark.parametrize(
    ("name", "content", "row"),
    [
        ("a.csv", "text;price\nfine;1,5\n", {"text": "fine", "price": "1,5"}),
        ("a.csv", '"text, all";label\n"a, b, c";x\n', {"text, all": "a, b, c", "label": "x"}),
        ("a.tsv", "text, all\tlabel\na\tx\n", {"text, all": "a", "label": "x"}),
        ("a.csv", "text\nfine\n", {"text": "fine"}),
    ],
)
def test_the_header_shows_the_delimiter(tmp_path, name, content, row):
    (tmp_path / name).write_text(content)
    assert read_table(tmp_path / name).rows == [row]


def test_a_tab_is_the_first_choice_inside_an_archive_too(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.tsv", "text, all\tlabel\na\tx\n")
    assert read_table(tmp_path / "a.zip").rows == [{"text, all": "a", "label": "x"}]


def test_a_delimiter_that_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("text,all:label\na,b:x\n")
    assert read_table(tmp_path / "a.csv", delimiter=":").rows == [{"text,all": "a,b", "label": "x"}]
    for delimiter in ("::", "", '"', "\n"):
        with refused("expected one character, such as ';' or a tab"):
            read_table(tmp_path / "a.csv", delimiter=delimiter)
    with refused("no column 'label'; it has 'text', 'all:label'; --input, --output"):
        load_file(tmp_path / "a.csv", input="text", output="label")


def test_cells_of_csv_are_texts_to_the_letter(tmp_path):
    cells = ["007", "1.0", "NA", "null", "nan", "True", " padded ", 'a "quoted" one', "two\nlines"]
    frame = pd.DataFrame({"text": cells, "label": "x"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert [row["text"] for row in read_table(tmp_path / "a.csv").rows] == cells


def test_rows_are_numbered_by_the_line_in_which_they_begin(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"two\nlines",good\n\n,\nfine\na,b,c\n')
    table = read_table(tmp_path / "a.csv")
    assert ([*table.numbers], table.unit) == ([2, 6, 7], "line")
    assert table.rows[0] == {"text": "two\nlines", "label": "good"}
    assert str(table.rows[1]) == "1 cells, the header has 2 (line 1: 'text', 'label')"
    with refused("a.csv, line 6: 1 cells, the header has 2.*; 2 rows cannot be used: lines 6, 7"):
        load_file(tmp_path / "a.csv", input="text", output="label")


def test_lines_that_are_no_objects(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n\n[1]\n{"b": 1, "b": 2}\n{"text"\n')
    table = read_table(tmp_path / "a.jsonl")
    assert ([*table.numbers], table.unit) == ([1, 3, 4, 5], "line")
    assert all(isinstance(row, RowError) for row in table.rows[1:])
    assert [str(row)[:24] for row in table.rows[1:3]] == [
        "expected an object of co",
        "not JSON (a name is repe",
    ]


def test_rows_have_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_ROWS", 4)
    monkeypatch.setattr(tables, "MOST_UNUSABLE", 2)
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\n" * 4)
    assert len(read_table(tmp_path / "a.csv").rows) == 4
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\n" * 5)
    with refused("it has more than 4 rows; give a part of them"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n' + "1\n" * 3)
    with refused("more than 2 rows cannot be used, the last in line 4: expected an object"):
        read_table(tmp_path / "a.jsonl")


def test_what_is_unpacked_has_a_bound(tmp_path, monkeypatch):
    bomb = b"a,b\n" + b"x,y\n" * 100_000
    monkeypatch.setattr(tables, "SMALL", 100_000)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", bomb)
    packed = {
        "a.csv.gz": gzip.compress(bomb),
        "a.csv.bz2": bz2.compress(bomb),
        "a.csv.xz": lzma.compress(bomb),
        "a.csv.zst": zstd(bomb),
        "a.zip": held.getvalue(),
    }
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
        with refused("it unpacks to more than .* MiB; unpack it first"):
            read_table(tmp_path / name)
    monkeypatch.setattr(tables, "SMALL", len(bomb))
    assert len(read_table(tmp_path / "a.csv.gz").rows) == 100_000


# --- tables in memory

CLASSES = datasets.Features(
    {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
)


def classified():
    numbers = [["bad", "good"].index(label) for label in COLUMNS["label"]]
    return datasets.Dataset.from_dict({"text": COLUMNS["text"], "label": numbers}, CLASSES)


class Handed:
    """A table of some other library, which hands its columns over as Arrow does."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, an index without a name": lambda: pd.DataFrame(COLUMNS, index=[*"abcdef"]),
    "pandas, an index with a name": lambda: pd.DataFrame(COLUMNS).set_index("text"),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"label": "category"}),
    "pandas, Arrow": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: polars.DataFrame(COLUMNS),
    "polars, categories": lambda: polars.DataFrame(
        COLUMNS, schema_overrides={"label": polars.Categorical}
    ),
    "Arrow table": lambda: pa.table(COLUMNS),
    "Arrow batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "Arrow reader": lambda: pa.table(COLUMNS).to_reader(),
    "another library": Handed,
    "Dataset": lambda: datasets.Dataset.from_dict(COLUMNS),
    "ClassLabels": classified,
    "a part of a Dataset": lambda: classified().select(range(5, -1, -1)).select(range(5, -1, -1)),
    "numpy's Dataset": lambda: classified().with_format("numpy"),
    "a streamed Dataset": lambda: classified().to_iterable_dataset(),
    "list of rows": lambda: ROWS,
}


@pytest.mark.parametrize("name", FRAMES)
def test_tables_in_memory_are_one_table_wherever_rows_are_expected(name):
    table = FRAMES[name]
    assert [dict(row) for row in read_table(table()).rows] == ROWS
    named = {"encoder": Words(), "input_key": "text", "output_key": "label"}
    expected = CeilSelector.from_examples(ROWS, **named).examples
    assert CeilSelector.from_examples(table(), **named).examples == expected
    assert CeilSelector.from_dataframe(table(), **named).examples == expected
    assert list(load_file(table(), input="text", output="label").train) == list(
        load_file(ROWS, input="text", output="label").train
    )


def test_a_relation_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select 'fine' as text, 3 as label, null as gone")
    assert read_table(relation).rows == [{"text": "fine", "label": 3, "gone": None}]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "found a NoneType"),
        (7, "found a int"),
        (COLUMNS, "found a dict of text, label"),
        (datasets.DatasetDict(train=classified()), "found a DatasetDict of train"),
        (polars.DataFrame(COLUMNS).lazy(), "found a LazyFrame"),
        (pa.table([[1], [2]], ["x", "x\u200b"]), r"two columns have one name: 'x', 'x\\u200b'"),
        (pa.table([[1], [2]], ["x", "x"]), "data frame: two columns have one name: 'x', 'x'"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "Duplicate column names found"),
        (
            pd.DataFrame({"x": [1, "a"]}),
            r"data frame: .*column x .*frame\['column'\].astype\(str\)",
        ),
        (pd.Series(["a"]), "data frame: .*non-struct type"),
        (pd.DataFrame({"x": []}), "data frame holds no rows"),
        (pa.table({"x": pa.array([2**40], pa.timestamp("s"))}), "data frame: .*drop it"),
    ],
    ids=str,
)
def test_what_is_no_table(table, message):
    with refused(message):
        read_table(table)


def test_a_streamed_data_set_that_fails_is_told():
    def rows():
        yield {"text": "fine"}
        raise ValueError("the stream broke")

    with refused("data set: the stream broke"):
        read_table(datasets.IterableDataset.from_generator(rows))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "a", "label": "b"}, "expected a list of examples, found one; put it into a list"),
        ("films.csv", "found one text, 'films.csv'; .*or give a file to CeilSelector.from_csv"),
        (7, "expected a list of examples, found int"),
        ([pd.DataFrame(COLUMNS)], "row 1: expected an Example or .*, found DataFrame"),
        ([("a", "b")], "row 1: expected an Example or .*, found tuple"),
    ],
    ids=str,
)
def test_what_is_no_list_of_examples(given, message):
    with refused(message):
        CeilSelector.from_examples(given, encoder=Words(), input_key="text", output_key="label")


def test_numbers_that_pandas_made_floats_are_whole_numbers_again(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,half\na,1,0.5\nb,0,\nc,,1\n")
    frame = pd.read_csv(tmp_path / "a.csv")
    named = {"encoder": Words(), "input_key": "text", "output_key": "label"}
    made = CeilSelector.from_dataframe(frame, skip_bad_rows=True, **named)
    assert [example.output for example in made.examples] == ["1", "0"]
    assert [dict(example.fields) for example in made.examples] == [{"half": "0.5"}, {}]


# --- ClassLabels of parquet files


def labels(tmp_path, metadata):
    table = pa.table({"text": ["a", "b", "c"], "label": [1, 0, -1]})
    table = table.replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    return [row["label"] for row in read_table(tmp_path / "a.parquet").rows]


def described(names, kind="ClassLabel"):
    label = {"_type": kind, "names": names}
    return json.dumps({"info": {"features": {"label": label}}}).encode()


def test_class_labels_of_parquet_have_their_names(tmp_path):
    assert labels(tmp_path, described(["bad", "good"])) == ["good", "bad", None]
    classified().to_parquet(tmp_path / "b.parquet")
    assert read_table(tmp_path / "b.parquet").rows == ROWS


@pytest.mark.parametrize(
    "metadata",
    [b"not json", b"5", b"\xff\xfe", b'{"info": {"features": 5}}', described({"0": "bad"})],
)
def test_a_description_of_datasets_that_cannot_be_read(tmp_path, metadata):
    with refused("cannot read .*a.parquet: its description by `datasets` cannot be read"):
        labels(tmp_path, metadata)


def test_a_damaged_arrow_table_is_refused_before_it_is_touched():
    offsets = pa.py_buffer(np.array([0, 2**30, 3], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    with refused("data frame: .*offset"):
        read_table(pa.table({"text": texts}))


def test_rows_of_sqlite_are_given_as_mappings():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    rows = connection.execute("select 'film' as text, 'good' as label").fetchall()
    connection.close()
    named = {"encoder": Words(), "input_key": "text", "output_key": "label"}
    with refused("row 1: expected an Example or .*, found Row"):
        CeilSelector.from_examples(rows, **named)
    assert CeilSelector.from_examples(map(dict, rows), **named).examples[0].output == "good"
