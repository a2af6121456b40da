"""Predicted structures, on programs whose names are words of the question."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.tasks.structures import bracketed
from ceil_jax.training.free.rows import Observations, example_vectors, query_vectors
from ceil_jax.training.free.structures import StructureHead, fit_structure_head

PLACES = ("river", "city", "state", "lake")
ASKS = ("count", "longest", "name")


def questions(pairs, noise=0):
    texts = [f"please {ask} the {place}" for ask, place in pairs]
    outputs = [f"answer({ask}({place}))" for ask, place in pairs]
    # vectors say nothing
    vectors = np.random.default_rng(noise).normal(size=(len(pairs), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Observations(
        texts, vectors, outputs=outputs, structures=[bracketed(output) for output in outputs]
    )


EVERY = [(ask, place) for ask in ASKS for place in PLACES]
BANK = questions([pair for pair in EVERY if pair != ("count", "lake")] * 3)
HEAD = fit_structure_head(BANK)


def by_hand():
    """P(a) = 0.8 and P(b) = 0.6 for every query; no words."""
    weights = np.zeros((3, 2), np.float32)
    bias = np.log([4, 1.5]).astype(np.float32)
    return StructureHead(("a", "b"), ("word",), np.ones(1, np.float32), weights, bias)


def test_relevance_is_the_cosine_of_structures_and_half_that_of_inputs():
    held = [frozenset("a"), frozenset("ab"), frozenset({"a", "new"}), frozenset()]
    rows = Observations([*"1234"], np.tile([0.0, 1.0], (4, 1)), structures=held)
    examples = example_vectors(by_hand(), rows)
    query = query_vectors(by_hand(), Observations(["q"], np.array([[0.6, 0.8]])))
    # |P| = √(0.64 + 0.36) = 1; a structure that the head has not seen counts as one that is not
    # expected
    expected = np.array([0.8, 1.4 / np.sqrt(2), 0.8 / np.sqrt(2), 0]) + 0.5 * 0.8
    assert (query @ examples.T)[0] == pytest.approx(expected)
    assert (examples**2).sum(axis=1) == pytest.approx(4 * [1.5])


def test_words_predict_structures_in_a_new_combination():
    query = questions([("count", "lake")], noise=1)
    pairs = zip(HEAD.structures, HEAD.probabilities(query)[0], strict=True)
    expected = {name for name, probability in pairs if probability > 0.5}
    assert {"answer", "count", "lake", "answer>count"} <= expected
    assert not {"longest", "river", "city"} & expected


def test_outputs_without_structures_are_refused():
    with pytest.raises(UserError, match="no output of the bank has a structure"):
        fit_structure_head(
            Observations(["q"], np.eye(1), outputs=["yes"], structures=[frozenset()])
        )


def test_a_head_knows_the_most_common_words_and_structures(monkeypatch):
    monkeypatch.setattr("ceil_jax.training.free.structures.WORDS", 3)
    monkeypatch.setattr("ceil_jax.training.free.structures.STRUCTURES", 4)
    head = fit_structure_head(BANK)
    assert head.structures == ("answer", "answer>longest", "answer>name", "longest")
    assert len(head.vocabulary) == 3
    assert head.weights.shape == (3 + 4, 4)
    # the others share the place that no query predicts
    assert head.example_block(BANK).shape == (len(BANK.texts), 4 + 1)
    again = fit_structure_head(BANK.take(np.arange(20)), head)
    assert again.structures == head.structures
