"""Datasets that LangSmith exported, in each of its formats."""

import csv
import doctest
import json
import uuid

import pytest
from langsmith.schemas import Example as ClientExample
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters import langsmith
from ceil_jax.selector.adapters.chat import chat_messages
from ceil_jax.selector.adapters.langsmith import langsmith_examples

ID = "b8b2f1f6-8f43-4a30-9d0f-0e2f3f0c1a55"
ROW = {
    "id": ID,
    "created_at": "2026-01-02T03:04:05+00:00",
    "inputs": {"question": "Where is the river?", "town": "Ulm"},
    "outputs": {"answer": "North."},
    "metadata": {"dataset_split": ["base"], "by": "Ann"},
}


def test_the_example_in_the_documentation():
    assert doctest.testmod(langsmith) == (0, 3)


def same_everywhere(examples, input="Where is the river?\nUlm"):
    [example] = examples
    assert (example.id, example.input, example.output) == (ID, input, "North.")
    fields = {"question": "Where is the river?", "town": "Ulm", "answer": "North.", "by": "Ann"}
    assert fields.items() <= example.fields.items()
    assert example.fields["dataset_split"] == '["base"]'


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_its_files_of_json(ending, tmp_path):
    file = tmp_path / f"dataset.{ending}"
    file.write_text(json.dumps(ROW if ending == "jsonl" else [ROW]))
    same_everywhere(langsmith_examples(file))
    same_everywhere(langsmith_examples(file, input="question"), "Where is the river?")


def test_its_csv_and_its_client(tmp_path):
    file = tmp_path / "dataset.csv"
    cells = {
        "id": ID,
        "input_question": "Where is the river?",
        "input_town": "Ulm",
        "output_answer": "North.",
        "metadata_by": "Ann",
        "metadata_dataset_split": '["base"]',
    }
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, cells)
        writer.writeheader()
        writer.writerow(cells)
    same_everywhere(langsmith_examples(file))
    text = {name: json.dumps(ROW[name]) for name in ("inputs", "outputs", "metadata")}
    same_everywhere(langsmith_examples([{"id": ID, **text}]))
    of_client = ClientExample(
        dataset_id=uuid.uuid4(),
        **{name: ROW[name] for name in ("id", "inputs", "outputs", "metadata")},
    )
    same_everywhere(langsmith_examples(iter([of_client])))


def test_several_outputs_are_json_unless_one_is_named():
    row = {"inputs": {"q": "x"}, "outputs": {"label": "a", "why": "b"}}
    [both] = langsmith_examples([row])
    assert json.loads(both.output) == row["outputs"]
    [one] = langsmith_examples([row], output="label")
    assert one.output == "a"
    assert one.fields["why"] == "b"


def test_chats_keep_their_turns_and_a_selector_takes_them():
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hall light on"},
    ]
    answer = {"role": "assistant", "content": "It is on."}
    rows = [
        {"inputs": {"messages": turns}, "outputs": outputs, "metadata": {"town": "Ulm"}}
        for outputs in ({"message": answer}, {"output": "It is on."}, {"messages": [answer]})
    ]
    examples = langsmith_examples(rows)
    assert {(one.input, one.output) for one in examples} == {("Hall light on", "It is on.")}
    selector = CeilSelector.from_examples(examples[:1], encoder=Words())
    chosen = selector.select("Light off", k=1, filter={"town": "Ulm"})
    assert chat_messages(chosen) == [*turns, answer, {"role": "user", "content": "Light off"}]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"outputs": {"a": "b"}}, "row 1, field 'inputs': expected an object such as"),
        ({"inputs": {"a": "b"}, "outputs": None}, "row 1, field 'outputs': expected an object"),
        ({"inputs": '{"a', "outputs": {"a": "b"}}, "row 1, field 'inputs': expected an object of"),
        ({"inputs": {"b": "c"}, "outputs": {"a": "b"}}, "field 'inputs': expected a key 'q'.* 'b'"),
    ],
)
def test_what_is_no_example_is_named(row, said):
    with refused(said):
        langsmith_examples([row], input="q")
    with refused("expected a file, a data frame or examples of LangSmith, found int"):
        langsmith_examples(3)
