"""Rows that are not examples are refused at the door, with one line that names row and field."""

from types import MappingProxyType

import numpy as np
import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector
from ceil_jax.selector import vectors
from ceil_jax.tasks.example import Example

HALF = "half \ud83d of an emoji"


def make(rows):
    return CeilSelector.from_examples(rows, encoder=Words())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"input": "a"}], "examples: no column 'output'; it has 'input'"),
        ([ROWS[0], {"input": "a"}], "examples, row 2: no field 'output'; it has 'input'"),
        (
            [ROWS[0], {"input": " ", "output": "b"}],
            "row 2, field 'input': expected a text that is not empty",
        ),
        (
            [{"input": "a", "output": ""}],
            "row 1, field 'output': expected a text that is not empty",
        ),
        ([{"input": "a", "output": ["b", "c"]}], "row 1, field 'output': expected a text"),
        (["a"], "row 1: expected an Example or .*, found str"),
        (
            [Example("1", "a", "b", choices=(0, 1))],
            "row 1, field 'choices': expected a text, found 0",
        ),
        ({"input": "a", "output": "b"}, "expected a list of examples, found one"),
        ([{"input": " ", "output": "b"}] * 3, "3 rows cannot be used: rows 1, 2, 3$"),
        ([Example(HALF, "a", "b")], "row 1, field 'id': expected text without half a character"),
        ([Example(7, "a", "b")], "row 1, field 'id': expected a text, found 7"),
        ([Example("", "a", " ")], "row 1, field 'output': expected a text that is not empty"),
        (
            [Example("", "a", "b", fields={"x": HALF})],
            "row 1, field 'x': expected text without half a character",
        ),
        (
            [Example("", "a", "b", fields={"x": 1.5})],
            "row 1, field 'x': expected a text, found 1.5",
        ),
    ],
)
def test_rows_that_are_no_examples(rows, message):
    with refused(message):
        make(rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            row,
            f"row 2, field '{name}': expected text without half a character .'.ud83d' at place 5.",
        )
        for row, name in (
            ({"input": HALF}, "input"),
            ({"output": HALF}, "output"),
            ({"id": HALF}, "id"),
            ({"choices": ["yes", HALF]}, "choices"),
        )
    ],
)
def test_a_row_that_would_poison_a_save_adds_nothing(row, message):
    selector = make(ROWS[:3])
    with refused(message):
        selector.add([{"input": "fine", "output": "x"}, {"input": "a", "output": "b", **row}])
    assert len(selector) == 3
    if "output" not in row:
        with refused(message.replace("row 2", "queries, query 2")):
            selector.select_many([QUERY, {"input": "a", "output": "b", **row}], k=1)


def test_metadata_come_along_if_they_can(caplog):
    odd = {"town": HALF, "size": float("inf"), "tags": ["x"]}
    odd |= dict.fromkeys((HALF, None, ("a",), ""), "x")
    kept = {
        "year": 2020,
        "good": True,
        "choices": "a or b",
        "references": {"b": 1},
        "empty": float("nan"),
    }
    selector = make(
        [{"input": "a", "output": 3, **kept, **odd}, {"input": "c", "output": "d", "tags": []}]
    )
    assert selector.examples[0].output == "3"
    assert selector.examples[0].fields == {"year": "2020", "good": "True", "choices": "a or b"}
    [note] = caplog.messages
    assert (
        "examples: values other than text, numbers and dates, or in a column without a name, "
        in note
    )
    assert "were left out: columns 'references' (1 rows)" in note
    assert "'tags' (2 rows)" in note
    assert "'empty'" not in note


def test_the_columns_of_somebody_elses_table(caplog):
    """`id` repeats, `choices` is a text in one frame and an array in the other, an index has no
    name."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"id": [7, 7, 8], "": [0, 1, 2], "input": [*"abc"], "output": [*"xyx"]}
    )
    frame["choices"] = ["x or y"] * 3
    first = CeilSelector.from_dataframe(frame, encoder=Words()).examples[0]
    assert (first.id, dict(first.fields), first.choices) == (
        "bank-0",
        {"id": "7", "choices": "x or y"},
        (),
    )
    assert "data frame: column 'id' repeats ('7' 2 times; 1 such)" in caplog.text
    frame["id"] = [3, 4, 5]
    frame["choices"] = [np.array(["x", "y"])] * 3
    frame["references"] = [np.array([1, 2])] * 3
    first = CeilSelector.from_dataframe(frame, encoder=Words()).examples[0]
    assert (first.id, dict(first.fields)) == ("3", {})
    assert (first.choices, first.references) == (("x", "y"), ("1", "2"))
    frame.columns = ["id", "n", "input", "output", "output", "references"]
    with refused("data frame: Duplicate column names found: .*; rename the column"):
        CeilSelector.from_dataframe(frame, encoder=Words())


def test_vectors_of_a_large_file_are_kept_until_a_text_changes(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CEIL_JAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vectors, "KEPT_FROM", 3)
    folder = tmp_path / "cache" / "vectors"
    file = tmp_path / "r.csv"
    file.write_text("input,output,n\na film,x,1\na play,y,2\na song,x,3\n")
    encoded = []
    encode = type(tiny).encode

    def counted(encoder, texts, *more):
        encoded.append(len(texts))
        return encode(encoder, texts, *more)

    monkeypatch.setattr(type(tiny), "encode", counted)

    def read():
        return CeilSelector.from_csv(file, encoder=tiny).bank.snapshot.vectors

    first = read()
    file.write_text(file.read_text().replace("2", "7"))  # no text that is encoded
    np.testing.assert_array_equal(read(), first)
    assert encoded == [3]
    [kept] = folder.iterdir()
    whole = kept.read_bytes()
    middle = whole.index(b"NUMPY") + 200  # a number
    for damaged in (whole[:90], whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :]):
        encoded.clear()
        kept.write_bytes(damaged)
        np.testing.assert_array_equal(read(), first)
        assert encoded == [3]
    file.write_text(file.read_text().replace("play", "drama"))
    assert np.abs(read() - first).max() > 0.1
    assert len(list(folder.iterdir())) == 2
    # nothing says whether a function changes, and a folder that cannot be written is no reason to fail
    CeilSelector.from_csv(file, encoder=Words())
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setenv("CEIL_JAX_CACHE", str(file))
    assert len(read()) == 3


def test_bad_rows_are_skipped_if_that_is_said(tmp_path, caplog):
    file = tmp_path / "r.csv"
    file.write_text("input;output\n a ;x\n;y\nb;\nc;z;1\nd; \n")
    selector = CeilSelector.from_csv(file, encoder=Words(), delimiter=";", skip_bad_rows=True)
    assert [example.input for example in selector.examples] == [" a "]  # to the letter
    assert caplog.messages[0].endswith("4 rows cannot be used: lines 3, 4, 5, 6; left out")


def test_what_passes_the_door_is_saved_and_read_as_it_was(tiny, tmp_path):
    odd = [
        "\0",
        "\ufeff",
        "\u202e",
        "🙂" * 9,
        "a\r\nb",
        "a" * 70_000,
        "{braces}",
        "\ufffe",
        '"quoted"',
    ]
    rows = [
        {
            "id": f"{i}{text[:9]}",
            "input": f"{text}x",
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
