"""Training learns what is planted: a score that is known, so that the direction of learning can be seen.

Each text has one topic word among words that mean nothing, and queries have topic words of their own. The score of a
set is the share of its examples with the query's topic, and a little noise. The encoder does not know the topics
before training. What it has learnt is measured on queries that training never sees: Kendall's τ with the planted
score over drawn sets, and the planted score of the sets that greedy MAP then chooses.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.dpp.greedy import greedy_map
from ceil_jax.dpp.kernel import conditional_kernel, relevance, similarity_from_features
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example
from ceil_jax.training import ceil, contrastive
from ceil_jax.training.candidates import CandidateSets, TrainingData
from ceil_jax.training.ceil import set_log_probs
from ceil_jax.training.config import CEILConfig, EPRConfig
from ceil_jax.training.losses import ranking_quality

TOPICS, TRAINING, INDEPENDENT, SHORTLIST, SETS, SIZE, TRADE_OFF = 6, 96, 48, 24, 8, 3, 0.05
TAU_RISES, CHOSEN_RISES = 0.12, 0.12
"""Least rise of τ, and of the planted score of the chosen sets (a share of examples), on independent queries."""


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
        draws = [[np.sort(rng.permutation(SHORTLIST)[:size]) for _ in range(count)] for _ in QUERIES]
        subsets = np.array(draws, np.int32)
    chosen = np.take_along_axis(shortlist[:, None], subsets, axis=2)
    scores = same_topic(chosen, np.arange(len(QUERIES))).mean(axis=2) + 0.05 * rng.normal(
        size=chosen.shape[:2]
    )
    return Planted(CandidateSets(shortlist, subsets), scores.astype(np.float32))


def same_topic(positions, queries):
    return (positions % TOPICS) == (queries % TOPICS)[:, None, None]


def measure(query, context, sets):
    """τ with the planted score and the share of right topics among the sets of MAP, on independent queries."""
    rows = np.arange(TRAINING, TRAINING + INDEPENDENT)
    queries = ENCODER.with_params(query).encode([QUERIES[i].input for i in rows])
    bank = ENCODER.with_params(context).encode([one.input for one in BANK])
    shortlist, subsets = (part[rows] for part in sets.candidates)
    examples = jnp.asarray(bank)[shortlist]
    ours = set_log_probs(jnp.asarray(queries), examples, jnp.asarray(subsets), None, TRADE_OFF)

    def choose(query, examples):
        similarity = similarity_from_features(examples)
        return greedy_map(conditional_kernel(relevance(query, examples), similarity, TRADE_OFF), SIZE).items

    places = np.asarray(jax.jit(jax.vmap(choose))(jnp.asarray(queries), examples))
    chosen = np.take_along_axis(shortlist, places, axis=1)[:, None]
    tau = ranking_quality(np.asarray(ours), sets.scores[rows])["kendall_tau"].mean()
    return np.array([tau, same_topic(chosen, rows).mean()])


SETS_OF_THREE = planted(SIZE, SETS)
BEFORE = partial(measure, ENCODER.params, ENCODER.params, SETS_OF_THREE)
CEIL_KINDS = [
    ("frozen", "pairwise", "pairs"),
    ("frozen", "pairwise", "gap_mean"),
    ("frozen", "info_nce", "pairs"),
    ("shared", "pairwise", "pairs"),
    ("shared", "info_nce", "pairs"),
    ("both", "pairwise", "pairs"),
    ("both", "pairwise", "gap_mean"),
]


def trained_epr(folder, shuffle=None):
    singles = planted(1, 12)
    if shuffle is not None:
        shuffle.shuffle(singles.scores)
    config = EPRConfig(positives=3, epochs=12, batch_size=16, learning_rate=2e-2)
    with Store(folder).stage("epr", {}) as stage:
        params = contrastive.train_epr(stage, ENCODER, singles.data(np.arange(TRAINING)), config, 0).params
    return params, params


def trained_ceil(folder, kind, loss="pairwise", reduction="pairs", shuffle=None):
    sets = Planted(SETS_OF_THREE.candidates, SETS_OF_THREE.scores.copy())
    if shuffle is not None:
        shuffle.shuffle(sets.scores)
    config = CEILConfig(
        train_context=kind,
        loss=loss,
        reduction=reduction,
        trade_off=TRADE_OFF,
        epochs=24,
        batch_size=16,
        learning_rate=2e-2,
    )
    vectors = ENCODER.encode([one.input for one in BANK])
    with Store(folder).stage("ceil", {}) as stage:
        params = ceil.train_ceil(stage, ENCODER, vectors, sets.data(np.arange(TRAINING)), config, 0).params
    return params["query"], params.get("context", params["query"])


def rise(query, context):
    return measure(query, context, SETS_OF_THREE) - BEFORE()


@pytest.mark.parametrize("kind, loss, reduction", CEIL_KINDS)
def test_ceil_learns_what_is_planted(tmp_path, kind, loss, reduction):
    tau, chosen = rise(*trained_ceil(tmp_path, kind, loss, reduction))
    assert tau > TAU_RISES and chosen > CHOSEN_RISES


def test_epr_learns_what_is_planted(tmp_path):
    tau, chosen = rise(*trained_epr(tmp_path))
    assert tau > TAU_RISES and chosen > CHOSEN_RISES


def flipped_loss(monkeypatch):
    right = ceil.ceil_loss

    def wrong(*arguments):
        loss = right(*arguments)
        return lambda scores: loss(scores._replace(log_probs=-scores.log_probs))

    monkeypatch.setattr(ceil, "ceil_loss", wrong)
    positive = contrastive.epr_contrastive_loss
    monkeypatch.setattr(contrastive, "epr_contrastive_loss", lambda queries, *rest: positive(-queries, *rest))


def zeroed_gradient(monkeypatch):
    for module in (ceil, contrastive):
        right = module.fit

        def fit(stage, params, gradient, *rest, right=right, **settings):
            def zeroed(*arguments):
                value, slope = gradient(*arguments)
                return value, jax.tree.map(jnp.zeros_like, slope)

            return right(stage, params, zeroed, *rest, **settings)

        monkeypatch.setattr(module, "fit", fit)


@pytest.mark.parametrize("fault", [flipped_loss, zeroed_gradient])
@pytest.mark.parametrize(
    "train", [trained_epr, *(partial(trained_ceil, kind=kind) for kind in ("frozen", "both"))]
)
def test_a_fault_in_training_is_seen(tmp_path, monkeypatch, fault, train):
    fault(monkeypatch)
    tau, chosen = rise(*train(tmp_path))
    assert tau < TAU_RISES and chosen < CHOSEN_RISES


@pytest.mark.parametrize(
    "train", [trained_epr, *(partial(trained_ceil, kind=kind) for kind in ("frozen", "both"))]
)
def test_scores_of_other_queries_teach_nothing(tmp_path, train):
    tau, chosen = rise(*train(tmp_path, shuffle=np.random.default_rng(0)))
    assert tau < TAU_RISES and chosen < CHOSEN_RISES


def test_encoders_of_queries_and_examples_in_each_others_place_are_seen(tmp_path):
    query, context = trained_ceil(tmp_path, "both")
    tau, chosen = rise(context, query)
    assert tau < TAU_RISES and chosen < CHOSEN_RISES
