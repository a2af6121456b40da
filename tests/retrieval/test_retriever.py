"""The answers that a retriever from outside may give, and those that are refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from refusing import refused

from ceil_jax import Choice, Example, UserError, build_retriever, choice_of, register_retriever
from ceil_jax.methods.registry import ROWS
from ceil_jax.metrics import METRICS, register_metric
from ceil_jax.retrieval.retriever import RETRIEVERS

BANK = [Example(str(i), f"text {i}", "") for i in range(5)]
QUERIES = [Example("q", "another text", ""), Example("2", "text 2", "")]


def ones(*rows):
    return choice_of([(position, 1.0, 1.0) for position in row] for row in rows)


@pytest.mark.parametrize(
    "answer",
    [
        ones([0, 0], [1]),
        ones([0], [5]),
        ones([0], [-2]),
        ones([0, 1, 3, 4], [0]),
        ones([0]),
        # the second query stands in the bank
        ones([0], [2]),
        Choice(np.zeros((2, 1), np.int32), np.zeros((2, 2)), np.zeros((2, 1))),
        Choice(np.array([["a"], ["b"]]), np.zeros((2, 1)), np.zeros((2, 1))),
        [[0], [1]],
        None,
    ],
)
def test_what_is_no_choice_is_refused(answer):
    choose = SimpleNamespace(choose=lambda queries, k: answer)
    register_retriever("mine", lambda arguments: choose)
    with refused("retriever 'mine' returned .*expected a `Choice` with at most 3 different"):
        build_retriever("mine", BANK).retrieve(QUERIES, 3)


def test_fewer_than_k_and_none_are_a_choice():
    choose = SimpleNamespace(choose=lambda queries, k: ones([3, 1], []))
    register_retriever("mine", lambda arguments: choose)
    first, second = build_retriever("mine", BANK).retrieve(QUERIES, 3)
    assert [pick.id for pick in first] == ["3", "1"]
    assert second == []


class Old:
    """A retriever as earlier versions had it."""

    def __init__(self, bank, given):
        pass

    def retrieve(self, queries, k):
        return []


class Ranks:
    """A retriever that is built rightly and chooses in another way."""

    choose = None

    def __init__(self, arguments):
        pass

    def retrieve(self, queries, k):
        return []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Old, "Old: missing a required argument: 'given'"),
        (Ranks, r"Ranks has no `choose` \(`retrieve` is no longer called\)"),
        (lambda bank, given: Ranks(bank), "missing a required argument: 'given'"),
        (lambda: Ranks(None), "too many positional arguments"),
        (Ranks(None), "is not a callable object"),
    ],
)
def test_what_makes_no_retriever_is_refused_where_it_is_registered(build, message):
    with refused(f"retriever 'mine': .*{message}; .* has choose.queries, k.*extending.md"):
        register_retriever("mine", build)
    assert "mine" not in RETRIEVERS
    assert "mine" not in ROWS


@pytest.mark.parametrize("made", [Ranks(None), None, SimpleNamespace(chose=len)])
def test_what_a_function_makes_is_checked_where_it_is_built(made):
    register_retriever("mine", lambda arguments: made)
    with refused(f"retriever 'mine': the {type(made).__name__} that it builds has no `choose`"):
        build_retriever("mine", BANK)


def test_a_misspelt_option_is_refused():
    with pytest.raises(UserError, match="unknown option 'trade_of'; did you mean 'trade_off'"):
        build_retriever("bm25", BANK, trade_of=0.1)


def test_a_metric_from_outside_is_checked():
    for number, value in enumerate((None, float("nan"), 100.0, -1.0)):
        register_metric(f"odd{number}", lambda prediction, example, value=value: value)
        with refused("the metric of the answer 'x' to query 'v' is .*; expected 0 to 1"):
            METRICS[f"odd{number}"].corpus(["x"], [Example("v", "q", "y")])
