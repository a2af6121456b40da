"""Other people's tables: what is used is checked, what is not used comes along or is left out with
one note."""

import json
from dataclasses import fields

import datasets
import numpy as np
import pandas as pd
import pytest
from refusing import refused

from ceil_jax.tasks.load import load_file
from ceil_jax.tasks.own_file import FileKeywords, FileOptions, named_lines


def rows_of(task):
    return sorted([*task.train, *task.validation], key=lambda row: row.input)


def write(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return path


def test_alpacas_three_columns(tmp_path):
    rows = [
        {"instruction": f"Sort {i}.", "input": "" if i else "b a", "output": f"o{i}"}
        for i in range(9)
    ]
    path = write(tmp_path / "alpaca.json", json.dumps(rows))
    template = "{instruction} <{input}> {output}"
    task = load_file(path, input="instruction", output="output", template=template, separator="|")
    assert task.template.example(rows_of(task)[0]) == "Sort 0. <b a> o0"
    assert task.template.query(rows_of(task)[1]) == "Sort 1. <>"
    # the default template shows the two roles, whatever other columns are called
    plain = load_file(path, input="instruction", output="output")
    assert plain.template.example(rows_of(plain)[0]) == "Instruction: Sort 0.\nOutput: o0"


@pytest.mark.parametrize(
    ("column", "line"),
    [
        ("sql_query", "Sql query: {output}"),
        ("SQL", "SQL: {output}"),
        ("a {b}\nc", "A b c: {output}"),
        ("名前", "名前: {output}"),
    ],
)
def test_a_column_stands_behind_its_name(column, line):
    assert named_lines({"{output}": column}) == line


def test_a_pair_of_columns_is_one_input_of_two_texts(tmp_path):
    lines = "".join(f"p {i},h {i},{'yn'[i % 2]}\n" for i in range(9))
    path = write(tmp_path / "a.csv", "premise,claim,label\n" + lines)
    task = load_file(path, input=("premise", "claim"), output="label")
    first = rows_of(task)[0]
    assert (first.input, first.texts) == ("p 0 h 0", ("p 0", "h 0"))
    assert task.template.example(first) == "Premise: p 0\nClaim: h 0\nLabel: y"


def test_a_list_is_no_label(tmp_path):
    rows = [{"text": f"t {i}", "label": ["good"]} for i in range(9)]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    with refused(r"line 1, field 'label': expected a text that is not empty, found \['good'\]"):
        load_file(path, input="text", output="label")


def test_rows_without_a_label(tmp_path):
    names = datasets.ClassLabel(names=["card lost", "card late"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = {"text": [f"t {i}" for i in range(9)], "label": [0, 1] * 4 + [-1]}
    datasets.Dataset.from_dict(rows, features).to_parquet(tmp_path / "a.parquet")
    with refused("row 9, field 'label': expected a text that is not empty, found None"):
        load_file(tmp_path / "a.parquet", input="text", output="label")
    task = load_file(tmp_path / "a.parquet", input="text", output="label", skip_bad_rows=True)
    assert [row.output for row in rows_of(task)] == ["card lost", "card late"] * 4


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "text, b \na,b\n",
            {},
            "no column 'label'; it has 'text', 'b'; --input, --output",
        ),
        (
            "a.csv",
            "text,label\na,b\n",
            {"metric": "sql_execution"},
            "no column 'database'; .*the metric sql_execution needs the path of an SQLite file in "
            "'database'",
        ),
        (
            "a.csv",
            "text,label\n,b\n,c\n",
            {"skip_bad_rows": True},
            "2 rows cannot be used: lines 2, 3",
        ),
        ("a.csv", "text,label\ra,b\rc\r", {}, "line 3: 1 cells, the header has 2"),
        (
            "a.jsonl",
            '{"text": "a", "label": "b", "label": "c"}',
            {},
            "line 1: not JSON .a name is repeated in text, label",
        ),
        (
            "a.csv",
            "text,label\na,b\nc,d\n",
            {"limit": -1},
            "a limit of -1 rows: expected at least 1",
        ),
        (
            "a.csv",
            "text,label\na,b\nc,d\n",
            {"bank_limit": 0},
            "a limit of 0 rows: expected at least 1",
        ),
        (
            "a.csv",
            "text,label\na,b\nc,d\n",
            {"output": "text"},
            "'text' is the input and the output",
        ),
        (
            "a.csv",
            "text,label\na,b\n",
            {"input": ["text", "label"]},
            "'label' is the input and the output",
        ),
        (
            "a.csv",
            "text,label\na,b\n",
            {"template": "It is {label}"},
            "shows only the answer",
        ),
        (
            "a.csv",
            "text,label\na,b\n",
            {"choices": "ab"},
            "choices are 'ab'; expected a list of texts",
        ),
        ("a.csv", "text,label\na,b\n", {"choices": ["b", "b "]}, "expected different texts"),
    ],
)
def test_what_is_said(tmp_path, name, content, options, message):
    with refused(message):
        load_file(
            write(tmp_path / name, content), **{"input": "text", "output": "label", **options}
        )


def test_choices_in_any_container_and_texts_with_invisible_characters(caplog):
    rows = [(f"t {i}", "ab"[i % 2]) for i in range(6)]
    frame = pd.DataFrame(rows, columns=["text", "label"])
    for choices in (frame["label"].unique(), pd.Index(["a", "b"]), pd.Series(["a", "b"])):
        task = load_file(frame, input="text", output="label", choices=choices, stop="###")
        assert task.train[0].choices == ("a", "b")
        assert task.stop == ("###",)
    numbers = frame.assign(label=[1, 0] * 3)
    assert load_file(numbers, input="text", output="label", choices=[0, 1]).train[0].choices == (
        "0",
        "1",
    )
    frame["label"] = ["tea", "tea\u200b"] * 3
    with refused("data frame: every row of the bank has the output 'tea'; give rows of at least"):
        load_file(frame, input="text", output="label", metric="accuracy")
    assert "labels that look the same: 'tea', 'tea\\u200b'" in caplog.messages[-1]
    frame = pd.DataFrame({"input": [*"abcd", "q\u200b", "\ufeffq"], "output": [*"123456"]})
    task = load_file(frame, validation=pd.DataFrame({"input": ["q"], "output": ["7"]}))
    assert [row.input for row in task.train] == [*"abcd"]


def test_bad_rows_are_found_at_once_and_may_be_skipped(tmp_path, caplog):
    lines = [
        json.dumps({"text": f"t{i}", "label": "" if i in (2, 5) else f"x{i}"}) for i in range(9)
    ]
    path = write(tmp_path / "a.jsonl", "\n".join([*lines, "[1]", '{"text": "u"}']))
    with refused(r"line 3, field 'label': .*; 4 rows .*: lines 3, 6, 10, 11; --skip"):
        load_file(path, input="text", output="label")
    task = load_file(path, input="text", output="label", skip_bad_rows=True)
    assert [row.input for row in rows_of(task)] == ["t0", "t1", "t3", "t4", "t6", "t7", "t8"]
    assert caplog.messages == [
        f"{path}, line 3, field 'label': expected a text that is not empty, found ''; 4 rows "
        "cannot be used: lines 3, 6, 10, 11; left out"
    ]


def test_columns_that_nobody_asked_for(tmp_path, caplog):
    rows = [
        {"text": f"t{i}", "label": f"x{i}", "meta": {"a": i}, "n": i, "": i, "none": None}
        for i in range(9)
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    task = load_file(path, input="text", output="label")
    assert rows_of(task)[3].fields == {"n": "3"}
    [note] = caplog.messages
    assert note.endswith("were left out: columns 'meta' (9 rows), '' (9 rows)")


def test_answers_of_several_lines_have_an_end_of_their_own(tmp_path):
    content = "text,label\n" + "".join(f't{i},"Dear,\nyes {i}"\n' for i in range(9))
    path = write(tmp_path / "a.csv", content)
    one = load_file(path, input="text", output="label", stop=("###",))
    assert (one.stop, one.template.separator) == (("###",), "\n###\n")
    assert (
        load_file(path, input="text", output="label", stop=("\n\n",)).template.separator == "\n\n"
    )


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "balanced_accuracy"])
def test_with_a_metric_of_labels_the_lm_chooses(metric):
    rows = [{"ticket": f"printer {i} burns", "team": ("it", "hr")[i % 2]} for i in range(20)]
    task = load_file(rows, input="ticket", output="team", metric=metric)
    assert (task.metric, task.train[0].choices) == (metric, ("hr", "it"))


def test_a_list_of_rows_is_a_table():
    rows = [{"ticket": f"printer {i} burns", "team": ("it", "hr")[i % 2]} for i in range(20)]
    task = load_file(rows, input="ticket", output="team")
    assert (len(task.train), len(task.validation)) == (18, 2)
    rows[3] = {"ticket": "printer 3 burns", "team": None}
    with refused(
        "list of rows, row 4, field 'team': expected a text that is not empty, found None"
    ):
        load_file(rows, input="ticket", output="team")
    with refused("list of rows, row 4: expected an object of columns, found int"):
        load_file([*rows[:3], 5], input="ticket", output="team")


def test_a_data_frame_is_a_table(caplog):
    columns = {"text": [f"t{i}" for i in range(9)], "label": [i / 2 for i in range(9)]}
    frame = pd.DataFrame({**columns, "d": [[1]] * 9, "v": [np.ones(3)] * 9})
    task = load_file(
        frame, input="text", output="label", validation=frame[:2].assign(text=["u", "v"])
    )
    assert [row.output for row in task.train[:2]] == ["0", "0.5"]
    assert (len(task.validation), task.name) == (2, "data frame")
    assert "columns 'd' (9 rows), 'v' (9 rows)" in caplog.text


def test_options_and_keywords_are_one_thing(tmp_path):
    assert set(FileKeywords.__annotations__) == {field.name for field in fields(FileOptions)}
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f"t{i},l{i}\n" for i in range(9)))
    options = FileOptions(input="text", output="label", stop="###")
    assert load_file(path, options) == load_file(path, input="text", output="label", stop="###")
    assert load_file(path, options, stop=None).stop == ("\n",)
    with refused("--max-new-tokens 0: expected a number at least 1"):
        load_file(path, options, max_new_tokens=0)
    with refused("load_file: unknown option 'inputs'; did you mean 'input'"):
        load_file(path, inputs="text")


def ids_of(path, **options):
    task = load_file(path, input="text", output="label", **options)
    return [row.id for row in task.train], [row.id for row in task.validation]


def test_ids_of_the_file_are_the_examples_ids(tmp_path, caplog):
    rows = [f"T-{i},train {i},l{i}" for i in range(10)]
    path = write(tmp_path / "a.csv", "\n".join(["id,text,label", *rows]))
    bank, queries = ids_of(path)
    assert sorted([*bank, *queries]) == [f"T-{i}" for i in range(10)]
    assert len(queries) == 1
    assert "id" not in load_file(path, input="text", output="label").train[0].fields
    # queries of another file, one of which has the id of another text
    other = write(tmp_path / "b.csv", "id,text,label\nT-3,new,x\nQ-1,newer,x\n")
    assert ids_of(path, validation=other)[1] == ["query-T-3", "Q-1"]
    # a template that shows the column needs it as a field
    task = load_file(path, input="text", output="label", template="{id} {text} {label}")
    assert task.train[0].fields["id"].startswith("T-")
    assert task.train[0].id.startswith("train-")
    # a cell that is empty, and ids that repeat
    write(path, "\n".join(["id,text,label", ",train 0,l0", *rows[1:]]))
    bank, queries = ids_of(path)
    assert sorted([*bank, *queries])[-1] in ("train-0", "validation-0")
    write(
        path,
        "\n".join(["id,text,label", rows[1], *rows[1:]]).replace("T-1,train 1,l1", "T-1,x,y", 1),
    )
    bank, queries = ids_of(path)
    assert "column 'id' repeats ('T-1' 2 times; 1 such): it is metadata" in caplog.text
    assert {id.split("-")[0] for id in (*bank, *queries)} == {"train", "validation"}


def test_numbers_as_ids_are_written_as_they_are(tmp_path):
    frame = pd.DataFrame({"id": range(10**18, 10**18 + 9), "text": [*"abcdefghi"], "label": "x"})
    bank, queries = ids_of(frame)
    assert sorted([*bank, *queries]) == [str(10**18 + i) for i in range(9)]


def test_free_text_is_told_which_metrics_there_are(caplog):
    rows = [
        {"input": f"Why does request {i} fail?", "output": f"It was sent to the wrong host {i}."}
        for i in range(20)
    ]
    with caplog.at_level("INFO"):
        task = load_file(rows)
    assert task.metric == "exact_match"
    assert caplog.text.count("the answers are free text") == 1
    caplog.clear()
    with caplog.at_level("INFO"):
        load_file(rows, metric="exact_match")
        load_file(
            [{**row, "output": f"f(request(n{i}), a, b, c, d, e)"} for i, row in enumerate(rows)]
        )
        load_file([{**row, "output": str(i)} for i, row in enumerate(rows)])
    assert "free text" not in caplog.text
