"""Training learns what is planted: a score that is known, so that the direction of learning can be
seen.

Each text has one topic word among words that mean nothing, and queries have topic words of their
own. The score of a set is the share of its examples with the query's topic, and a little noise. The
encoder does not know the topics before training. What it has learnt is Kendall's τ with the planted
score over sets of queries that it never saw.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.tasks.example import Example
from ceil_jax.training import ceil, contrastive
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.ceil import set_log_probs
from ceil_jax.training.losses import ranking_quality

pytestmark = pytest.mark.slow

TOPICS = 6
TRAINING = 96
INDEPENDENT = 48
SHORTLIST = 24
SETS = 8
SIZE = 3
TRADE_OFF = 0.05
TAU_RISES = 0.12
"""Least rise of τ on independent queries."""


class Words(nnx.Module):
    """The mean of word embeddings: quick to compile."""

    def __init__(self, rngs):
        self.table = nnx.Embed(1024, 24, rngs=rngs)

    def __call__(self, ids, mask, *, key=None):
        vectors = (self.table(ids) * mask[..., None]).sum(1)
        return vectors / jnp.linalg.norm(vectors, axis=-1, keepdims=True)


def example(kind, i):
    rng = np.random.default_rng([i, len(kind)])
    words = [f"{kind}topic{i % TOPICS}", *(f"word{n}" for n in rng.integers(30, size=2))]
    return Example(f"{kind}-{i}", " ".join(words), f"answer {i % TOPICS}")


BANK = [example("bank", i) for i in range(60)]
QUERIES = [example("query", i) for i in range(TRAINING + INDEPENDENT)]
ENCODER = Encoder(Words(nnx.Rngs(0)), HashingTokenizer(1024), max_length=32)


class Planted(NamedTuple):
    """Candidate sets of all queries, singles or of SIZE, with their planted scores."""

    candidates: CandidateSets
    scores: np.ndarray

    def data(self, rows):
        candidates = CandidateSets(*(part[rows] for part in self.candidates))
        return TrainingData([QUERIES[i] for i in rows], BANK, candidates, self.scores[rows])


def planted(size, count):
    rng = np.random.default_rng(size)
    shortlist = np.stack([rng.permutation(len(BANK))[:SHORTLIST] for _ in QUERIES]).astype(np.int32)
    if size == 1:
        shortlist = shortlist[:, :count]
        subsets = np.tile(np.arange(count, dtype=np.int32)[:, None], (len(QUERIES), 1, 1))
    else:
        draws = [
            [np.sort(rng.permutation(SHORTLIST)[:size]) for _ in range(count)] for _ in QUERIES
        ]
        subsets = np.array(draws, np.int32)
    chosen = np.take_along_axis(shortlist[:, None], subsets, axis=2)
    shares = same_topic(chosen, np.arange(len(QUERIES))).mean(axis=2)
    scores = shares + 0.05 * rng.normal(size=chosen.shape[:2])
    return Planted(CandidateSets(shortlist, subsets), scores.astype(np.float32))


def same_topic(positions, queries):
    return (positions % TOPICS) == (queries % TOPICS)[:, None, None]


def measure(query, context, sets):
    """τ with the planted score on independent queries."""
    rows = np.arange(TRAINING, TRAINING + INDEPENDENT)
    queries = ENCODER.with_params(query).encode([QUERIES[i].input for i in rows])
    bank = ENCODER.with_params(context).encode([one.input for one in BANK])
    shortlist, subsets = (part[rows] for part in sets.candidates)
    examples = jnp.asarray(bank)[shortlist]
    ours = set_log_probs(jnp.asarray(queries), examples, jnp.asarray(subsets), None, TRADE_OFF)
    return ranking_quality(np.asarray(ours), sets.scores[rows]).mean()


SETS_OF_THREE = planted(SIZE, SETS)
BEFORE = partial(measure, ENCODER.params, ENCODER.params, SETS_OF_THREE)
CEIL_KINDS = [
    ("frozen", "pairwise", ()),
    ("frozen", "info_nce", ()),
    ("shared", "pairwise", ()),
    ("both", "pairwise", ("reduction=gap_mean",)),
]


def trained_epr(folder):
    singles = planted(1, 12)
    config = EPR(positives=3, epochs=12, batch_size=16, learning_rate=2e-2)
    params = contrastive.train_epr(
        ENCODER, singles.data(np.arange(TRAINING)), config, seed=0, folder=folder
    ).params
    return params["query"], params["query"]


def trained_ceil(folder, kind, loss="pairwise", options=()):
    learns = {"train_context": kind, "loss": loss, "loss_options": options, "trade_off": TRADE_OFF}
    config = CEIL(**learns, epochs=24, batch_size=16, learning_rate=2e-2)
    vectors = ENCODER.encode([one.input for one in BANK])
    data = SETS_OF_THREE.data(np.arange(TRAINING))
    params = ceil.train_ceil(
        ENCODER,
        data,
        config,
        bank_vectors=vectors,
        trade_off=TRADE_OFF,
        seed=0,
        folder=folder,
    ).params
    return params["query"], params.get("context", params["query"])


def rise(query, context):
    return measure(query, context, SETS_OF_THREE) - BEFORE()


@pytest.mark.parametrize(("kind", "loss", "options"), CEIL_KINDS)
def test_ceil_learns_what_is_planted(tmp_path, kind, loss, options):
    assert rise(*trained_ceil(tmp_path, kind, loss, options)) > TAU_RISES


def test_epr_learns_what_is_planted(tmp_path):
    assert rise(*trained_epr(tmp_path)) > TAU_RISES


def flipped_loss(monkeypatch):
    right = ceil.ceil_loss

    def wrong(*arguments):
        loss = right(*arguments)
        return lambda scores: loss(scores._replace(log_probs=-scores.log_probs))

    monkeypatch.setattr(ceil, "ceil_loss", wrong)
    positive = contrastive.epr_contrastive_loss
    monkeypatch.setattr(
        contrastive, "epr_contrastive_loss", lambda queries, *rest: positive(-queries, *rest)
    )


@pytest.mark.parametrize("train", [trained_epr, partial(trained_ceil, kind="frozen")])
def test_a_loss_with_the_wrong_sign_is_seen(tmp_path, monkeypatch, train):
    flipped_loss(monkeypatch)
    assert rise(*train(tmp_path)) < TAU_RISES


def test_encoders_of_queries_and_examples_in_each_others_place_are_seen(tmp_path):
    query, context = trained_ceil(tmp_path, "both")
    assert rise(context, query) < TAU_RISES
