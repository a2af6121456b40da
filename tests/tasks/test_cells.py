"""Cells as texts, and what a filter compares with them, by hand."""

import datetime
import enum
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ceil_jax.tasks.cells import as_text, missing, only_item, says, texts_of, whole_numbers


class Mood(enum.Enum):
    GOOD = "good"
    BAD = enum.auto()


class Label(enum.StrEnum):
    SPAM = "spam"


class Level(enum.IntEnum):
    LOW = 1


DAY = datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("as it is ", "as it is "),
        (np.str_("numpy"), "numpy"),
        (True, "True"),
        (np.bool_(False), "False"),
        (1546130668394913822, "1546130668394913822"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
        (2.5, "2.5"),
        (1.0, "1.0"),
        (np.float32(0.1), "0.1"),
        (np.array(3), "3"),
        (pa.scalar(7), "7"),
        (pa.scalar("x"), "x"),
        (Decimal("2.50"), "2.50"),
        (Fraction(1, 3), "1/3"),
        (DAY, "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
        (pd.Timestamp("2026-01-02"), "2026-01-02 00:00:00"),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02 03:04:05"),
        (np.timedelta64(90, "s"), "0:01:30"),
        (pd.Period("2026-01"), "2026-01"),
        (pd.Interval(0, 1), "(0, 1]"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b.png"), "a/b.png"),
        (Mood.GOOD, "good"),
        (Mood.BAD, "BAD"),
        (Label.SPAM, "spam"),
        (Level.LOW, "LOW"),
        (np.array(Mood.GOOD, dtype=object), "good"),
    ],
    ids=repr,
)
def test_a_cell_as_text(cell, text):
    assert as_text(cell) == text
    assert type(as_text(cell)) is str
    assert not missing(cell)


@pytest.mark.parametrize(
    "cell",
    [
        None,
        float("nan"),
        np.float32("nan"),
        np.datetime64("NaT"),
        pd.NaT,
        pd.NA,
        Decimal("NaN"),
        Decimal("sNaN"),
        pa.scalar(None, pa.string()),
        np.array(np.nan),
    ],
    ids=repr,
)
def test_a_missing_cell(cell):
    assert missing(cell)
    assert as_text(cell) is None


class Picture:
    size = (4, 4)


@pytest.mark.parametrize(
    "cell",
    [
        Picture(),
        object(),
        b"bytes",
        bytearray(b"x"),
        float("inf"),
        np.float64("-inf"),
        1j,
        Decimal("Infinity"),
        {"a": 1},
        ["a"],
        (),
        {"a"},
        np.zeros(2),
        pa.array([1]),
        len,
        Picture,
        10**5000,
        pd.Series([1, 2]),
    ],
    ids=lambda cell: type(cell).__name__,
)
def test_a_cell_that_is_no_text(cell):
    assert as_text(cell) is None
    assert not missing(cell)


@pytest.mark.parametrize(
    "cell",
    [
        ["good"],
        ("good",),
        {"good"},
        np.array(["good"]),
        np.array(["good"], object),
        pd.Series(["good"]),
        pa.array(["good"]),
        pa.scalar(["good"]),
        frozenset(["good"]),
    ],
    ids=lambda cell: type(cell).__name__,
)
def test_the_only_item_of_a_list(cell):
    assert as_text(only_item(cell)) == "good"


def test_what_is_no_list_of_one():
    assert only_item(["a", "b"]) == ["a", "b"]
    assert only_item([]) == []
    assert only_item("a") == "a"
    assert texts_of(np.array([1, 2])) == ("1", "2")
    assert texts_of(["a", Mood.GOOD]) == ("a", "good")
    assert texts_of(["a", None]) is None
    assert texts_of("ab") is None
    assert texts_of([[1]]) is None


def test_whole_numbers_beside_a_missing_cell_are_whole_again():
    rows = [
        {"label": 1.0, "half": 0.5, "all": 2.0, "id": 1.5461306683949138e18, "mixed": 1.0},
        {"label": np.float64(0), "half": 1.0, "all": 3.0, "id": 5.0, "mixed": "x"},
        {"label": float("nan"), "half": None, "all": 4.0, "id": None},
    ]
    whole, lost = whole_numbers([*rows, "no row"])
    assert lost == ["id"]
    assert [as_text(row.get("label")) for row in whole[:3]] == ["1", "0", None]
    assert [as_text(row["half"]) for row in whole[:2]] == ["0.5", "1.0"]
    assert [as_text(row["all"]) for row in whole[:3]] == ["2.0", "3.0", "4.0"]  # none is missing
    assert (whole[0]["mixed"], whole[3]) == (1.0, "no row")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2020", 2020),
        ("2020.0", 2020),
        ("2020", 2020.0),
        ("007", 7),
        ("1e3", 1000),
        ("-0.50", Decimal("-0.5")),
        ("0.1", 0.1),
        ("0.1", np.float32(0.1)),
        ("1546130668394913822", 1546130668394913822),
        ("1546130668394913822", "1546130668394913822"),
        ("18446744073709551615", np.uint64(2**64 - 1)),
        ("1546130668394913822.0", 1546130668394913822),
        (" True", True),
        ("false", np.bool_(False)),
        ("good", Mood.GOOD),
        ("LOW", Level.LOW),
        ("good", np.array(["good"])),
        ("cafe\u0301\u200e", "café"),
        ("a  b", "a b"),
        ("2026-01-02 00:00:00", DAY),
        ("2026-01-02", pd.Timestamp("2026-01-02")),
        ("2026-01-02T03:00:00", datetime.datetime(2026, 1, 2, 3)),
        (None, None),
        (None, float("nan")),
        (None, pd.NaT),
    ],
    ids=repr,
)
def test_a_text_that_says_a_value(text, wanted):
    assert says(text, wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1546130668394913822", 1546130668394913792),
        ("1546130668394913822", 1.5461306683949138e18),
        ("9007199254740993", float(2**53)),
        ("9007199254740992", float(2**53)),  # a float of this size is more than one number
        ("2020.0", "2020"),
        ("2,020", 2020),
        ("1_000", 1000),
        ("٣", 3),
        ("nan", float("nan")),
        ("None", None),
        ("1", True),
        ("Good", Mood.GOOD),
        ("2026-01-02", datetime.date(2026, 1, 3)),
        pytest.param("x", object(), id="no value of a table"),
        ("", None),
        (None, ""),
        ("inf", float("inf")),
    ],
    ids=repr,
)
def test_a_text_that_says_another_value(text, wanted):
    assert not says(text, wanted)
