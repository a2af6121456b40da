"""The objective of CEIL: log-probabilities of sets, how they change, and the sets of a step."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from films import films

from ceil_jax.dpp.distribution import subset_log_det
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.training import ceil
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.ceil import set_log_probs, train_ceil
from ceil_jax.training.config import CEILTraining
from ceil_jax.training.loop import Ending, Trained

TRADE_OFF = 0.1
RNG = np.random.default_rng(0)


def test_set_log_probs_are_log_dets_of_the_conditional_kernel_and_empty_places_do_not_count():
    # the second query has three neighbours; the vector at its empty place is nearer to it than any
    # of them
    queries = jnp.asarray(RNG.normal(size=(2, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(2, 5, 6)), jnp.float32).at[1, 3:].set(queries[1])
    valid = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    subsets = jnp.array([[[0, 1, 4], [2, 3, -1]], [[0, 1, 2], [1, 2, -1]]], jnp.int32)
    ours = set_log_probs(queries, examples, subsets, None, TRADE_OFF, valid)
    for q, n in enumerate((5, 3)):
        r = relevance(queries[q], examples[q, :n])
        kernel = conditional_kernel(r, similarity_from_features(examples[q, :n]), TRADE_OFF)
        expected = [float(subset_log_det(kernel, subset)) for subset in subsets[q]]
        np.testing.assert_allclose(ours[q], expected, rtol=1e-4)


def test_gradients_with_empty_places_are_finite():
    queries = jnp.asarray(RNG.normal(size=(1, 6)), jnp.float32)
    examples = jnp.asarray(RNG.normal(size=(1, 4, 6)), jnp.float32)
    valid = jnp.array([[True, True, False, False]])
    subsets = jnp.array([[[0, 1], [0, -1], [-1, -1]]], jnp.int32)

    def total(queries, examples):
        return set_log_probs(queries, examples, subsets, None, TRADE_OFF, valid).sum()

    for gradient in jax.grad(total, argnums=(0, 1))(queries, examples):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0


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
