"""Training of adapters: a step is a matrix product, so that all of a bank is learnt from in seconds on a CPU."""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array

from ceil_jax.training.free.adapter import Adapter, example_features
from ceil_jax.training.free.objectives import Objective
from ceil_jax.training.free.rows import Observed, features
from ceil_jax.training.loop import split_held_out

log = logging.getLogger(__name__)


_PATIENCE = 3
"""Passes without a lower held-out loss after which training stops."""


def fit_adapter(
    rows: Observed,
    objective: Objective,
    *,
    labels: tuple[str, ...] = (),
    initial: Adapter | None = None,
    like: Adapter | None = None,
    seed: int = 0,
    width: int = 64,
    epochs: int = 30,
    batch_size: int = 256,
    learning_rate: float = 3e-3,
) -> Adapter:
    """Train an adapter on vectors of the bank; no text is encoded.

    A part of the queries is held out (`loop.split_held_out`); training ends with the weights of the pass that has the
    lowest held-out loss, the starting weights included.

    Args:
        rows: the bank, with outputs.
        objective: `objectives.tst`, `epr`, `ceil`, or one of your own.
        labels: the labels, for tasks with choices; without them the bank's side takes the outputs' vectors.
        initial: an adapter to start from, with the same labels.
        like: an adapter whose side of the bank stays as it is; only the queries' side learns, from new weights.
        seed: of the held-out queries, the starting weights, the order of batches and the draws.
        width: dimensions a side, beside those of the vectors.
        epochs: passes over the training queries, at most.
        batch_size: queries a step.
        learning_rate: of Adam.
    """
    inputs = features(rows), example_features(rows, labels), rows.vectors
    asked, shown, vectors = (jnp.asarray(one, jnp.float32) for one in inputs)
    params = _start(asked.shape[1], shown.shape[1], width, seed)
    if initial is not None:
        params = _parameters(initial)
    kept = {}
    if like is not None:
        kept = {name: value for name, value in _parameters(like).items() if not name.startswith("query")}
        params = {name: value for name, value in params.items() if name not in kept}
    optimiser = optax.adamw(learning_rate, weight_decay=1e-2)

    def mapped(params: Any, side: str, features: Array, vectors: Array) -> Array:
        own = features @ params[f"{side}_kernel"]
        own = own + jnp.broadcast_to(params[f"{side}_bias"], own.shape)
        own = own / jnp.sqrt(jnp.sum(own * own, axis=-1, keepdims=True) + 1e-12)
        return jnp.concatenate([own, jnp.exp(params["cosine_weight"] / 2) * vectors], axis=-1)

    @jax.jit
    def loss(params: Any, queries: Array, examples: Array, given: Any) -> Array:
        params = {**params, **kept}
        ours = mapped(params, "query", asked[queries], vectors[queries])
        theirs = mapped(params, "example", shown[examples], vectors[examples])
        return objective.loss(ours, theirs, given, jnp.exp(params["scale"]))

    @jax.jit
    def step(params: Any, state: Any, *drawn: Any) -> tuple[Any, Any]:
        change, state = optimiser.update(jax.grad(loss)(params, *drawn), state, params)
        return optax.apply_updates(params, change), state

    def drawn(generator: np.random.Generator, queries: np.ndarray) -> tuple[Any, ...]:
        """The bank rows of queries, the examples of their step, and what the loss takes besides."""
        return objective.positions[queries], *objective.draw(generator, queries)

    training, held_out = split_held_out(len(objective.positions), seed)
    batch_size = min(batch_size, len(training))
    parts = np.array_split(held_out, -(-len(held_out) // batch_size))
    judged = [drawn(np.random.default_rng([seed, 1]), part) for part in parts]

    def held_out_loss(params: Any) -> float:
        return float(np.average([loss(params, *part) for part in judged], weights=[*map(len, parts)]))

    best, lowest, waited = params, held_out_loss(params), 0
    state, generator = optimiser.init(params), np.random.default_rng([seed, 2])
    for epoch in range(epochs):
        order = generator.permutation(training)
        for first in range(0, len(order) - batch_size + 1, batch_size):
            params, state = step(params, state, *drawn(generator, order[first : first + batch_size]))
        now = held_out_loss(params)
        if not np.isfinite(now):
            raise FloatingPointError(f"adapter: the held-out loss is {now} after pass {epoch + 1}")
        log.debug("adapter: held-out loss %.4f after pass %d", now, epoch + 1)
        waited = 0 if now < lowest else waited + 1
        if now < lowest:
            best, lowest = params, now
        if waited == _PATIENCE:
            break
    found = jax.tree.map(np.asarray, {**best, **kept})
    weight, scale = (float(np.exp(found.pop(name))) for name in ("cosine_weight", "scale"))
    return Adapter(labels, **found, cosine_weight=weight, scale=scale)


def _parameters(adapter: Adapter) -> dict[str, Array]:
    """An adapter's parameters as they are trained."""
    names = (f"{side}_{part}" for side in ("query", "example") for part in ("kernel", "bias"))
    found = {name: jnp.asarray(getattr(adapter, name), jnp.float32) for name in names}
    return found | {name: jnp.log(getattr(adapter, name)) for name in ("cosine_weight", "scale")}


def _start(query: int, example: int, width: int, seed: int) -> dict[str, Array]:
    """Starting parameters, by the fields of `Adapter`; the two factors are logarithms."""
    rngs = nnx.Rngs(seed)
    sides = {"query": nnx.Linear(query, width, rngs=rngs), "example": nnx.Linear(example, width, rngs=rngs)}
    kernels = {f"{name}_kernel": side.kernel[...] for name, side in sides.items()}
    biases = {f"{name}_bias": jnp.zeros(width) for name in sides}
    return {**kernels, **biases, "cosine_weight": jnp.log(0.5), "scale": jnp.log(20.0)}
