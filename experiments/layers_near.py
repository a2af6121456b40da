"""The share of the gold output that the four nearest examples by each layer of the encoder have,
without an LM.

    python experiments/layers_near.py --data-dir DATA --tasks nl2bash sst5 webqs

The share is the F1 of the outputs' tokens; on tasks with choices, whether the label is the gold one.
Percent, the mean over the four and the best of them; other layers less the last one, with 95 %
intervals over queries.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness.command import script
from judge_features import LAYERS, layer_vectors

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.metrics.bootstrap import bootstrap_interval
from ceil_jax.report.table import Number, Table, Value, signed
from ceil_jax.retrieval.nearest import nearest
from ceil_jax.retrieval.own_rows import OwnRows
from ceil_jax.tasks.example import Example, Task
from ceil_jax.tasks.load import load_task

SHOTS = 4
QUERIES = 400


def shared(query: Example, example: Example) -> float:
    """Return how much an example's output has of the query's, from 0 to 1."""
    if query.choices:
        return float(example.output == query.output)
    words_of_gold = Counter(query.output.split())
    words_of_example = Counter(example.output.split())
    return (
        2
        * sum((words_of_gold & words_of_example).values())
        / max(1, sum(words_of_gold.values()) + sum(words_of_example.values()))
    )


def by_layer(task: Task, encoder: Any) -> list[np.ndarray]:
    """Return the shares of the nearest examples by each layer, the embeddings first, float
    [Q, SHOTS]."""
    examples = layer_vectors(encoder, [example.input for example in task.train])
    queries = layer_vectors(encoder, [query.input for query in task.validation])
    own_positions = OwnRows(task.train, "id")(task.validation)
    shares_of_layers = []
    for layer in range(LAYERS):
        positions = nearest(queries[layer], examples[layer], own_positions, SHOTS)[1]
        shares = [
            [shared(query, task.train[position]) for position in near]
            for query, near in zip(task.validation, positions, strict=True)
        ]
        shares_of_layers.append(np.array(shares))
    return shares_of_layers


def table(shares: Mapping[str, Sequence[np.ndarray]]) -> Table:
    """Return a row for each task, of the mean and of the best."""
    body: list[list[Value]] = []
    for name, layers in shares.items():
        for kind, over in (("mean", np.mean), ("best", np.max)):
            values = [over(layer, axis=1) for layer in layers]
            less = [bootstrap_interval(value - values[-1]).percent() for value in values[:-1]]
            last = Number(100 * float(values[-1].mean()))
            body.append([f"{name}, {kind}", last, *map(signed, less)])
    names = [f"layer {layer}" for layer in range(LAYERS - 1)]
    return Table([f"{SHOTS} nearest", "last layer", *names], body)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", nargs="+", default=["nl2bash", "sst5", "webqs"])
    options = parser.parse_args(arguments)
    encoder = load_encoder("all-MiniLM-L6-v2")
    shares = {
        name: by_layer(load_task(name, options.data_dir, QUERIES), encoder)
        for name in options.tasks
    }
    print(table(shares).markdown())


if __name__ == "__main__":
    script(main)
