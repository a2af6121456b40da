"""KITE beside a determinant: what examples chosen for one query's prediction cover, without an LM.

    python experiments/kite.py --data-dir DATA

KITE (Singh et al., arXiv 2509.15676) models the LM as a linear function of the inputs' features and
takes the examples that make its prediction at the query most certain, greedily, with kernels in
place of features and a log det that rewards diversity. From its abstract and not from its code: with
noise ν, weight β, and k_S the kernel that is left of k once the examples S are known, the next
example i is the one with the largest

    k_S(x, i)² / (k_S(i, i) + ν) + β log(1 + k_S(i, i) / ν)

The first term is what i takes off the variance at the query x. `conditional_kernel`'s determinant
weighs a fixed relevance against diversity; here an example that repeats what S has said of the query
loses its first term too. Measured is the coverage of `determinant.py` on three splits of GeoQuery:
the share of a query's names and edges that its K examples have together; intervals resample programs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from determinant import COUNTS, GRID, SHORTLIST, coverage
from harness.command import script
from jaxtyping import Array, Float, Int

from ceil_jax import load_encoder, load_task
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.metrics.bootstrap import Sample, averaged_interval, by_group, mean, paired
from ceil_jax.report.table import Number, Table, Value, signed
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.tasks.structures import programs

SPLITS = ("geoquery", "geoquery.template", "geoquery.length")
NOISES = (0.01, 0.1, 1.0)
WEIGHTS = (0.0, 0.01, 0.1)
WIDTHS = (None, 0.5, 1.0)
"""Widths of the Gaussian kernel exp(−|u − v|² / 2 σ²); None is the cosine itself."""


def kernel(cosines: Array, width: float | None) -> Array:
    """Return the cosine or a Gaussian kernel of unit vectors from their cosines."""
    return cosines if width is None else jnp.exp((cosines - 1) / width**2)


@partial(jax.jit, static_argnames=("count", "width"))
def kite(
    query: Float[Array, " d"],
    examples: Float[Array, "n d"],
    noise: float,
    weight: float,
    *,
    count: int,
    width: float | None = None,
) -> Int[Array, " k"]:
    """Return the rows of `count` examples in the order of their choice.

    Args:
        query: a unit vector.
        examples: the shortlist, unit rows.
        noise: ν, above 0; small values forbid repetition.
        weight: β of the log det.
        count: examples to choose, at most n.
        width: σ of a Gaussian kernel; the cosine by default.
    """
    between = kernel(examples @ examples.T, width)
    with_query = kernel(examples @ query, width)
    is_chosen = jnp.zeros(len(examples), bool)

    def take(
        state: tuple[Array, Array, Array], _: None
    ) -> tuple[tuple[Array, Array, Array], Array]:
        between, with_query, is_chosen = state
        variance = jnp.maximum(jnp.diagonal(between), 0)
        gain = with_query**2 / (variance + noise) + weight * jnp.log1p(variance / noise)
        chosen = jnp.argmax(jnp.where(is_chosen, -jnp.inf, gain))
        column = between[:, chosen] / (variance[chosen] + noise)
        between_left = between - column[:, None] * between[chosen][None, :]
        return (
            between_left,
            with_query - column * with_query[chosen],
            is_chosen.at[chosen].set(True),
        ), chosen

    return jax.lax.scan(take, (between, with_query, is_chosen), None, length=count)[1]


def best(
    gains: Mapping[tuple[str, int], Sequence[Sample]], method: str, count: int
) -> Sequence[Sample]:
    """Return the samples of the settings of a method with the largest mean gain.

    Args:
        gains: samples of each split by (settings, number of examples).
        method: the beginning of the settings' name.
        count: the number of examples.
    """
    settings = [name for name, k in gains if k == count and name.startswith(method)]
    return max(
        (gains[name, count] for name in settings),
        key=lambda samples: averaged_interval(samples).mean,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    options = parser.parse_args(arguments)
    encoder = load_encoder(options.encoder)
    gains: dict[tuple[str, int], list[Sample]] = {}
    levels: dict[int, list[float]] = {}
    for split in SPLITS:
        task = load_task(split, options.data_dir)
        queries = unit_rows(encoder.encode([example.input for example in task.validation]))
        examples = unit_rows(encoder.encode([example.input for example in task.train]))
        _, shortlist = top_k(queries, examples, min(SHORTLIST, len(examples)))
        groups = programs(task.validation, task.train)
        most = max(COUNTS)
        chosen = {}
        for trade_off in GRID:
            map_sets = greedy_map_shortlists(queries, examples, shortlist, most, trade_off)
            chosen[f"MAP, λ = {trade_off:g}"] = np.asarray(map_sets.items)
        for width in WIDTHS:
            for noise in NOISES:
                for weight in WEIGHTS:
                    name = f"KITE, σ = {width or '–'}, ν = {noise:g}, β = {weight:g}"
                    choose = partial(kite, count=most, width=width)
                    choose = jax.vmap(choose, in_axes=(0, 0, None, None))
                    in_shortlist = np.asarray(choose(queries, examples[shortlist], noise, weight))
                    chosen[name] = np.take_along_axis(shortlist, in_shortlist, axis=1)
        for count in COUNTS:
            nearest = coverage(task, shortlist[:, :count])
            levels.setdefault(count, []).append(100 * float(nearest.mean()))
            for name, positions in chosen.items():
                # greedy choices of fewer examples are the first of more
                less = coverage(task, positions[:, :count]) - nearest
                sample = by_group(Sample(less[:, None], mean), groups)
                gains.setdefault((name, count), []).append(sample)
    names = dict.fromkeys(name for name, _ in gains)
    body: list[list[Value]] = [
        [name, *(signed(averaged_interval(gains[name, count]).percent()) for count in COUNTS)]
        for name in names
    ]
    baseline: list[Value] = [
        "nearest",
        *(Number(float(np.mean(levels[count]))) for count in COUNTS),
    ]
    margins: list[Value] = ["the best KITE less the best MAP"]
    for count in COUNTS:
        kites = best(gains, "KITE", count)
        maps = best(gains, "MAP", count)
        pairs = [paired(by_kite, by_map) for by_kite, by_map in zip(kites, maps, strict=True)]
        margins.append(signed(averaged_interval(pairs).percent()))
    header = [f"coverage, mean of {len(SPLITS)} splits", *(f"K = {count}" for count in COUNTS)]
    print(Table(header, [baseline, *body, margins]).markdown())


if __name__ == "__main__":
    script(main)
