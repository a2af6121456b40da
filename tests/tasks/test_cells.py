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

from ceil_jax.tasks.cells import as_text, missing, plain, says


class Mood(enum.Enum):
    GOOD = "good"


class Label(enum.StrEnum):
    SPAM = "spam"


class Answer(str):
    def __str__(self):
        return "an answer"


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
        (1.0, "1"),
        (-0.0, "0"),
        (np.float32(2), "2"),
        (1.5461306683949138e18, "1.5461306683949138e+18"),
        (np.array(3), "3"),
        (pa.scalar(7), "7"),
        (pa.scalar("x"), "x"),
        (Decimal("2.50"), "2.50"),
        (Fraction(1, 3), "1/3"),
        (DAY, "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
        (pd.Timestamp("2026-01-02"), "2026-01-02 00:00:00"),
        (np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02 03:04:05"),
        (np.timedelta64(90, "ns"), "0:00:00"),
        (np.timedelta64(90, "s"), "0:01:30"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b.png"), "a/b.png"),
        (Label.SPAM, "spam"),
        (Answer("yes"), "yes"),
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
        Mood.GOOD,
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
        [1, 2],
        np.array([1, 2]),
        pd.Series([1, 2]),
        pd.Index([1, 2]),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pa.scalar([1, 2]),
    ],
    ids=lambda cell: type(cell).__name__,
)
def test_what_holds_several_values_is_a_list(cell):
    assert plain(cell) == [1, 2]
    assert as_text(cell) is None


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
        ("1546130668394913822", 1546130668394913822),
        ("1546130668394913822", "1546130668394913822"),
        ("18446744073709551615", np.uint64(2**64 - 1)),
        ("1546130668394913822.0", 1546130668394913822),
        (" True", True),
        ("false", np.bool_(False)),
        ("spam", Label.SPAM),
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
        ("Spam", Label.SPAM),
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
