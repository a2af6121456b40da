"""One device and four compute the same. `test_four_devices.py` starts this file in a process of its
own."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.distributed.devices import device_mesh, map_batches, over_devices, whole
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer, pad
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.example import Example
from ceil_jax.training import ceil
from ceil_jax.training import contrastive as epr
from ceil_jax.training.candidates import TrainingData
from ceil_jax.training.loop import Ending, Trained
from ceil_jax.training.samplers import epr_candidates, uniform_sets


def few(monkeypatch, devices):
    """Let there be only that many devices."""
    some = jax.devices()[:devices]
    monkeypatch.setattr(jax, "devices", lambda: some)


def scaled_sums(rows, scale, *, power):
    """Row by row; the scan's start is a constant, as in greedy MAP."""

    def step(total, column):
        return total + column**power, total

    total, _ = jax.lax.scan(step, jnp.zeros(rows.shape[0], rows.dtype), rows.T)
    return {"sum": scale * total, "rows": rows}


def test_there_are_several_devices():
    assert device_mesh().size == jax.device_count() == 4


@pytest.mark.parametrize(
    "total", [1, 3, 8, 21]
)  # 4 devices × at most 2 rows each: 1, 1, 1 and 3 batches
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_every_row_once_and_in_order(total, make):
    rows = np.arange(3.0 * total, dtype=np.float32).reshape(total, 3)
    result = map_batches(scaled_sums, (make(rows),), (np.float32(10),), batch_size=2, power=2)
    np.testing.assert_array_equal(result["rows"], rows)
    np.testing.assert_allclose(result["sum"], 10 * (rows**2).sum(axis=1), rtol=1e-6)


def test_the_work_is_on_every_device():
    result = map_batches(
        scaled_sums, (np.ones((8, 3), np.float32),), (np.float32(1),), batch_size=2, power=1
    )
    assert result["rows"].sharding.device_set == set(jax.devices())


def test_one_compilation_for_many_sizes():
    traced = []

    def function(rows):
        traced.append(rows.shape)
        return rows

    for total in (8, 9, 15, 100):
        map_batches(function, (np.zeros((total, 2), np.float32),), batch_size=2)
    assert set(traced) == {(2, 2)}
    assert len(traced) == 1


@pytest.mark.parametrize("devices", [1, 2])
def test_fewer_devices_give_the_same(monkeypatch, devices):
    """With one CPU device the batches run in threads."""
    few(monkeypatch, devices)
    rows = np.arange(60.0, dtype=np.float32).reshape(20, 3)
    result = map_batches(scaled_sums, (rows,), (np.float32(1),), batch_size=2, power=1)
    np.testing.assert_array_equal(result["sum"], rows.sum(axis=1))


def test_no_rows():
    with pytest.raises(ValueError, match="at least one row"):
        map_batches(
            scaled_sums, (np.zeros((0, 3), np.float32),), (np.float32(1),), batch_size=2, power=1
        )


BANK = [
    Example(f"train-{i}", f"a {('dull', 'bright')[i % 2]} film {i % 7} of {i}", "x")
    for i in range(40)
]
QUERIES = BANK[:14]
ROWS = np.arange(10)
"""Ten of the 11 training instances: a batch that 4 devices do not divide; EPR encodes 30 texts for
it."""


class Words(nnx.Module):
    """The mean of embeddings, with dropout, through a layer: quick to compile."""

    def __init__(self, rngs):
        self.table = nnx.Embed(512, 16, rngs=rngs)
        self.layer = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, ids, mask, *, key=None):
        words = self.table(ids)
        if key is not None:
            words = jnp.where(jax.random.bernoulli(key, 0.8, words.shape), words / 0.8, 0)
        return self.layer(jnp.tanh((words * mask[..., None]).sum(1)))


def words_encoder():
    return Encoder(Words(nnx.Rngs(0)), HashingTokenizer(512), max_length=32)


def captured(monkeypatch, module, train):
    """The problem that a training function hands to the loop."""
    problems = []

    def fit(problem, config, *, seed, folder):
        problems.append(problem)
        return Trained(problem.start, [], Ending("start", {}))

    monkeypatch.setattr(module, "fit", fit)
    train()
    return problems[0]


def step(problem):
    """Loss, the norm of every gradient and the gradient of one, with dropout; and the held-out
    measure."""
    params = jax.device_put(dict(problem.start), whole(device_mesh()))
    batch = problem.batch(0, ROWS)
    value, gradient = problem.gradient(params, batch, jax.random.key(3))
    assert value.sharding.device_set == set(jax.devices())
    leaves = jax.tree.leaves(gradient)
    parts = gradient.values() if set(gradient) <= {"query", "context"} else [gradient]
    return {
        "loss": float(value),
        "moved": [
            float(max(np.abs(leaf).max() for leaf in jax.tree.leaves(part))) for part in parts
        ],
        "norms": [float(np.linalg.norm(leaf)) for leaf in leaves],
        "gradient": np.asarray(leaves[-1]),
        "held_out": float(problem.quality(params).mean()),
    }


def everything(monkeypatch, devices):
    few(monkeypatch, devices)
    encoder = words_encoder()
    vectors = unit_rows(encoder.encode([example.input for example in BANK], batch_size=8))
    _, nearest = top_k(vectors[:14], vectors, 8)
    chosen = greedy_map_shortlists(vectors[:14], vectors, nearest, 4, 0.05)
    scores = np.random.default_rng(0).normal(size=(14, 4)).astype(np.float32)
    singles = TrainingData(QUERIES, BANK, epr_candidates(QUERIES, BANK, 4), scores)
    sets = TrainingData(QUERIES, BANK, uniform_sets(QUERIES, nearest, 4, 3, seed=0), scores)
    config = EPR(positives=2)
    trained = captured(
        monkeypatch,
        epr,
        lambda: epr.train_epr(encoder, singles, config, seed=0, folder=Path()),
    )
    trainings = {"epr": trained}
    for kind in ("frozen", "both"):
        config = CEIL(train_context=kind, batch_size=10, subsets=4, size=3, shortlist=8)
        trainings[kind] = captured(
            monkeypatch,
            ceil,
            lambda config=config: ceil.train_ceil(
                encoder,
                sets,
                config,
                bank_vectors=vectors,
                trade_off=0.1,
                seed=0,
                folder=Path(),
            ),
        )
    return {
        "vectors": vectors,
        "nearest": nearest,
        "chosen": chosen.items,
        **{name: step(found) for name, found in trainings.items()},
    }


@pytest.fixture(scope="module")
def results():
    """The results of one device and of four."""
    found = []
    for devices in (1, 4):
        with pytest.MonkeyPatch.context() as patch:
            found.append(everything(patch, devices))
    return found


@pytest.mark.parametrize("training", ["epr", "frozen", "both"])
def test_losses_and_gradients_do_not_depend_on_the_number_of_devices(results, training):
    one, many = (result[training] for result in results)
    assert many["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert one["loss"] > 1e-2
    assert min(one["moved"]) > 1e-5
    assert len(one["moved"]) == (2 if training == "both" else 1)
    np.testing.assert_allclose(many["norms"], one["norms"], atol=1e-5)
    np.testing.assert_allclose(many["gradient"], one["gradient"], atol=1e-5)
    assert many["held_out"] == pytest.approx(one["held_out"], abs=1e-5)


def test_the_same_vectors_neighbours_and_sets(results):
    one, many = results
    np.testing.assert_allclose(many["vectors"], one["vectors"], atol=1e-6)
    np.testing.assert_array_equal(many["nearest"], one["nearest"])
    np.testing.assert_array_equal(many["chosen"], one["chosen"])


def test_a_device_encodes_only_its_share():
    encoder = words_encoder()
    texts = [example.input for example in BANK[:16]]
    tokens = pad(encoder.tokenizer(texts, 32), 32, encoder.tokenizer.pad_id)

    def work(encode):
        return jax.jit(encode).lower(encoder.params, tokens).compile().cost_analysis()["flops"]

    share = work(over_devices(encoder.apply)) / work(encoder.apply)
    assert share == pytest.approx(1 / len(jax.devices()), rel=0.1)
