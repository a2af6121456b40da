"""Predicted structures and their cover, on programs whose names are words of the question."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.tasks.structures import bracketed
from ceil_jax.training.free.cover import cover_shortlists
from ceil_jax.training.free.rows import Observed
from ceil_jax.training.free.structures import StructureHead, fit_structure_head

PLACES, ASKS = ("river", "city", "state", "lake"), ("count", "longest", "name")


def questions(pairs, noise=0):
    texts = [f"please {ask} the {place}" for ask, place in pairs]
    outputs = [f"answer({ask}({place}))" for ask, place in pairs]
    # vectors say nothing
    vectors = np.random.default_rng(noise).normal(size=(len(pairs), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Observed(texts, vectors, outputs=outputs, structures=[bracketed(output) for output in outputs])


EVERY = [(ask, place) for ask in ASKS for place in PLACES]
BANK = questions([pair for pair in EVERY if pair != ("count", "lake")] * 3)
HEAD = fit_structure_head(BANK)


def by_hand():
    """P(a) = 0.8 and P(b) = 0.6 for every query; no words."""
    return StructureHead(
        ("a", "b"),
        ("word",),
        np.ones(1, np.float32),
        np.zeros((3, 2), np.float32),
        np.log([4, 1.5]).astype(np.float32),
    )


def test_relevance_is_the_cosine_of_structures_and_half_that_of_inputs():
    held = [frozenset("a"), frozenset("ab"), frozenset({"a", "new"}), frozenset()]
    examples = by_hand().examples(Observed([*"1234"], np.tile([0.0, 1.0], (4, 1)), structures=held))
    query = by_hand().query(Observed(["q"], np.array([[0.6, 0.8]])))
    # |P| = √(0.64 + 0.36) = 1; a structure that the head has not seen counts as one that is not expected
    expected = np.array([0.8, 1.4 / np.sqrt(2), 0.8 / np.sqrt(2), 0]) + 0.5 * 0.8
    assert (query @ examples.T)[0] == pytest.approx(expected)
    assert (examples**2).sum(axis=1) == pytest.approx(4 * [1.5])


def test_words_predict_structures_in_a_new_combination():
    query = questions([("count", "lake")], noise=1)
    expected = {
        name for name, p in zip(HEAD.structures, HEAD.probabilities(query)[0], strict=True) if p > 0.5
    }
    assert {"answer", "count", "lake", "answer>count"} <= expected
    assert not {"longest", "river", "city"} & expected


def chosen(trade_off, k=2, n=3):
    items = by_hand().examples(
        Observed(
            [*"123"],
            np.tile([1.0, 0.0], (3, 1)),
            structures=[frozenset("a"), frozenset("a"), frozenset({"b", "x", "y"})],
        )
    )
    query = by_hand().query(Observed(["q"], np.array([[1.0, 0.0]])))
    shortlist = np.array([[0, 1, 2][:n] + [-1] * (3 - n)], np.int32)
    return cover_shortlists(query, items, shortlist, k, trade_off, width=3)


def test_cover_takes_what_is_not_covered_yet():
    found = chosen(0.1)
    # a covers 0.8 of 1.4, relevance 0.8 + 0.5; then b: 0.6 of 1.4, relevance 0.6 / √3 + 0.5
    assert found.items.tolist() == [[0, 2]]
    assert found.gains[0] == pytest.approx([0.8 / 1.4 + 0.13, 0.6 / 1.4 + 0.1 * (0.6 / np.sqrt(3) + 0.5)])


def test_cover_follows_relevance_where_it_weighs_more_and_stops_where_nothing_is_left():
    assert chosen(10.0).items.tolist() == [[0, 1]]
    assert chosen(0.1, k=3, n=2).items.tolist() == [[0, 1, -1]]


def test_outputs_without_structures_are_refused():
    with pytest.raises(UserError, match="no output of the bank has a structure"):
        fit_structure_head(Observed(["q"], np.eye(1), outputs=["yes"], structures=[frozenset()]))
