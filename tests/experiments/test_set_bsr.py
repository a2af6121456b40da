"""Set-BSR: a retriever from outside covers the query's tokens."""

import importlib
import sys

import numpy as np
import pytest

from ceil_jax import Example, build_retriever
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.methods.registry import ROWS

INPUTS = ("red apple pie", "red apple pies", "blue sky", "old stone wall")
BANK = [Example(str(i), text, "") for i, text in enumerate(INPUTS)]


@pytest.fixture
def set_bsr():
    yield importlib.import_module("set_bsr")
    del sys.modules["set_bsr"]


def test_chosen_examples_cover_the_query_together(set_bsr):
    assert ROWS["set_bsr"].label == "Set-BSR"
    retriever = build_retriever("set_bsr", BANK, encoder=load_encoder("tiny"))
    [chosen] = retriever.retrieve([Example("q", "red apple pie and blue sky", "")], 2)
    assert {INPUTS[one.position] for one in chosen} == {"red apple pie", "blue sky"}


def test_recall_and_gains_by_hand(set_bsr):
    retriever = object.__new__(set_bsr.SetBSR)
    retriever.bank = BANK[:3]
    # one example with two tokens, two with one
    retriever.tokens = np.array([[1.0, 0], [0.6, 0.8], [0, 1.0], [1.0, 0]])
    retriever.first = np.array([0, 2, 3])
    query = np.array([[1.0, 0], [0, 1.0]])
    first, second = retriever.cover(query, [], 2)
    assert first[:2] == (0, pytest.approx(0.9))  # (1 + 0.8) / 2
    assert second[::2] == (1, pytest.approx(0.1))  # 0.8 → 1 for the second token
    [other, _] = retriever.cover(query, [0], 3)
    assert other[0] in (1, 2)
    # the second example covers all of it: what is left is taken by its own recall, not by its place
    retriever.tokens = np.array([[0.6, 0.8], [1.0, 0], [0, 1.0], [0.8, 0.6]])
    retriever.first = np.array([0, 1, 3])
    assert [position for position, _, _ in retriever.cover(np.array([[1.0, 0]]), [], 3)] == [
        1,
        2,
        0,
    ]
