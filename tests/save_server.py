"""A process that forks a child for each save of a small selector, and kills it on request; see watched.py.

An order's "label" is every output of the selector that is saved, "saves" how often it is (1 by default).
"""

import numpy as np
import pandas  # noqa: F401  what a save imports is imported here, once
import pyarrow.parquet  # noqa: F401
import safetensors.numpy  # noqa: F401
from selector_words import ROWS
from watched import serve

from ceil_jax import CeilSelector, load_encoder

tiny = load_encoder("tiny")
# children compute nothing with JAX, whose threads a fork does not copy
ENCODER = tiny.with_params({name: np.asarray(value) for name, value in tiny.params.items()})
ENCODER.fingerprint  # noqa: B018  computed here, once
VECTORS = np.random.default_rng(0).normal(size=(len(ROWS), tiny.dim))


def save(order: dict) -> None:
    rows = [{**row, "output": order["label"]} for row in ROWS]
    selector = CeilSelector.from_examples(rows, encoder=ENCODER, vectors=VECTORS)
    for _ in range(order.get("saves", 1)):
        selector.save_pretrained(order["folder"])


if __name__ == "__main__":
    serve(save)
