"""One, two, four and eight devices: the same losses, gradients, vectors and choices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from xla_flags import flags_for

from ceil_jax.distributed import devices as parallel
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.example import Example
from ceil_jax.training import ceil
from ceil_jax.training import contrastive as epr
from ceil_jax.training.candidates import TrainingData, epr_candidates
from ceil_jax.training.config import CEILConfig, EPRConfig
from ceil_jax.training.loop import Ending, Trained
from ceil_jax.training.samplers import uniform_sets

BANK = [Example(f"train-{i}", f"a {('dull', 'bright')[i % 2]} film {i % 7} of {i}", "x") for i in range(40)]
QUERIES = BANK[:14]
ROWS = np.arange(10)
"""Ten of the 11 training instances: a batch that neither 4 nor 8 devices divide; EPR encodes 30 texts for it."""
COUNTS = [1, 2, 4, 8]


class Words(nnx.Module):
    """The mean of embeddings, with dropout, through a layer: quick to compile."""

    def __init__(self, rngs):
        self.table, self.layer = nnx.Embed(512, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, ids, mask, *, key=None):
        words = self.table(ids)
        if key is not None:
            words = jnp.where(jax.random.bernoulli(key, 0.8, words.shape), words / 0.8, 0)
        return self.layer(jnp.tanh((words * mask[..., None]).sum(1)))


def words_encoder():
    return Encoder(Words(nnx.Rngs(0)), HashingTokenizer(512), max_length=32)


def captured(monkeypatch, module, train):
    """The arguments that a training function hands to the loop."""
    found = {}

    def fit(stage, params, gradient, batches, held_out, **settings):
        found.update(params=params, gradient=gradient, batches=batches, held_out=held_out)
        return Trained(params, [], Ending("start", {}))

    monkeypatch.setattr(module, "fit", fit)
    train()
    return found


def step(found, devices):
    """Loss, the norm of every gradient and the gradient of one, with dropout; and the held-out measure."""
    params = jax.device_put(found["params"], parallel.whole(parallel.device_mesh()))
    batch = found["batches"](0, ROWS)
    value, gradient = found["gradient"](params, batch, jax.random.key(3))
    assert value.sharding.device_set == set(jax.devices()[:devices])
    leaves = jax.tree.leaves(gradient)
    parts = gradient.values() if set(gradient) <= {"query", "context"} else [gradient]
    return {
        "loss": float(value),
        "moved": [float(max(np.abs(leaf).max() for leaf in jax.tree.leaves(part))) for part in parts],
        "norms": [float(np.linalg.norm(leaf)) for leaf in leaves],
        "gradient": np.asarray(leaves[-1]).reshape(-1)[:50].tolist(),
        "held_out": float(found["held_out"](params)["kendall_tau"].mean()),
    }


def everything(monkeypatch, devices):
    some = jax.devices()[:devices]
    monkeypatch.setattr(jax, "devices", lambda: some)
    encoder = words_encoder()
    vectors = unit_rows(encoder.encode([example.input for example in BANK], batch_size=8))
    _, nearest = top_k(vectors[:14], vectors, 8, np.arange(14))
    chosen = greedy_map_shortlists(vectors[:14], vectors, nearest, 4, 0.05)
    scores = np.random.default_rng(0).normal(size=(14, 4)).astype(np.float32)
    singles = TrainingData(QUERIES, BANK, epr_candidates(QUERIES, BANK, 4), scores)
    sets = TrainingData(QUERIES, BANK, uniform_sets(QUERIES, nearest, 4, 3, seed=0), scores)
    trainings = {
        "epr": captured(
            monkeypatch,
            epr,
            lambda: epr.train_epr(None, encoder, singles, EPRConfig(positives=2), 0),
        )
    }
    # the examples' encoder learns in the same way as the queries': one number of devices will do
    for kind in ("frozen", "both") if devices in (1, COUNTS[-1]) else ("frozen",):
        config = CEILConfig(train_context=kind, batch_size=10, subsets=4, size=3, shortlist=8)
        trainings[kind] = captured(
            monkeypatch,
            ceil,
            lambda config=config: ceil.train_ceil(None, encoder, vectors, sets, config, 0),
        )
    return {
        "vectors": vectors.tolist(),
        "nearest": nearest.tolist(),
        "chosen": np.asarray(chosen.items).tolist(),
        **{name: step(found, devices) for name, found in trainings.items()},
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of this file run as a program: the number of devices is set when a process starts."""
    out = tmp_path_factory.mktemp("devices") / "results.json"
    flags = flags_for(max(COUNTS))
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[i]) for i in (1, 2)),
    }
    subprocess.run([sys.executable, __file__, str(out)], env=environment, check=True, timeout=300)
    return json.loads(out.read_text())


@pytest.mark.parametrize(
    "training, devices",
    [("both", COUNTS[-1]), *((training, n) for training in ("epr", "frozen") for n in COUNTS[1:])],
)
def test_losses_and_gradients_do_not_depend_on_the_number_of_devices(results, training, devices):
    one, many = results["1"][training], results[str(devices)][training]
    assert many["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert one["loss"] > 1e-2 and min(one["moved"]) > 1e-5
    assert len(one["moved"]) == (2 if training == "both" else 1)
    np.testing.assert_allclose(many["norms"], one["norms"], atol=1e-5)
    np.testing.assert_allclose(many["gradient"], one["gradient"], atol=1e-5)
    assert many["held_out"] == pytest.approx(one["held_out"], abs=1e-5)


@pytest.mark.parametrize("devices", COUNTS[1:])
def test_the_same_vectors_neighbours_and_sets(results, devices):
    one, many = results["1"], results[str(devices)]
    np.testing.assert_allclose(many["vectors"], one["vectors"], atol=1e-6)
    assert many["nearest"] == one["nearest"]
    assert many["chosen"] == one["chosen"]


def test_a_device_encodes_only_its_share():
    encoder = words_encoder()
    tokens = encoder.tokenize([example.input for example in BANK[:16]], 32)

    def work(encode):
        return jax.jit(encode).lower(encoder.params, tokens).compile().cost_analysis()["flops"]

    share = work(parallel.over_devices(encoder.apply)) / work(encoder.apply)
    assert share == pytest.approx(1 / len(jax.devices()), rel=0.1)


if __name__ == "__main__":
    patches = pytest.MonkeyPatch()
    found = {}
    for count in COUNTS:
        with patches.context() as patch:
            found[str(count)] = everything(patch, count)
    Path(sys.argv[1]).write_text(json.dumps(found))
