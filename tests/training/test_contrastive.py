"""EPR trains on the similarity that retrieval uses: the cosine, whatever the length of the
encoder's vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer, Tokens
from ceil_jax.tasks.example import Example
from ceil_jax.training import contrastive
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.config import EPRConfig
from ceil_jax.training.contrastive import train_epr
from ceil_jax.training.loop import Ending, Trained

BANK = [Example(f"bank-{i}", f"a film about thing{i} and other{i % 4}", "x") for i in range(30)]


class Words(nnx.Module):
    """The sum of word embeddings, of a given length; or as long as the sum is."""

    def __init__(self, length):
        self.table, self.length = nnx.Embed(256, 8, rngs=nnx.Rngs(0)), length

    def __call__(self, ids, mask, *, key=None):
        vectors = (self.table(ids) * mask[..., None]).sum(1)
        unit = vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors if self.length is None else self.length * unit


def captured(monkeypatch, length):
    """The loss of a batch, with its largest gradient, and the held-out τ."""
    found = {}

    def fit(stage, params, gradient, batches, held_out, **settings):
        value, slope = gradient(params, batches(0, np.arange(8)), jax.random.key(0))
        found.update(loss=float(value), slope=slope, tau=held_out(params).mean())
        return Trained(params, [], Ending("start", {}))

    monkeypatch.setattr(contrastive, "fit", fit)
    encoder = Encoder(Words(length), HashingTokenizer(256), max_length=32)
    rng = np.random.default_rng(1)
    shortlist = np.stack([rng.permutation(30)[:6] for _ in range(20)]).astype(np.int32)
    sets = CandidateSets(shortlist, np.tile(np.arange(6, dtype=np.int32)[:, None], (20, 1, 1)))
    scores = rng.normal(size=(20, 6)).astype(np.float32)
    train_epr(None, encoder, TrainingData(BANK[:20], BANK, sets, scores), EPRConfig(positives=2), 0)
    return found


@pytest.mark.parametrize("length", [12.0, None])
def test_the_length_of_vectors_does_not_matter(monkeypatch, length):
    unit, other = captured(monkeypatch, 1.0), captured(monkeypatch, length)
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
    one, two = {"query": table}, {"query": table, "context": table}
    gradient = jax.grad(objective)
    shared, stopped = (gradient(one, kind)["query"]["table"] for kind in ("shared", "stopped"))
    both = gradient(two, "both")
    values = [objective(one, "shared"), objective(one, "stopped"), objective(two, "both")]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    # the first two rows are the queries, which learn in every way
    np.testing.assert_allclose(stopped[:2], shared[:2], rtol=1e-5)
    assert (np.asarray(stopped[2:]) == 0).all() and (np.asarray(shared[2:]) != 0).any()
    np.testing.assert_allclose(both["query"]["table"], stopped, rtol=1e-5)
    np.testing.assert_allclose(both["query"]["table"] + both["context"]["table"], shared, rtol=1e-5)
