"""The end of a written answer and its largest length, by the outputs of a bank; and texts to the
letter."""

import doctest
import json

import pytest
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.metrics import METRICS
from ceil_jax.tasks import written
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.own_file import load_file
from ceil_jax.tasks.written import default_stop, only_number


def test_the_examples_in_the_documentation():
    assert doctest.testmod(written) == (0, 3)


@pytest.mark.parametrize(
    ("outputs", "stop"),
    [
        (["a", "b\n"], "\n"),  # blanks at the ends are not lines
        (['{"a": 1}', "[]"], "\n\n"),
        (["[IN:GET [SL:X y ] ]"], "\n"),
        (["a\n\nb", "---"], "###"),
        (["a\n\nb --- ### ==== <end 1>"], "<end 2>"),
        ([], "\n"),
    ],
)
def test_no_output_has_what_ends_an_answer(outputs, stop):
    assert default_stop(outputs) == stop


def code_file(folder):
    file = folder / "code.jsonl"
    rows = [
        {"head": f"def f{i}(x):\n", "body": f"    y = x + {i}\n    return y\n"} for i in range(40)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_rows_keep_their_text_to_the_letter(tmp_path):
    task = load_file(code_file(tmp_path), input="head", output="body", template="{head}{body}")
    first = task.train[0]
    assert first.input.endswith("(x):\n")
    assert first.output.startswith("    y = ")
    assert task.template.example(first) == first.input + first.output
    assert (task.metric, task.stop, task.max_new_tokens) == ("exact_match", ("\n\n",), 128)
    selector = CeilSelector.from_csv(
        tmp_path / "code.jsonl",
        encoder=Words(),
        input_key="head",
        output_key="body",
        template="{head}{body}",
    )
    assert "(x):\n    y = x + " in selector.select("def g(x):\n", k=1).prompt


def test_indentation_in_a_csv_file_stays(tmp_path):
    file = tmp_path / "code.csv"
    file.write_text("head,body\n" + "".join(f"f{i},    return {i}\n" for i in range(8)))
    task = load_file(file, input="head", output="body")
    assert {row.output for row in task.train} <= {f"    return {i}" for i in range(8)}


@pytest.mark.parametrize("metric", ["exact_match", "squad_em", "char_bleu"])
def test_comparison_strips(metric):
    query = Example("1", "q", "    return x\n")
    assert METRICS[metric].corpus(["return x"], [query]) == 1


def test_json_is_compared_by_value():
    query = Example("1", "q", '{"room": "hall", "on": true}')
    answers = ['{\n  "on": true,\n  "room": "hall"\n}', '{"room": "hall"}', "{room}", "[" * 9999]
    assert METRICS["exact_match"].per_example(answers, [query] * 4).tolist() == [1, 0, 0, 0]


def test_labels_are_chosen_where_no_metric_is_named(tmp_path):
    file = tmp_path / "r.csv"
    file.write_text(
        "text,label\n" + "".join(f"film {i},{'good ' * (i % 2) or 'bad'}\n" for i in range(40))
    )
    task = load_file(file, input="text", output="label")
    assert (task.metric, task.train[0].choices) == ("accuracy", ("bad", "good"))
    assert {row.output for row in task.train} == {"bad", "good"}
    named = load_file(file, input="text", output="label", metric="exact_match")
    assert named.train[0].choices == ()
    # answers that are not labels are written
    other = tmp_path / "q.csv"
    other.write_text("text,label\nq,something else\n")
    assert load_file(file, input="text", output="label", validation=other).metric == "exact_match"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("The answer is 1,250.0.", 1250),
        ("−3 °C", -3),
        ("3kg", 3),
        ("3 or 4", None),
        ("3-4", None),
        ("1,2", None),
        ("1.2.3", None),
        ("2026-11-29", None),
        ("007", None),
        ("GPT4", None),
        ("none", None),
    ],
)
def test_the_only_number_of_an_answer(text, number):
    assert only_number(text) == number


def test_numbers_are_compared_as_numbers(tmp_path, caplog):
    file = tmp_path / "sums.csv"
    file.write_text("text,sum\n" + "".join(f"{i} and 1000,{i + 1000}\n" for i in range(40)))
    with caplog.at_level("INFO"):
        task = load_file(file, input="text", output="sum")
    assert task.metric == "number_match"
    assert "the answers are numbers" in caplog.text
    assert load_file(file, input="text", output="sum", metric="exact_match").metric == "exact_match"
    query = Example("1", "q", "1250")
    answers = ["It is 1,250.", "1250.00", "1250 and 3", "125", ""]
    assert METRICS["number_match"].per_example(answers, [query] * 5).tolist() == [1, 1, 0, 0, 0]


def test_codes_are_texts(tmp_path):
    file = tmp_path / "codes.csv"
    file.write_text("text,code\n" + "".join(f"place {i},{i:05}\n" for i in range(40)))
    assert load_file(file, input="text", output="code").metric == "exact_match"
