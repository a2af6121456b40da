"""Numbers that are none, fields that are too long, quotes that do not pair up, and the file's name in
messages."""

import json
import logging
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.load import load_file
from ceil_jax.tasks.tables.separated import separated_rows
from ceil_jax.tasks.tables.table_rows import FILE, TableError

ROWS = [{"input": f"film {i} of many", "output": "good" if i % 2 else "bad"} for i in range(20)]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("metric", ["accuracy", "exact_match"])
def test_labels_that_are_no_numbers_are_refused(tmp_path, value, metric):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row) for row in ROWS]
    lines[3] = '{"input": "film", "output": ' + value + "}"
    path.write_text("\n".join(lines))
    with refused(r"a\.jsonl, line 4, field 'output': expected a text that is not empty"):
        load_file(path, metric=metric)


def test_fields_of_a_template_that_are_no_numbers_are_refused(tmp_path):
    rows = [{**row, "year": 1990.5} for row in ROWS]
    rows[5]["year"] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with refused(r"a\.parquet, row 6, field 'year': expected text or a finite number"):
        load_file(tmp_path / "a.parquet", template="{input} ({year}): {output}")


def test_rows_too_long_are_refused_or_left_out(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    rows = [*ROWS[1:], {"input": "film", "output": "x" * 300_000}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with refused("line 20, field 'output': expected at most 200,000 characters, not 300,000"):
        load_file(path)
    monkeypatch.setenv("CEIL_JAX_MAX_CELL", "100")
    task = load_file(path, skip_bad_rows=True)
    assert len(task.train) + len(task.validation) == 19
    monkeypatch.setenv("CEIL_JAX_MAX_CELL", "lots")
    with refused("CEIL_JAX_MAX_CELL is 'lots'"):
        load_file(path)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # a quote that closes many lines later swallows them; one that never closes is an error of
        # CSV
        (
            '"Great\tgood\nfine\tbad\nend"\tbad\n',
            [['"Great', "good"], ["fine", "bad"], ['end"', "bad"]],
        ),
        ('"Great\tgood\nfine\tbad\n', [['"Great', "good"], ["fine", "bad"]]),
        ('"q" she said\tgood\n', [['"q" she said', "good"]]),
        ('"a ""b"""\tgood\n"x\ny"\tbad\n', [['a "b"', "good"], ["x\ny", "bad"]]),
    ],
)
def test_quotes_that_do_not_pair_up_are_characters(tmp_path, caplog, text, rows):
    file = tmp_path / "rows.tsv"
    file.write_text("t\tl\n" + text)
    assert [list(row.values()) for row in read_table(file).rows] == rows
    assert ("quotes do not pair up" in caplog.text) == (rows[0][0] != 'a "b"')


def test_a_quote_without_partner_is_named_by_the_row_in_which_it_stands(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('t,l\nfine,good\n"Great, film,good\nfine,bad\n')
    with refused(r"rows.csv, line 3: a quote .* has no partner"):
        read_table(file)


def test_quoted_newlines_do_not_shift_lines(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('t,l\n"two\nlines",good\nfine,\n')
    assert read_table(file).lines == [2, 4]


def test_what_is_noticed_in_a_file_is_logged_once_behind_its_name(tmp_path, caplog):
    file = tmp_path / "FILE.csv"
    file.write_text('text;"label\nfine;good\n"film;bad\n')
    with caplog.at_level(logging.INFO):
        rows = read_table(file)
    assert caplog.messages == [
        f"{file}: ';' separates the values",
        f"{file}: quotes do not pair up; they are read as characters like any other",
    ]
    assert (rows.source, rows.remarks) == (str(file), ())


def test_the_file_s_name_stands_only_where_the_parser_left_room_for_it(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("FILE,FILE\na,b\n")
    with pytest.raises(TableError) as found:
        separated_rows(file.read_text(), ",")
    assert str(found.value) == f"{FILE}, line 1: two columns have one name: 'FILE', 'FILE'"
    with refused(f"^{re.escape(str(file))}, line 1: two columns have one name: 'FILE', 'FILE'$"):
        read_table(file)
