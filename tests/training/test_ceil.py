"""The objective of CEIL: log-probabilities of sets, how they change, and the sets of a step."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from films import films

from ceil_jax.dpp.distribution import subset_log_det
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.tokenizers import Tokens
from ceil_jax.training import ceil
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.ceil import CEILBatch, ceil_objective, set_log_probs, train_ceil
from ceil_jax.training.config import CEILTraining
from ceil_jax.training.example_vectors import FrozenExamples
from ceil_jax.training.loop import Ending, Trained

TRADE_OFF = 0.1
RNG = np.random.default_rng(0)


@jax.jit
def log_probs(queries, examples, subsets, valid=None):
    return set_log_probs(queries, examples, subsets, None, TRADE_OFF, valid)


def test_set_log_probs_are_log_dets_of_the_conditional_kernel_and_empty_places_do_not_count():
    # the second query has three neighbours; the vector at its empty place is nearer to it than any
    # of them
    queries = jnp.asarray(RNG.normal(size=(2, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(2, 5, 6)), jnp.float32).at[1, 3:].set(queries[1])
    valid = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    subsets = jnp.array([[[0, 1, 4], [2, 3, -1]], [[0, 1, 2], [1, 2, -1]]], jnp.int32)
    ours = log_probs(queries, examples, subsets, valid)

    @jax.jit
    def one_by_one(query, examples, subsets):
        S = similarity_from_features(examples)
        kernel = conditional_kernel(relevance(query, examples), S, TRADE_OFF)
        return jnp.stack([subset_log_det(kernel, subset) for subset in subsets])

    for q, n in enumerate((5, 3)):
        expected = one_by_one(queries[q], examples[q, :n], subsets[q])
        np.testing.assert_allclose(ours[q], expected, rtol=1e-4)


def test_gradients_with_empty_places_are_finite():
    queries = jnp.asarray(RNG.normal(size=(1, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(1, 4, 6)), jnp.float32)
    valid = jnp.array([[True, True, False, False]])
    subsets = jnp.array([[[0, 1], [0, -1], [-1, -1]]], jnp.int32)

    def total(queries, examples):
        return log_probs(queries, examples, subsets, valid).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(queries, examples):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0


def test_frozen_examples_of_any_length_are_made_unit_rows_once():
    vectors = RNG.normal(size=(8, 6)).astype(np.float32)
    lengths = np.float32(10.0) ** np.arange(-20, 20, 5)[:, None]
    shortlist = np.stack([RNG.permutation(8)[:5] for _ in range(3)]).astype(np.int32)
    subsets = np.array([[[0, 1], [2, 4], [3, -1]]] * 3, np.int32)
    candidates = CandidateSets(shortlist, subsets)
    queries = jnp.asarray(RNG.normal(size=(3, 6)), jnp.float32)
    objective = partial(
        ceil_objective,
        encode=lambda weights, texts, key: queries @ weights,
        trade_off=TRADE_OFF,
        loss=lambda scores: (scores.log_probs * scores.lm_scores).sum(),
    )
    tokens = Tokens(np.zeros((3, 1), np.int32), np.ones((3, 1), np.int32))
    gradients = []
    for bank in (vectors, vectors * lengths):
        frozen = FrozenExamples(objective, bank, candidates)
        source, *rest = frozen.of_sets(np.arange(3), np.tile(np.arange(3), (3, 1)))
        np.testing.assert_allclose(np.linalg.norm(source, axis=-1), 1, atol=1e-6)
        batch = CEILBatch(tokens, *rest, np.arange(9, dtype=np.float32).reshape(3, 3))
        loss, gradient = frozen.gradient({"query": jnp.eye(6)}, source, batch, jax.random.key(0))
        gradients.append(np.asarray(gradient["query"]))
        plain = log_probs(queries, jnp.asarray(vectors[shortlist]), jnp.asarray(subsets))
        expected = (np.asarray(plain) * batch.lm_scores).sum(axis=1).mean()
        assert float(loss) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-3)


def batch_of_first_step(monkeypatch, **settings):
    """The first step of a training on ten sets of two for each of twelve queries."""
    batches = []

    def fit(problem, config, *, seed, folder):
        batches.append(problem.batch(0, np.arange(4)))
        return Trained(problem.start, [], Ending("start", {}))

    monkeypatch.setattr(ceil, "fit", fit)
    bank = films(12, 0).train
    shortlist = np.stack([RNG.permutation(12)[:6] for _ in bank]).astype(np.int32)
    sets = [[np.sort(RNG.permutation(6)[:2]) for _ in range(10)] for _ in bank]
    candidates = CandidateSets(shortlist, np.array(sets, np.int32))
    data = TrainingData(bank, bank, candidates, RNG.normal(size=(12, 10)).astype(np.float32))
    encoder = load_encoder("tiny")
    train_ceil(
        encoder,
        data,
        CEILTraining(**settings),
        bank_vectors=encoder.encode([example.input for example in bank]),
        trade_off=TRADE_OFF,
        seed=0,
        folder=Path(),
    )
    return batches[0][1]


@pytest.mark.parametrize(
    ("train_context", "sets_per_step", "taken"),
    [
        ("frozen", "auto", 10),
        ("frozen", 3, 3),
        ("released", "auto", 10),
        ("shared", "auto", 4),
        ("shared", "all", 10),
        ("both", "auto", 4),
        ("both", 7, 7),
        ("both", 20, 10),
    ],
)
def test_the_sets_of_a_step(monkeypatch, train_context, sets_per_step, taken):
    batch = batch_of_first_step(
        monkeypatch, train_context=train_context, sets_per_step=sets_per_step
    )
    assert batch.lm_scores.shape == (4, taken)
    assert batch.subsets.shape == (4, taken, 2)
    # all are different sets, each with its own score
    assert all(len(set(row)) == taken for row in batch.lm_scores.tolist())
