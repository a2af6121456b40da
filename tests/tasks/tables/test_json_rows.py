"""JSON in the shapes that people have, under either name."""

import json

import pandas as pd
import pytest
from refusing import refused

from ceil_jax.tasks.files import read_table
from ceil_jax.tasks.load import load_file

ROWS = [{"text": "film 0", "label": "good"}, {"text": "film 1", "label": "bad"}]
FRAME = pd.DataFrame(ROWS)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\n".join(map(json.dumps, ROWS)),
        "\r\n".join(map(json.dumps, ROWS)),
        "\n\n".join(json.dumps(row, indent=2) for row in ROWS),  # as jq writes it
        "".join(json.dumps(row, indent=2) for row in ROWS),
        json.dumps({"0": ROWS[0], "1": ROWS[1]}),
        json.dumps({"0": ROWS[0], "1": ROWS[1]}, indent=1),
        json.dumps({"rows": ROWS}),
        json.dumps({"data": ROWS}, indent=1),
        json.dumps({"text": ["film 0", "film 1"], "label": ["good", "bad"]}),
        *(
            FRAME.to_json(orient=orient)
            for orient in ("records", "index", "columns", "split", "table")
        ),
        FRAME.to_json(orient="records", lines=True),
    ],
)
def test_rows_in_any_shape(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    rows = [
        {key: row[key] for key in ("text", "label")} for row in read_table(tmp_path / name).rows
    ]
    assert rows == ROWS


def test_rows_by_id_have_their_ids(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"T-1": ROWS[0], "T-2": ROWS[1]}))
    assert [row["id"] for row in read_table(tmp_path / "a.json").rows] == ["T-1", "T-2"]


def test_an_object_that_is_a_row(tmp_path):
    row = {"text": "a", "label": "x", "spans": [{"start": 0}], "meta": {"a": 1}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert read_table(tmp_path / "a.jsonl").rows == [row]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["data", "rows", "Examples", "anything"])
def test_rows_under_one_key(tmp_path, name, indent):
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    file = tmp_path / "a.json"
    for more in ({}, {"version": 1, "columns": [{"name": "text"}]})[: 1 + (name != "anything")]:
        file.write_text(json.dumps({**more, name: rows}, indent=indent))
        assert read_table(file).rows == rows


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]},
    ],
)
def test_one_conversation_is_one_row(tmp_path, row, indent):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(row, indent=indent))
    assert read_table(file).rows == [row]


def test_several_tables_in_one_object_are_told(tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"train": [{"text": "a"}], "test": [{"text": "b"}]}))
    with refused("keys with lists: 'train', 'test'; write the list that is meant to a file of its"):
        read_table(file)


def test_lines_of_objects_over_several_lines(tmp_path):
    (tmp_path / "a.json").write_text("".join(json.dumps(row, indent=1) + "\n" for row in ROWS))
    assert read_table(tmp_path / "a.json").lines == [1, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            json.dumps(ROWS)[:-20],
            r"not JSON .* it ends too early, after '.*film': the file may be cut",
        ),
        (json.dumps(ROWS)[:-1], "it ends too early"),
        ('[{"a": 1}, oops]', r"not JSON \(Expecting value.*char 11\)"),
        (
            '{\n "version": "1",\n "things": [{"a": 1}]}',
            "is one object, .*keys with lists: 'things'",
        ),
        ("[1, 2]", "row 1: expected an object of columns, found int"),
        ('[["text", "label"], ["a", "b"]]', "row 1: expected an object of columns, found list"),
        ('{"text": "a", "label": "x"}\n{"text": "b"', "line 2: not JSON"),
        (
            "text,label\na,b\n",
            "line 1: not JSON .*if it is a table of separated values, name it .csv",
        ),
        (json.dumps(ROWS)[:-1] + ",]", r"not JSON .Expecting value.*: '\[{\"text\": \"film 0\""),
        ("", "holds no rows"),
        ("[]", "holds no rows"),
    ],
)
def test_what_is_no_rows(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with refused(message):
        load_file(tmp_path / "a.json", input="text", output="label")


def test_what_annotation_tools_export(tmp_path):
    tasks = [
        {
            "id": i,
            "data": {"text": f"film {i}"},
            "annotations": [{"result": [{"value": {"choices": ["good"]}}]}],
        }
        for i in range(9)
    ]
    (tmp_path / "a.json").write_text(json.dumps(tasks))
    with refused(
        r"no column 'text', 'label'; it has 'id', 'data', 'annotations' \(in 'data', 'annotations' "
        "stand objects or lists: .*JSON-MIN or CSV"
    ):
        load_file(tmp_path / "a.json", input="text", output="label")
    plain = [{"id": i, "text": f"film {i}", "sentiment": "good", "annotator": 1} for i in range(9)]
    (tmp_path / "a.json").write_text(json.dumps(plain))
    task = load_file(tmp_path / "a.json", input="text", output="sentiment")
    assert {row.output for row in task.train} == {"good"}


def test_byte_order_marks_of_files_that_were_joined(tmp_path):
    (tmp_path / "a.jsonl").write_text('\ufeff{"a": 1}\n\ufeff{"a": 2}\n', encoding="utf-8")
    assert read_table(tmp_path / "a.jsonl").rows == [{"a": 1}, {"a": 2}]
