"""The gradient of a step of EPR's training: 16 queries, as many positives and hard negatives, film
reviews, all-MiniLM-L6-v2.

Ours encodes the texts in four chunks of similar length, each distinct text once. One peer encodes
all 48 as one batch that is padded to 32 or 64 tokens, with the same encoder, as training did
before; the other pads to the longest text, in torch, with sentence-transformers. Nobody drops out,
so that losses and gradients can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import OURS, Case, Disagreement, Settings
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.tokenizers import Tokens, pad, padded_length
from ceil_jax.tasks.assets import fetch
from ceil_jax.tasks.load import load_task
from ceil_jax.training.contrastive import EPRBatch, epr_objective
from ceil_jax.training.gradient_cache import GradientCache
from ceil_jax.training.token_table import TokenTable

ENCODER = "all-MiniLM-L6-v2"
BATCH = 16
CHUNKS = 4
TEMPERATURE = 0.05
STEPS = 4


def cases(settings: Settings) -> Iterator[Case]:
    batch, steps = (4, 1) if settings.small else (BATCH, STEPS)
    encoder = load_encoder(ENCODER)
    texts = [example.input for example in load_task("movie_reviews").train[: 3 * batch * steps]]
    table = TokenTable(encoder, texts)
    ids = encoder.tokenizer(texts, encoder.max_length)
    chunk = math.ceil(3 * batch / CHUNKS)
    rows = np.arange(3 * batch * steps).reshape(steps, 3, batch)
    groups = jnp.arange(batch)
    about = EPRBatch(None, groups, groups + batch)

    def apply(params: Any, tokens: Any, *, key: Any = None) -> jax.Array:
        return encoder.apply(params, tokens)

    objective = partial(epr_objective, encode=apply, temperature=TEMPERATURE)
    cache = GradientCache(apply, "query", objective)

    @jax.jit
    def whole(params: Any, tokens: Any) -> Any:
        def loss(params: Any) -> jax.Array:
            vectors = apply(params["query"], tokens)
            return objective(params, vectors.reshape(3, batch, -1), about, None)

        return jax.value_and_grad(loss)(params)

    def chunked() -> dict[str, Any]:
        params = {"query": encoder.params}
        key = jax.random.key(0)
        return _outcome(
            [cache(params, table.once(rows_of_step, chunk), about, key) for rows_of_step in rows]
        )

    def padded() -> dict[str, Any]:
        params = {"query": encoder.params}
        return _outcome(
            [
                whole(params, _one_batch(ids, rows_of_step.reshape(-1), encoder))
                for rows_of_step in rows
            ]
        )

    yield Case(
        f"{steps} steps of {3 * batch} texts, {ENCODER}",
        {
            OURS: chunked,
            "one batch of 32 or 64 tokens": padded,
            "torch": _torch(texts, rows, settings.device),
        },
        same_gradients,
        at_least={"one batch of 32 or 64 tokens": 2.0, "torch": 1.0},
        work={"tokens": sum(map(len, ids))},
    )


def _one_batch(ids: list[list[int]], rows: np.ndarray, encoder: Encoder) -> Tokens:
    some = [ids[row] for row in rows]
    length = padded_length(max(map(len, some)), encoder.max_length, (32, 64, 96, 128))
    return pad(some, length, encoder.tokenizer.pad_id)


def _outcome(steps: list[Any]) -> dict[str, Any]:
    squares = [
        sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope)) for _, slope in steps
    ]
    return {
        "loss": np.array([float(value) for value, _ in steps]),
        "norm": np.sqrt([float(square) for square in squares]),
    }


def _torch(texts: list[str], rows: np.ndarray, device: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import batch_to_device

    model = SentenceTransformer(
        str(fetch(ENCODER)), device="cuda" if device == "gpu" else "cpu"
    ).eval()

    def step(rows_of_step: np.ndarray) -> tuple[float, float]:
        model.zero_grad()
        inputs = batch_to_device(
            model.preprocess([texts[row] for row in rows_of_step.reshape(-1)]), model.device
        )
        vectors = model(inputs)["sentence_embedding"]
        positives, negatives, queries = vectors.split(rows_of_step.shape[1])
        cosines = queries @ torch.cat([positives, negatives]).T / TEMPERATURE
        loss = torch.nn.functional.cross_entropy(
            cosines, torch.arange(len(queries), device=model.device)
        )
        loss.backward()
        squares = [part.grad.square().sum() for part in model.parameters() if part.grad is not None]
        return float(loss.detach()), float(torch.stack(squares).sum().sqrt())

    def run() -> dict[str, Any]:
        results = np.array([step(rows_of_step) for rows_of_step in rows])
        return {"loss": results[:, 0], "norm": results[:, 1]}

    return run


def same_gradients(results: Mapping[str, Any]) -> str:
    """Return a line on the largest differences of the loss and of a gradient's length, relative to ours."""
    ours = results[OURS]
    furthest = max(
        float(np.max(np.abs(theirs[name] - ours[name]) / np.abs(ours[name])))
        for theirs in results.values()
        for name in ("loss", "norm")
    )
    if furthest > 1e-2:
        raise Disagreement(f"losses or gradients differ by {furthest:.2g}")
    return f"losses and gradients equal to {furthest:.1g}"
