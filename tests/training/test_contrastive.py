"""EPR trains on the similarity that retrieval uses: the cosine, whatever the length of the
encoder's vectors."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer, Tokens
from ceil_jax.errors import UserError
from ceil_jax.methods.epr import EPR
from ceil_jax.tasks.example import Example
from ceil_jax.training import ceil, contrastive
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.config import EPRTraining
from ceil_jax.training.contrastive import train_epr
from ceil_jax.training.held_out import split_held_out
from ceil_jax.training.loop import Ending, Trained

BANK = [Example(f"bank-{i}", f"a film about thing{i} and other{i % 4}", "x") for i in range(30)]


class Words(nnx.Module):
    """The sum of word embeddings, of a given length; or as long as the sum is."""

    def __init__(self, length):
        self.table = nnx.Embed(256, 8, rngs=nnx.Rngs(0))
        self.length = length

    def __call__(self, ids, mask, *, key=None):
        vectors = (self.table(ids) * mask[..., None]).sum(1)
        unit = vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors if self.length is None else self.length * unit


def singles():
    """Twenty queries with six single candidates each, and their scores."""
    rng = np.random.default_rng(1)
    shortlist = np.stack([rng.permutation(30)[:6] for _ in range(20)]).astype(np.int32)
    sets = CandidateSets(shortlist, np.tile(np.arange(6, dtype=np.int32)[:, None], (20, 1, 1)))
    scores = rng.normal(size=(20, 6)).astype(np.float32)
    return TrainingData(BANK[:20], BANK, sets, scores)


def words_encoder(length=1.0):
    return Encoder(Words(length), HashingTokenizer(256), max_length=32)


def captured(monkeypatch, length=1.0, **settings):
    """The loss of a batch, with its largest gradient, and the held-out τ."""
    found = {}

    def fit(problem, config, *, seed, folder):
        params = problem.start
        value, slope = problem.gradient(params, problem.batch(0, np.arange(8)), jax.random.key(0))
        found.update(loss=float(value), slope=slope, tau=problem.quality(params).mean())
        return Trained(params, [], Ending("start", {}))

    monkeypatch.setattr(contrastive, "fit", fit)
    monkeypatch.setattr(ceil, "fit", fit)
    encoder = words_encoder(length)
    train_epr(
        encoder,
        singles(),
        EPR(positives=2, **settings),
        seed=0,
        folder=Path(),
        bank_vectors=encoder.encode([example.input for example in BANK]),
    )
    return found


@pytest.mark.parametrize("length", [12.0, None])
def test_the_length_of_vectors_does_not_matter(monkeypatch, length):
    unit = captured(monkeypatch, 1.0)
    other = captured(monkeypatch, length)
    assert other["loss"] == pytest.approx(unit["loss"], rel=1e-4)
    assert other["tau"] == pytest.approx(unit["tau"])
    for ours, theirs in zip(
        jax.tree.leaves(other["slope"]), jax.tree.leaves(unit["slope"]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_unit_vectors_are_left_as_they_are():
    encoder = Encoder(Words(1.0), HashingTokenizer(256), max_length=32)
    assert contrastive.unit_length(encoder, ["a film"]) is encoder.apply


def objective(params, train_context):
    """EPR's objective of two queries, each with a positive and a negative, on a linear encoder of
    ids."""
    queries = Tokens(np.arange(2, dtype=np.int32)[:, None], np.ones((2, 1), np.int32))
    batch = contrastive.EPRBatch(queries, jnp.array([0, 1]), jnp.array([2, 3]))
    shown = [[2, 3], [4, 5]] if train_context == "both" else [[2, 3], [4, 5], [0, 1]]
    vectors = params["context" if train_context == "both" else "query"]["table"][jnp.array(shown)]

    def encode(params, tokens, key):
        return params["table"][jnp.asarray(tokens.ids)[:, 0]]

    return contrastive.epr_objective(
        params, vectors, batch, None, encode=encode, temperature=0.5, train_context=train_context
    )


def test_examples_learn_as_they_are_told():
    table = {"table": jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)), jnp.float32)}
    one = {"query": table}
    two = {"query": table, "context": table}
    gradient = jax.grad(objective)
    shared, stopped = (gradient(one, kind)["query"]["table"] for kind in ("shared", "stopped"))
    both = gradient(two, "both")
    values = [objective(one, "shared"), objective(one, "stopped"), objective(two, "both")]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    # the first two rows are the queries, which learn in every way
    np.testing.assert_allclose(stopped[:2], shared[:2], rtol=1e-5)
    assert (np.asarray(stopped[2:]) == 0).all()
    assert (np.asarray(shared[2:]) != 0).any()
    np.testing.assert_allclose(both["query"]["table"], stopped, rtol=1e-5)
    np.testing.assert_allclose(both["query"]["table"] + both["context"]["table"], shared, rtol=1e-5)


def test_in_batch_negatives_can_be_left_out(monkeypatch):
    with_batch = captured(monkeypatch)
    without = captured(monkeypatch, in_batch_negatives=False)
    # fewer terms in the softmax's denominator
    assert 0 < without["loss"] < with_batch["loss"]
    assert without["tau"] == with_batch["tau"]


@pytest.mark.parametrize("train_context", ["shared", "both", "frozen"])
def test_a_loss_over_all_candidates_takes_them_as_sets_of_one(monkeypatch, train_context):
    """Worked out by hand: r / λ is the cosine over the temperature, and InfoNCE compares the best with
    all."""
    temperature = 0.2
    found = captured(
        monkeypatch, loss="info_nce", temperature=temperature, train_context=train_context
    )
    encoder = words_encoder()
    data = singles()
    vectors = encoder.encode([example.input for example in BANK])
    training_queries = split_held_out(20, 0)[0][:8]
    losses = []
    for query in training_queries:
        logits = vectors[data.candidates.shortlist[query]] @ vectors[query] / temperature
        best = np.argmax(data.scores[query])
        losses.append(np.log(np.exp(logits).sum()) - logits[best])
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert set(found["slope"]) == ({"query", "context"} if train_context == "both" else {"query"})


def test_all_candidates_are_in_every_step(monkeypatch):
    batches = []

    def fit(problem, config, *, seed, folder):
        batches.append(problem.batch(0, np.arange(8)))
        return Trained(problem.start, [], Ending("start", {}))

    monkeypatch.setattr(ceil, "fit", fit)
    train_epr(words_encoder(), singles(), EPR(loss="pairwise"), seed=0, folder=Path())
    assert batches[0][1].lm_scores.shape == (8, 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_context": "frozen"}, "frozen goes with a loss over all candidates"),
        ({"train_context": "stopped", "loss": "pairwise"}, "stopped goes with the contrastive"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        EPRTraining(**settings)
