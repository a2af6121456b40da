"""Rows that are no examples are refused at the door, with one line that names row and field."""

from types import MappingProxyType

import pytest
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector, UserError
from ceil_jax.tasks.example import Example


def make(rows):
    return CeilSelector.from_examples(rows, encoder=Words())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"input": "a"}], "examples, row 1: no field 'output'; it has input"),
        ([ROWS[0], {"input": " ", "output": "b"}], "row 2: field 'input': expected a text that is not empty"),
        ([{"input": "a", "output": 3}], "row 1: field 'output': expected a text, found 3"),
        ([{"input": "a", "output": "b", "tags": ["x"]}], "field 'tags': metadata are texts, numbers"),
        (["a"], "row 1: expected an Example or .*, found str"),
        (
            [{"input": "a", "output": "b", "choices": "yes"}],
            "row 1: field 'choices': expected a list of texts, f",
        ),
        ([ROWS[0], {"input": "a", "output": "b", "choices": [0, 1]}], r"row 2: field 'choices': .* \[0, 1\]"),
        (
            [{"input": "a", "output": "b", "references": {"b": 1}}],
            "field 'references': expected a list of texts",
        ),
        ([Example("1", "a", "b", choices=(0, 1))], "row 1: field 'choices': expected a list of texts"),
        ({"input": "a", "output": "b"}, "expected a list of examples, found one"),
    ],
)
def test_rows_that_are_no_examples(rows, message):
    with pytest.raises(UserError, match=message):
        make(rows)


HALF = "half \ud83d of an emoji"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"input": HALF}, "row 2: field 'input': half a character, '.ud83d', at place 5"),
        ({"output": HALF}, "row 2: field 'output': half a character"),
        ({"id": HALF}, "row 2: field 'id': half a character"),
        ({"town": HALF}, "row 2: field 'town': half a character"),
        ({"choices": ["yes", HALF]}, "row 2: field 'choices': half a character"),
        ({"references": [HALF]}, "row 2: field 'references': half a character"),
        ({HALF: "x"}, "row 2: field 'name of a metadata field': half a character"),
        ({7: "x"}, "row 2: a metadata field is called 7; expected a text"),
        ({None: "x"}, "row 2: a metadata field is called None; expected a text"),
        ({("a",): "x"}, r"row 2: a metadata field is called \('a',\); expected a text"),
        ({"": "x"}, "row 2: a metadata field is called ''; expected a text that is not empty"),
        ({"year": float("nan")}, "row 2: field 'year': found nan; expected a finite number"),
        ({"year": float("-inf")}, "row 2: field 'year': found -inf; expected a finite number"),
        ({"id": 1.5}, "row 2: field 'id': expected a text or a whole number, found 1.5"),
        ({"id": float("nan")}, "row 2: field 'id': expected a text or a whole number, found nan"),
        ({"id": b"x"}, "row 2: field 'id': expected a text or a whole number"),
    ],
)
def test_a_row_that_would_poison_a_save_adds_nothing(row, message):
    selector = make(ROWS[:3])
    with pytest.raises(UserError, match=message):
        selector.add([{"input": "fine", "output": "x"}, {"input": "a", "output": "b", **row}])
    assert len(selector) == 3
    with pytest.raises(UserError, match=message.replace("row 2", "query 2")):
        selector.select_many([QUERY, {"input": "a", "output": "b", **row}], k=1)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Example("", HALF, "b"), "row 1: field 'input': half a character"),
        (Example(HALF, "a", "b"), "row 1: field 'id': half a character"),
        (Example(7, "a", "b"), "row 1: field 'id': expected a text, found 7"),
        (Example("", "a", None), "row 1: field 'output': expected a text, found None"),
        (Example("", "a", "b", fields={"x": HALF}), "row 1: field 'x': half a character"),
        (Example("", "a", "b", fields={"x": 1.5}), "row 1: field 'x': expected a text, found 1.5"),
        (Example("", "a", "b", fields={1: "x"}), "row 1: a metadata field is called 1"),
        (Example("", "a", "b", fields=["x"]), "row 1: metadata is \\['x'\\]; expected {'name': 'text'}"),
    ],
)
def test_examples_are_checked_like_rows(example, message):
    with pytest.raises(UserError, match=message):
        make([example])


def test_what_passes_the_door_is_saved_and_read_as_it_was(tiny, tmp_path):
    odd = [
        "\0",
        "\ufeff",
        "\u202e",
        "🙂" * 9,
        "line\r\nbreak",
        "a" * 70_000,
        "{braces}",
        "\ufffe",
        '"quoted"',
    ]
    rows = [
        {
            "id": f"{text[:20]}{i}",
            "input": text + "x",
            "output": text,
            "choices": [text],
            f"f{text[:9]}": text,
        }
        for i, text in enumerate(odd)
    ]
    rows.append(Example("own", "a", "b", fields=MappingProxyType({"id": "x", "input": "y"})))
    selector = CeilSelector.from_examples(rows, encoder=tiny)
    selector.save_pretrained(tmp_path)
    assert CeilSelector.from_pretrained(tmp_path).examples == selector.examples
