"""Files that are too large, and numbers that are none, end in one line."""

import gzip
import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ceil_jax.errors import UserError
from ceil_jax.tasks.files import read_split
from ceil_jax.tasks.load import load_file
from ceil_jax.tasks.spec import RowError

ROWS = [{"input": f"film {i} of many", "output": "good" if i % 2 else "bad"} for i in range(20)]


def refused(path, **options):
    """Return the message, which comes quickly and in one line."""
    began = time.monotonic()
    with pytest.raises(UserError) as said:
        load_file(path, **options)
    assert time.monotonic() - began < 10
    assert "\n" not in str(said.value) and len(str(said.value)) < 400
    return str(said.value)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("metric", ["accuracy", "exact_match"])
def test_labels_that_are_no_numbers_are_refused(tmp_path, value, metric):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row) for row in ROWS]
    lines[3] = '{"input": "film", "output": ' + value + "}"
    path.write_text("\n".join(lines))
    assert "a.jsonl, line 4, field 'output': expected a text that is not empty" in refused(
        path, metric=metric
    )


def test_fields_of_a_template_that_are_no_numbers_are_refused(tmp_path):
    rows = [{**row, "year": 1990.5} for row in ROWS]
    rows[5]["year"] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    said = refused(tmp_path / "a.parquet", template="{input} ({year}): {output}")
    assert "a.parquet, row 6, field 'year': expected text or a finite number" in said


def test_numbers_are_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({**row, "output": i % 3}) + "\n" for i, row in enumerate(ROWS)))
    task = load_file(path, metric="accuracy")
    assert task.train[0].choices == ("0", "1", "2")


@pytest.mark.parametrize("suffix", ["csv.gz", "jsonl.gz", "json.gz"])
def test_a_bomb_of_gzip(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("CEIL_JAX_MAX_DATA_MB", "20")
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(gzip.compress(b"input,output\n" + b"0" * 30_000_000, 1))
    assert path.stat().st_size < 1_000_000
    assert "holds more than 20 MB; set CEIL_JAX_MAX_DATA_MB" in refused(path)


def test_a_bomb_of_parquet(tmp_path, monkeypatch):
    """One text of 100,000 characters in a dictionary, 1,000 times."""
    monkeypatch.setenv("CEIL_JAX_MAX_DATA_MB", "20")
    column = pa.array(["x" * 100_000] * 1_000)
    pq.write_table(pa.table({"input": column, "output": column}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 1_000_000
    assert "holds more than 20 MB" in refused(tmp_path / "a.parquet")


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_a_cell_of_two_megabytes(tmp_path, monkeypatch, suffix):
    path, rows = tmp_path / f"a.{suffix}", [{**row, "note": f"n{i}"} for i, row in enumerate(ROWS)]
    rows[1]["output"] = "wordy " * 350_000
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == "csv":
        path.write_text("input,output,note\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows)))
    said = refused(path)
    assert "field 'output': expected at most 200,000 characters, not 2,100,000" in said
    assert "CEIL_JAX_MAX_CELL" in said
    unused = load_file(path, output="note")
    assert (
        sorted("output" in row.fields for row in [*unused.train, *unused.validation]) == [False] + [True] * 19
    )
    monkeypatch.setenv("CEIL_JAX_MAX_CELL", "3000000")
    assert len(load_file(path).train) + len(load_file(path).validation) == 20


def test_a_line_of_a_hundred_megabytes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"input,output\n" + b"x" * 100_000_000)
    assert "line 2: 100,000,000 bytes, expected at most 20,000,000" in refused(path)


def test_a_lower_limit_leaves_long_rows_out(tmp_path, monkeypatch):
    monkeypatch.setenv("CEIL_JAX_MAX_CELL", "100")
    path, rows = tmp_path / "a.jsonl", [*ROWS[1:], {"input": "x" * 20_000, "output": "good"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "line 20, field 'input': expected at most 100 characters, not 20,000" in refused(path)
    task = load_file(path, skip_bad_rows=True)
    assert len(task.train) + len(task.validation) == 19


def test_a_limit_is_a_number(tmp_path, monkeypatch):
    monkeypatch.setenv("CEIL_JAX_MAX_CELL", "lots")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    assert refused(tmp_path / "a.jsonl") == "CEIL_JAX_MAX_CELL is 'lots': expected a whole number above 0"


def test_objects_over_several_lines_are_read_with_their_lines(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text('{\n "a": 1,\n "b": {"c": 2}\n}\n{"a": 3}\n{"a":\n{"a": 5}\n')
    split = read_split(file)
    assert split.lines == [1, 5, 6, 7]
    assert [split.rows[i] for i in (0, 1, 3)] == [{"a": 1, "b": {"c": 2}}, {"a": 3}, {"a": 5}]
    assert isinstance(split.rows[2], RowError)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # a quote that closes many lines later swallows them; one that never closes is an error of CSV
        ('"Great\tgood\nfine\tbad\nend"\tbad\n', [['"Great', "good"], ["fine", "bad"], ['end"', "bad"]]),
        ('"Great\tgood\nfine\tbad\n', [['"Great', "good"], ["fine", "bad"]]),
        ('"q" she said\tgood\n', [['"q" she said', "good"]]),
        ('"a ""b"""\tgood\n"x\ny"\tbad\n', [['a "b"', "good"], ["x\ny", "bad"]]),
    ],
)
def test_quotes_that_do_not_pair_up_are_characters(tmp_path, caplog, text, rows):
    file = tmp_path / "rows.tsv"
    file.write_text("t\tl\n" + text)
    assert [list(row.values()) for row in read_split(file).rows] == rows
    assert ("quotes do not pair up" in caplog.text) == (rows[0][0] != 'a "b"')


def test_a_quote_without_partner_is_named_by_the_row_in_which_it_stands(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('t,l\nfine,good\n"Great, film,good\nfine,bad\n')
    with pytest.raises(UserError, match=r"rows.csv, line 3: a quote .* has no partner"):
        read_split(file)
