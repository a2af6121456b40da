"""Filters, balance, names and copies of a live selector, on other people's cells."""

import copy
import datetime
import enum
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector


class Team(enum.StrEnum):
    RED = "red"


CELLS = {
    "snowflake": [1546130668394913792, 1546130668394913822, 1546130668394913823],
    "text": ["red", "red\u200e", "blue"],
    "accent": ["cafe\u0301", "café", "cafe"],
    "half": [0.5, 0.25, 2.0],
    "flag": [True, False, None],
    "day": [datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2), pd.Timestamp("2026-01-03")],
    "numpy": [np.int64(7), np.float64(7), np.array(8)],
    "missing": [None, float("nan"), "there"],
}


def make(rows=None, **settings):
    cells = [{name: values[i] for name, values in CELLS.items()} for i in range(3)]
    rows = rows or [
        {"input": f"number {i}", "output": "xy"[i % 2], "id": f"T-{i}", **cell}
        for i, cell in enumerate(cells)
    ]
    return CeilSelector.from_examples(rows, encoder=Words(), **settings)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"snowflake": 1546130668394913822}, "1"),
        ({"snowflake": "1546130668394913823"}, "2"),
        ({"snowflake": np.int64(1546130668394913792)}, "0"),
        ({"snowflake": [1546130668394913792, 1546130668394913823]}, "02"),
        ({"snowflake": {1546130668394913822}}, "1"),
        ({"snowflake": pd.Series([1546130668394913822, 5])}, "1"),
        ({"text": "red"}, "01"),
        ({"text": Team.RED}, "01"),
        ({"te\u200bxt": "blue"}, "2"),
        ({"accent": "café"}, "01"),
        ({"half": 0.5}, "0"),
        ({"half": 2}, "2"),
        ({"flag": True}, "0"),
        ({"flag": None}, "2"),
        ({"day": datetime.date(2026, 1, 2)}, "01"),
        ({"day": "2026-01-02"}, "0"),
        ({"numpy": 7}, "01"),
        ({"numpy": np.array([7, 9])}, "01"),
        ({"missing": None}, "01"),
        ({"missing": [None, "there"]}, "012"),
        ({"output": "x"}, "02"),
        ({"label": "y"}, "1"),
        ({"input": "number  1"}, "1"),
        ({"id": ["T-0", "T-2"]}, "02"),
    ],
    ids=repr,
)
def test_filters_on_any_cell(wanted, ids):
    chosen = make().select("a film", k=3, filter=wanted)
    assert sorted(example.id for example in chosen) == [f"T-{i}" for i in ids]


@pytest.mark.parametrize(
    "wanted", [1546130668394913821, 1.5461306683949138e18, "154613066839491382", -1]
)
def test_an_id_that_no_example_has(wanted):
    with refused("no example has 'snowflake' = "):
        make().select("a film", k=3, filter={"snowflake": wanted})


def test_a_filter_that_can_be_read_once_is_told():
    with refused("filter on 'text' is .*, which can be read once; expected a value or a list"):
        make().select("a film", k=3, filter={"text": (word for word in ["red"])})


def counts(selector, name, **options):
    chosen = selector.select("a film", near_duplicate=None, **options)
    return Counter(example.field(name) or example.output for example in chosen)


def test_balance_counts_the_column_that_is_called_so():
    rows = [
        {"input": f"word{i}", "answer": f"a{i}", "label": "ab"[i % 6 == 0], "output": f"o{i % 3}"}
        for i in range(30)
    ]
    selector = CeilSelector.from_examples(rows, encoder=Words(), output_key="answer")
    assert counts(selector, "label", k=6, balance="label") == {"a": 3, "b": 3}
    assert counts(selector, "output", k=6, balance="output") == {"o0": 2, "o1": 2, "o2": 2}
    assert {e.field("label") for e in selector.select("a", k=9, filter={"label": "b"})} == {"b"}
    # where no column has the name, it is the output
    plain = [{"q": f"word{i}", "a": "xy"[i % 5 == 0]} for i in range(30)]
    named = CeilSelector.from_examples(plain, encoder=Words(), input_key="q", output_key="a")
    for name in ("label", "output", "a"):
        assert counts(named, "none", k=6, balance=name) == {"x": 3, "y": 3}
    with refused("unknown balance 'lable'; did you mean 'label'"):
        named.select("a film", k=2, balance="lable")


def test_values_that_are_one_text_are_one_value_of_balance():
    teams = ["red", "red\u200e", "blue"]
    rows = [{"input": f"w{i}", "output": "x", "team": teams[i % 3]} for i in range(30)]
    chosen = counts(make(rows), "team", k=6, balance="team")
    assert chosen["red"] + chosen["red\u200e"] == chosen["blue"] == 3


def test_copies_in_another_spelling_are_one_example():
    rows = [{"input": f"caf\u00e9 {'x' * i}", "output": "a"} for i in range(3)]
    rows += [{"input": f"cafe\u0301 {'x' * i}\u200b", "output": "a\u200e"} for i in range(3)]
    assert len(make(rows).select("a film", k=6)) == 3


@pytest.mark.parametrize(
    "mark", ["{}\u200f", "\u200e{}", "\u2068{}\u2069", "\u202b{}\u202c", " {}\u2061\n"]
)
def test_a_question_s_own_row_is_never_its_example(mark):
    selector = make(
        [{"input": "où est le café?", "output": "SECRET"}, {"input": "b", "output": "x"}]
    )
    for asked in ("où est le café?", "où est le cafe\u0301?"):
        assert "SECRET" not in selector.select(mark.format(asked), k=2).prompt


def test_names_that_the_user_typed_in_another_spelling():
    rows = [
        {"te\u0301xte": f"w{i}", "re\u0301ponse": "x", "re\u0301gion": "ab"[i % 2]}
        for i in range(8)
    ]
    selector = make(
        rows, input_key="téxte", output_key="réponse", template="{région}: {téxte} {réponse}"
    )
    chosen = selector.select(
        {"téxte": "w", "région": "a"}, k=4, filter={"région": "a"}, balance="région"
    )
    assert len(chosen) == 4
    assert chosen.prompt.endswith("a: w")
    with refused("unknown field in filter 'pays'"):
        selector.select({"téxte": "w", "région": "a"}, k=1, filter={"pays": "a"})


def test_a_deep_copy_changes_apart():
    selector = make()
    deep = copy.deepcopy({"nested": [selector]})["nested"][0]
    deep.remove(["T-0"])
    deep.add([{"input": "new", "output": "x"}])
    assert (len(selector), len(deep)) == (3, 3)
    assert deep.encoder is selector.encoder
    assert [example.id for example in selector.examples] == ["T-0", "T-1", "T-2"]


def test_pictures_among_the_cells_are_left_out(caplog):
    class Image:
        pass

    made = make([{"input": "a", "output": "b", "image": Image(), "data": b"\x00", "n": 1}])
    assert made.examples[0].fields == {"n": "1"}
    assert "were left out: columns 'image' (1 rows), 'data' (1 rows)" in caplog.text
    with refused("row 1, field 'output': expected a text that is not empty, found b'yes'"):
        make([{"input": "a", "output": b"yes"}])
    with refused("row 1, field 'input': expected a text that is not empty, found <"):
        make([{"input": Image(), "output": "yes"}])
