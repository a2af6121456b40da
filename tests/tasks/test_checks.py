"""The checks that protect a run from its data, each by a table that it refuses or warns of."""

import json
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusing import refused

from ceil_jax.tasks.checks import separated
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.load import load_file

ROWS = [{"input": f"film {i} of many", "output": "good" if i % 2 else "bad"} for i in range(20)]


def write(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return path


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
    with refused(r"a\.parquet, row 6, field 'year': expected a text or a finite number"):
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


def test_a_column_that_stands_twice(tmp_path):
    for header in ("text,label,text ", "text,te\u200bxt,label"):
        path = write(tmp_path / "a.csv", f"{header}\na,b,c\n")
        with refused("a.csv: two columns have one name: 'text', .*; rename one of them"):
            load_file(path, input="text", output="label")
    path = write(tmp_path / "a.csv", "text,label,,\na,b,,\nc,d,,\n")  # columns without a name
    assert len(load_file(path, input="text", output="label").train) == 1


def test_a_column_that_is_missing(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"id": 1, "data": {"text": "a"}, "tags": ["x"]}\n')
    with refused(
        r"a.jsonl: no column 'text', 'label'; it has 'id', 'data', 'tags' \('data', 'tags': "
        r"lists or objects; write their contents as columns of text; .*\); --input, --output and "
        "--template name columns"
    ):
        load_file(path, input="text", output="label")


@pytest.mark.parametrize("output", [("team", "priority"), []])
def test_several_outputs(output):
    rows = [{"text": f"t {i}", "team": "it", "priority": "high"} for i in range(9)]
    with refused("--output .*: expected one column; join several in the table, or run once for ea"):
        load_file(rows, input="text", output=output)
    assert load_file(rows, input="text", output=["team"]).output_key == "team"


def test_one_label_only(caplog):
    rows = [{"input": f"film {i}", "output": "good"} for i in range(20)]
    with refused("list of rows: every row of the bank has the output 'good'; give rows of at lea"):
        load_file(rows, metric="accuracy")
    assert load_file(rows).metric == "exact_match"
    assert "every row of the bank has the output 'good': scores will say nothing" in (caplog.text)


@pytest.mark.parametrize(
    ("input", "output", "swapped"),
    [("team", "ticket", True), ("ticket", "team", False), ("ticket", "answer", False)],
)
def test_swapped_columns_are_noticed(caplog, input, output, swapped):
    rows = [
        {"ticket": f"printer {i} burns", "team": ("it", "hr")[i % 2], "answer": f"call {i}"}
        for i in range(20)
    ]
    load_file(rows, input=input, output=output)
    warned = [message for message in caplog.messages if "did you swap input and output?" in message]
    assert len(warned) == swapped
    if swapped:
        assert "(team) has only 2 different texts in 20 rows" in warned[0]
        assert "(ticket) has 20" in warned[0]


def test_a_task_of_ones_own_is_separated_by_what_prompts_show(caplog):
    def row(id, text, place):
        return Example(id, text, "x", fields={"place": place})

    bank = [
        row("1", "how many?", "zoo"),
        row("2", "how many?", "park"),
        row("3", "how  many?", "park"),
    ]
    asked = [row("1", "who?", "zoo"), row("q", " how many?", "zoo")]
    task = separated(
        Task("sums", bank, asked, Template("{place}: {input} {output}"), "exact_match")
    )
    # the zoo's question is asked; the park's stands twice; the id 1 is of a row that left
    assert [one.id for one in task.train] == ["2"]
    assert [one.id for one in task.validation] == ["1", "q"]
    assert "1 row with a query's text" in caplog.text
    assert "1 row with the same text as another" in caplog.text
    other = separated(replace(task, validation=[row("2", "who?", "zoo")]))
    assert [one.id for one in other.validation] == ["query-2"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"output": 5}, "sums, bank, example 1, field 'output': expected a text, found 5"),
        ({"input": " "}, "field 'input': expected a text that is not empty"),
        ({"output": "one\ntwo"}, "field 'output': expected text without .*ends an answer"),
        ({"choices": ("a", "b")}, "field 'output': expected one of the choices a, b, found 'x'"),
        ({"id": "2"}, "example 2, field 'id': expected an id that no other example has"),
    ],
)
def test_a_task_of_ones_own_is_checked(changed, message):
    rows = [Example("1", "how many?", "x"), Example("2", "who?", "x")]
    task = Task(
        "sums",
        [replace(rows[0], **changed), rows[1]],
        [Example("q", "why?", "x")],
        Template("{input} {output}"),
        "exact_match",
    )
    with refused(message):
        separated(task)
    with refused("sums: no queries"):
        separated(replace(task, train=rows, validation=[]))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # two annotators
        (
            ["a,good", "a,bad", "b,good"],
            "1 text has more than one answer, such as 'a' with 'good', 'bad'",
        ),
        (
            ["a,good", "A\u200e,x", " a\u200e,bad", "b,good"],
            "1 text has more than one answer, such as 'a'",
        ),
        (["a,x", "b,x", "a,y", "b,y", "b,z", "c,x"], "2 texts have more than one answer"),
        # copies, in one spelling or two
        (["a,good", "a,good", "b,good"], ""),
        (["a,cafe\u0301", "a,caf\u00e9", "b,good"], ""),
        (["a,good", "b,bad"], ""),
    ],
)
def test_answers_that_differ_are_no_copies(tmp_path, caplog, rows, said):
    path = write(
        tmp_path / "a.csv", "\n".join(["text,label", *rows, *(f"{i},z" for i in range(9))])
    )
    query = write(tmp_path / "q.csv", "text,label\nq,x\n")
    load_file(path, input="text", output="label", validation=query)
    assert said in caplog.text if said else "more than one answer" not in caplog.text


def test_an_answer_that_differs_from_the_query_s_is_counted(tmp_path, caplog):
    path = write(tmp_path / "a.csv", "text,label\nq,good\nb,bad\n")
    load_file(
        path,
        input="text",
        output="label",
        validation=pd.DataFrame({"text": ["q"], "label": ["bad"]}),
    )
    assert "1 text has more than one answer, such as 'q' with 'good', 'bad'" in caplog.text


CALLS = [
    {"text": f"call {i} of {i // 4}", "team": "ab"[i % 2], "customer": f"C{i // 4}"}
    for i in range(80)
]


def sides(task):
    return [{row.fields["customer"] for row in side} for side in (task.train, task.validation)]


def test_rows_of_one_group_stand_on_one_side(caplog):
    named = {"input": "text", "output": "team", "validation": 0.2}
    with caplog.at_level("INFO"):
        apart = load_file(CALLS, **named)
    bank, queries = sides(apart)
    said = f"{len(bank & queries)} values of the column 'customer' are both in the bank and among"
    assert said in caplog.text
    assert "--group customer keeps the rows of each on one side" in caplog.text
    caplog.clear()
    with caplog.at_level("INFO"):
        task = load_file(CALLS, group="customer", **named)
    bank, queries = sides(task)
    assert not bank & queries
    assert (len(bank), len(queries), len(task.validation)) == (16, 4, 16)
    assert "--group" not in caplog.text
    # rows without a customer are on their own
    calls = [{**row, "customer": row["customer"] if i < 40 else ""} for i, row in enumerate(CALLS)]
    task = load_file(calls, group="customer", **named)
    assert not ({*sides(task)[0]} - {""}) & ({*sides(task)[1]} - {""})
    with refused("no column 'client'; it has 'text', 'team', 'customer'"):
        load_file(CALLS, group="client", **named)
    with refused("all rows have one customer; at least 2 different ones make a bank and a query"):
        load_file(CALLS[:4], group="customer", **named)


def test_a_query_s_group_leaves_the_bank(caplog):
    queries = [{"text": "a new call", "team": "a", "customer": " C3"}]
    task = load_file(CALLS, input="text", output="team", group="customer", validation=queries)
    assert "4 rows with a query's 'customer' left out" in caplog.text
    assert len(task.train) == 76
    with refused("every row has the text or the 'customer' of a query"):
        load_file(CALLS[12:16], input="text", output="team", group="customer", validation=queries)
