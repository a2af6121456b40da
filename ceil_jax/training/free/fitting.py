"""Training of adapters: a step is a matrix product, so that all of a bank is learnt from in seconds on a CPU."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float

from ceil_jax.training.free.adapter import Adapter, example_features
from ceil_jax.training.free.objectives import Objective
from ceil_jax.training.free.rows import Rows, features
from ceil_jax.training.loop import split_held_out

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdapterConfig:
    """How adapters are trained."""

    width: int = 64
    """Dimensions a side, beside those of the vectors."""
    epochs: int = 30
    """Passes over the training queries, at most."""
    patience: int = 3
    """Passes without a lower held-out loss after which training stops."""
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2


class Sides(nnx.Module):
    """The two sides of an adapter: features and vectors → [unit(linear(features)), √weight · vectors]."""

    def __init__(self, query: int, example: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.query = nnx.Linear(query, width, rngs=rngs)
        self.example = nnx.Linear(example, width, rngs=rngs)
        self.log_cosine_weight = nnx.Param(jnp.log(0.5))
        self.log_scale = nnx.Param(jnp.log(20.0))

    def __call__(
        self, side: nnx.Linear, features: Float[Array, "*b f"], vectors: Float[Array, "*b d"]
    ) -> Float[Array, "*b e"]:
        mapped = side(features)
        mapped = mapped / jnp.sqrt(jnp.sum(mapped * mapped, axis=-1, keepdims=True) + 1e-12)
        return jnp.concatenate([mapped, jnp.exp(self.log_cosine_weight[...] / 2) * vectors], axis=-1)


def fit_adapter(
    objective: Objective,
    rows: Rows,
    *,
    labels: tuple[str, ...] = (),
    initial: Adapter | None = None,
    config: AdapterConfig | None = None,
    seed: int = 0,
) -> Adapter:
    """Train an adapter on vectors of the bank; no text is encoded.

    A part of the queries is held out (`loop.split_held_out`); training ends with the weights of the pass with the
    lowest held-out loss, the starting weights included.

    Args:
        objective: what is learnt: `objectives.Listwise`, `Singles`, `Sets` or one of your own.
        rows: the bank, with outputs; its rows are the queries too.
        labels: the labels, for tasks with choices; without them the bank's side takes the outputs' vectors.
        initial: an adapter to start from, with the same labels: EPR from TST, CEIL from EPR.
        config: settings.
        seed: of the held-out queries, the starting weights, the order of batches and the draws.

    Returns:
        The trained adapter.
    """
    config = config or AdapterConfig()
    labels = initial.labels if initial is not None else labels
    seen = features(rows), example_features(rows, labels), rows.vectors
    model = Sides(seen[0].shape[1], seen[1].shape[1], config.width, rngs=nnx.Rngs(seed))
    graph, params = nnx.split(model)
    if initial is not None:
        params = _params_of(initial, params)
    query_features, shown, vectors = (jnp.asarray(one, jnp.float32) for one in seen)
    optimiser = optax.adamw(config.learning_rate, weight_decay=config.weight_decay)

    @jax.jit
    def loss(params: Any, queries: Array, examples: Array, given: Any) -> Array:
        model = nnx.merge(graph, params)
        asked = model(model.query, query_features[queries], vectors[queries])
        found = model(model.example, shown[examples], vectors[examples])
        return objective.loss(asked, found, given, jnp.exp(model.log_scale[...]))

    @jax.jit
    def step(params: Any, state: Any, *drawn: Any) -> tuple[Any, Any]:
        change, state = optimiser.update(jax.grad(loss)(params, *drawn), state, params)
        return optax.apply_updates(params, change), state

    positions = objective.positions
    training, held_out = split_held_out(len(positions), seed)
    batch_size = min(config.batch_size, len(training))

    def drawn(generator: np.random.Generator, queries: np.ndarray) -> tuple[Any, ...]:
        return positions[queries], *objective.draw(generator, queries)

    judged = [
        drawn(np.random.default_rng([seed, 1]), part)
        for part in np.array_split(held_out, -(-len(held_out) // batch_size))
    ]

    def held_out_loss(params: Any) -> float:
        return float(
            np.average([loss(params, *part) for part in judged], weights=[len(p[0]) for p in judged])
        )

    best, lowest, waited = params, held_out_loss(params), 0
    state, generator = optimiser.init(params), np.random.default_rng([seed, 2])
    for epoch in range(config.epochs):
        order = generator.permutation(training)
        for start in range(0, len(order) - batch_size + 1, batch_size):
            params, state = step(params, state, *drawn(generator, order[start : start + batch_size]))
        now = held_out_loss(params)
        if not np.isfinite(now):
            raise FloatingPointError(f"adapter: the held-out loss is {now} after pass {epoch + 1}")
        log.debug("adapter: held-out loss %.4f after pass %d", now, epoch + 1)
        waited = 0 if now < lowest else waited + 1
        if now < lowest:
            best, lowest = params, now
        if waited == config.patience:
            break
    return _adapter_of(nnx.merge(graph, best), labels)


def _adapter_of(model: Sides, labels: tuple[str, ...]) -> Adapter:
    held = nnx.to_pure_dict(nnx.state(model))
    kernels = [np.asarray(held[side][part]) for side in ("query", "example") for part in ("kernel", "bias")]
    weight, scale = (float(np.exp(held[name])) for name in ("log_cosine_weight", "log_scale"))
    return Adapter(labels, kernels[0], kernels[1], kernels[2], kernels[3], weight, scale)


def _params_of(adapter: Adapter, like: Any) -> Any:
    held = {
        "query": {"kernel": adapter.query_kernel, "bias": adapter.query_bias},
        "example": {"kernel": adapter.example_kernel, "bias": adapter.example_bias},
        "log_cosine_weight": np.log(adapter.cosine_weight),
        "log_scale": np.log(adapter.scale),
    }
    given = nnx.to_pure_dict(like)
    nnx.replace_by_pure_dict(like, jax.tree.map(lambda _, one: jnp.asarray(one, jnp.float32), given, held))
    return like
