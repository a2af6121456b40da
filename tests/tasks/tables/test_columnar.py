"""Parquet and Arrow files, and what `datasets` writes about their columns."""

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table

TABLE = pa.table({"text": ["a", "b"], "label": [1, 0]})
NAMES = {"info": {"features": {"label": {"_type": "ClassLabel", "names": ["bad", "good"]}}}}


def labels(tmp_path, metadata):
    table = TABLE.replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    return [row["label"] for row in read_table(tmp_path / "a.parquet").rows]


def test_class_labels_have_their_names(tmp_path):
    assert labels(tmp_path, json.dumps(NAMES).encode()) == ["good", "bad"]


def change(names, kind="ClassLabel"):
    return json.dumps({"info": {"features": {"label": {"_type": kind, "names": names}}}}).encode()


@pytest.mark.parametrize(
    "metadata",
    [
        b"not json",
        b"[]",
        b"5",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b"",
        b'{"info":[]}',
        b'{"info":null}',
        b'{"info":{"features":[]}}',
        b'{"info":{"features":5}}',
        b'{"info":{"features":{"label":[]}}}',
        b'{"info":{"features":{"label":5}}}',
        change({"0": "bad"}),
        change("ab"),
        change([1, 2]),
        change(None),
        change(["x", "y"], "Value"),
    ],
    ids=lambda metadata: metadata[:40],
)
def test_odd_metadata_leave_the_numbers(tmp_path, metadata):
    assert labels(tmp_path, metadata) == [1, 0]


def test_numbers_that_have_no_name_are_no_labels(tmp_path):
    assert labels(tmp_path, change(["only"])) == [None, "only"]


def test_what_datasets_keeps_in_a_folder(tmp_path):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features)
    data.save_to_disk(tmp_path / "saved")
    [file] = (tmp_path / "saved").glob("*.arrow")
    assert [row["label"] for row in read_table(file).rows] == ["good", "bad"]
    with refused(r"cannot read .*saved, a folder: name one file that ends in"):
        read_table(tmp_path / "saved")


def test_names_that_are_one_name():
    with refused(r"Arrow table: two columns have one name: 'x', 'x\\u200b'"):
        read_table(pa.table([[1], [2]], ["x", "x\u200b"]))
    with refused("Arrow table: two columns have one name: 'x', 'x'"):
        read_table(pa.table([[1], [2]], ["x", "x"]))


def test_files_that_cannot_be_read(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(TABLE, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with refused("is a parquet file that is cut"):
        read_table(file)
    file.write_bytes(whole[:40] + b"\xff" * (len(whole) - 48) + whole[-8:])
    with refused("cannot read .*a.parquet, a parquet file: "):
        read_table(file)
    pq.write_table(pa.table([[1], [2]], ["x", "x"]), file)
    with refused(r"cannot read .*a.parquet, a parquet file: .*x"):
        read_table(file)
    file.write_bytes(b"")
    with refused("is no parquet file: its content is empty"):
        read_table(file)
