"""Tables in memory, given where a file or a list of examples is expected."""

import sqlite3

import datasets
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.load import load_file

COLUMNS = {"text": [f"film {i}" for i in range(6)], "label": ["good", "bad"] * 3}
ROWS = [dict(zip(COLUMNS, cells, strict=True)) for cells in zip(*COLUMNS.values(), strict=True)]
NAMED = {"encoder": Words(), "input_key": "text", "output_key": "label"}


def classified():
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    return datasets.Dataset.from_dict({"text": COLUMNS["text"], "label": [1, 0] * 3}, features)


class Handed:
    """A table of some other library, which hands its columns over as Arrow does."""

    columns = tuple(COLUMNS)

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


TABLES = {
    "pandas": pd.DataFrame(COLUMNS),
    "pandas, index": pd.DataFrame(COLUMNS, index=[*"abcdef"]),
    "pandas, a named index": pd.DataFrame(COLUMNS).set_index("text"),
    "pandas, two named levels": pd.DataFrame(COLUMNS).set_index(["text", "label"]),
    "pandas, categories": pd.DataFrame(COLUMNS).astype({"label": "category"}),
    "pandas, Arrow": pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, lists": pd.DataFrame({**COLUMNS, "label": [np.array([x]) for x in COLUMNS["label"]]}),
    "Arrow table": pa.table(COLUMNS),
    "Arrow batch": pa.RecordBatch.from_pydict(COLUMNS),
    "Arrow reader": lambda: pa.table(COLUMNS).to_reader(),
    "another library": Handed(),
    "Dataset": datasets.Dataset.from_dict(COLUMNS),
    "ClassLabels": classified(),
    "a part of a Dataset": classified().select(range(5, -1, -1)).select(range(5, -1, -1)),
    "numpy's Dataset": classified().with_format("numpy"),
    "IterableDataset": classified().to_iterable_dataset(),
    "columns": COLUMNS,
    "pandas' mapping of columns": pd.DataFrame(COLUMNS).to_dict(),
    "pandas' mapping of rows": pd.DataFrame(COLUMNS).to_dict("index"),
    "columns of arrays": {name: np.array(values) for name, values in COLUMNS.items()},
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_in_memory_are_read_wherever_rows_are_expected(name):
    def table():
        return TABLES[name]() if callable(TABLES[name]) else TABLES[name]

    def pairs(examples):
        return [(example.input, example.output) for example in examples]

    expected = [(row["text"], row["label"]) for row in ROWS]
    assert pairs(CeilSelector.from_examples(table(), **NAMED).examples) == expected
    assert pairs(CeilSelector.from_dataframe(table(), **NAMED).examples) == expected
    task = load_file(table(), input="text", output="label")
    assert sorted(pairs([*task.train, *task.validation])) == expected


def test_polars_frames():
    frame = polars.DataFrame({**COLUMNS, "n": [1, None, 2, 3, 4, 5], "tags": [["a"]] * 6})
    for table in (
        frame,
        frame.lazy(),
        frame.with_columns(polars.col("label").cast(polars.Categorical)),
    ):
        made = CeilSelector.from_examples(table, **NAMED)
        assert [example.output for example in made.examples] == COLUMNS["label"]
        assert [example.fields.get("n") for example in made.examples[:3]] == ["1", None, "2"]
    with refused("expected a file, .*found Series"):
        read_table(frame["text"])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            datasets.DatasetDict(train=classified(), test=classified()),
            r"expected one table, found 'train', 'test' in a DatasetDict; .*data\['train'\]",
        ),
        ({"Sheet1": pd.DataFrame(COLUMNS)}, r"found 'Sheet1' in a dict; .*data\['Sheet1'\]"),
        ({"train": pa.table(COLUMNS)}, "found 'train' in a dict"),
    ],
)
def test_several_tables_by_name_are_told(tables, message):
    for read in (
        lambda: CeilSelector.from_examples(tables, **NAMED),
        lambda: CeilSelector.from_dataframe(tables, **NAMED),
        lambda: load_file(tables, input="text", output="label"),
    ):
        with refused(message):
            read()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "a", "label": "b"}, "expected a list of examples, found one; put it into a list"),
        ({"text": ["a", "b"], "label": ["x"]}, "found one; put it into a list"),
        ("films.csv", "found one text, 'films.csv'; .*or give a file to CeilSelector.from_csv"),
        (7, "expected a list of examples, found int"),
        (None, "expected a list of examples, found NoneType"),
        ([pd.DataFrame(COLUMNS)], "found a list of tables .DataFrame.; give one table itself"),
        ([classified()], "found a list of tables .Dataset.; give one table itself"),
        ([("a", "b")], "row 1: expected an Example or .*, found tuple"),
    ],
)
def test_what_is_no_list_of_examples(given, message):
    with refused(message):
        CeilSelector.from_examples(given, **NAMED)


def test_rows_with_names_that_are_no_mappings():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    rows = connection.execute("select 'film' as text, 'good' as label").fetchall()
    connection.close()
    assert CeilSelector.from_examples(rows, **NAMED).examples[0].output == "good"
    series = [row for _, row in pd.DataFrame(COLUMNS).iterrows()]
    assert len(CeilSelector.from_examples(series, **NAMED)) == 6


def test_numbers_that_pandas_made_floats(tmp_path, caplog):
    (tmp_path / "r.csv").write_text("text,label,user\n" + "a,1,\nb,0,7\nc,,1546130668394913822\n")
    frame = pd.read_csv(tmp_path / "r.csv")
    made = CeilSelector.from_dataframe(frame, skip_bad_rows=True, **NAMED)
    assert [example.output for example in made.examples] == ["1", "0"]
    assert "columns 'user' hold whole numbers of 16 digits and more as floats" in caplog.text
    records = frame.drop(columns="user")[:2].to_dict("records")
    made = CeilSelector.from_examples([*records, {"text": "d", "label": "x"}], **NAMED)
    assert [example.output for example in made.examples] == [
        "1.0",
        "0.0",
        "x",
    ]  # texts stand beside


@pytest.mark.parametrize(
    "address",
    ["https://example.org/r.csv", "hf://datasets/o/n/t.parquet", "s3://b/r.jsonl", "gs://b/r.csv"],
)
def test_an_address_is_told(tmp_path, address):
    from pathlib import Path

    for given in (address, Path(address)):
        with refused(
            f"^{address} is an address; expected a file of this machine: download it first"
        ):
            read_table(given)
    with refused("expected a file, found a text of several lines, 'text,label.na,b'"):
        read_table("text,label\na,b")
    file = tmp_path / "r s.csv"
    file.write_text("text,label\na,b\n")
    assert read_table(file.as_uri()).rows == [{"text": "a", "label": "b"}]
