"""How each cost grows: `python -m benchmarks.scaling` measures ours at several sizes and draws `scaling.svg`.

Beside each curve stands its floor: the bytes that must be read over the machine's streaming bandwidth, or the
float32 operations over its matrix-product peak, whichever is more. Both are measured in the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tyro


class Work(NamedTuple):
    """The least work that a case takes."""

    flop: float
    bytes: float

    def floor(self, machine: Mapping[str, Any]) -> float:
        """Seconds."""
        return max(self.flop / machine["flop_per_second"], self.bytes / machine["bytes_per_second"])


@dataclass(frozen=True)
class Curve:
    """One cost against one size."""

    title: str
    axis: str
    formula: str
    """The operation count that `floors` follow."""
    sizes: Sequence[int]
    seconds: Sequence[float]
    floors: Sequence[float]


class Point(NamedTuple):
    """A workload at one size."""

    run: Callable[[], Any]
    work: Work


def map_over_n(small: bool) -> Iterator[tuple[int, Point]]:
    """Greedy MAP, K = 50."""
    for n in (10, 20, 30, 40) if small else (50, 100, 200, 400, 800):
        yield n, _greedy_map(n, 5 if small else 50, small)


def map_over_k(small: bool) -> Iterator[tuple[int, Point]]:
    """Greedy MAP, n = 400."""
    for k in (2, 4, 6, 8) if small else (8, 16, 32, 64, 128):
        yield k, _greedy_map(40 if small else 400, k, small)


def _greedy_map(n: int, k: int, small: bool) -> Point:
    import jax
    import numpy as np

    from benchmarks import workloads
    from ceil_jax.dpp.greedy import GRAM_UP_TO
    from ceil_jax.retrieval.shortlists import greedy_map_shortlists

    count, d, size = (8, 16, 200) if small else (256, 768, 20_000)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, size, d)
    queries = workloads.queries(rng, items, count)
    shortlists = np.stack([rng.permutation(size)[:n] for _ in range(count)]).astype(np.int32)
    bank = jax.device_put(items)
    rows = n if n <= GRAM_UP_TO * k else k
    work = Work(count * (2.0 * rows * n * d + k * k * n), 4.0 * count * n * d)
    return Point(lambda: greedy_map_shortlists(queries, bank, shortlists, k, 0.05), work)


def nearest_over_bank(small: bool) -> Iterator[tuple[int, Point]]:
    """Exact nearest items: 256 queries, top 100."""
    import numpy as np

    from benchmarks import workloads
    from ceil_jax.retrieval.index import top_k

    count, d, k = (8, 16, 5) if small else (256, 768, 100)
    sizes = (100, 200, 300, 400) if small else (25_000, 50_000, 100_000, 200_000)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, sizes[-1], d)
    queries = workloads.queries(rng, items, count)
    for n in sizes:
        yield n, Point(partial(top_k, queries, items[:n], k), Work(2.0 * count * n * d, 4.0 * n * d))


def step_over_subset(small: bool) -> Iterator[tuple[int, Point]]:
    """CEIL training step with learned contexts, B = 16."""
    for k in (2, 3, 4, 5) if small else (4, 8, 16, 32):
        yield k, _training_step(2 if small else 16, k, small)


def step_over_batch(small: bool) -> Iterator[tuple[int, Point]]:
    """CEIL training step with learned contexts, k = 16."""
    for batch in (1, 2, 3, 4) if small else (8, 16, 32, 64):
        yield batch, _training_step(batch, 3 if small else 16, small)


def _training_step(batch: int, k: int, small: bool) -> Point:
    import jax.numpy as jnp
    import numpy as np

    from benchmarks import workloads
    from benchmarks.subjects.training_step import learned_step

    n, m, d = (10, 4, 16) if small else (100, 50, 768)
    rng = np.random.default_rng(0)
    items = workloads.bank(rng, batch * n, d).reshape(batch, n, d)
    queries = workloads.unit(rng.standard_normal((batch, d), np.float32))
    subsets = np.stack([[rng.permutation(n)[:k] for _ in range(m)] for _ in range(batch)]).astype(np.int32)
    arrays = tuple(map(jnp.asarray, (queries, items, subsets, rng.standard_normal((batch, m), np.float32))))
    # the Gram matrix or its blocks forward, and twice as much backward; the vectors are read at least once each way
    work = Work(3.0 * batch * 2 * min(n * n, m * k * k) * d, 2 * 4.0 * batch * n * d)
    return Point(lambda: learned_step(*arrays), work)


CURVES: dict[str, tuple[Callable[[bool], Iterator[tuple[int, Point]]], str, str]] = {
    "greedy MAP, 256 queries, K = 50, d = 768": (map_over_n, "n", "2 K n d + K² n; 2 n² d up to n = 4 K"),
    "greedy MAP, 256 queries, n = 400, d = 768": (map_over_k, "K", "2 K n d + K² n; 2 n² d from K = n / 4"),
    "nearest items, 256 queries, d = 768, top 100": (nearest_over_bank, "bank", "2 N d a query"),
    "training step, B = 16, n = 100, M = 50, d = 768": (
        step_over_subset,
        "subset size k",
        "6 d min(n², M k²)",
    ),
    "training step, k = 16, n = 100, M = 50, d = 768": (step_over_batch, "batch B", "6 B n² d"),
}


def measure(machine: Mapping[str, Any], rounds: int, small: bool) -> list[Curve]:
    """Every curve: at each size the median of the rounds, after a run that compiles."""
    from benchmarks.harness import finished

    curves = []
    for title, (points, axis, formula) in CURVES.items():
        sizes, seconds, floors = [], [], []
        for size, point in points(small):
            finished(point.run())
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                finished(point.run())
                times.append(time.perf_counter() - start)
            sizes.append(size)
            seconds.append(statistics.median(times))
            floors.append(point.work.floor(machine))
        curves.append(Curve(title, axis, formula, sizes, seconds, floors))
    return curves


def draw(curves: Sequence[Curve], file: Path) -> None:
    """A panel a curve, both axes logarithmic; as SVG with its text as text, so that it stays small."""
    import matplotlib
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    from ceil_jax.report.plots import panels

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "scaling", "font.size": 8}):
        figure, axes = panels(len(curves), 3.7, 3.0, columns=3)
        for panel, curve in zip(axes, curves, strict=True):
            panel.loglog(curve.sizes, [1e3 * s for s in curve.seconds], "o-", label="measured")
            panel.loglog(curve.sizes, [1e3 * s for s in curve.floors], "--", label=f"floor: {curve.formula}")
            panel.set(title=curve.title, xlabel=curve.axis, ylabel="ms")
            panel.xaxis.set_major_locator(FixedLocator(curve.sizes))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            panel.set_ylim(top=5e3 * max(*curve.seconds, *curve.floors))  # room for the legend
            panel.legend(loc="upper left")
        figure.savefig(file, format="svg", metadata={"Date": None})


def text(curves: Sequence[Curve]) -> str:
    """The curves as a Markdown table: milliseconds, and how many times the floor they are."""
    lines = ["| cost | size | ms | × floor |", "| --- | ---: | ---: | ---: |"]
    for curve in curves:
        for size, seconds, floor in zip(curve.sizes, curve.seconds, curve.floors, strict=True):
            name = f"{curve.title}; {curve.axis}" if size == curve.sizes[0] else ""
            lines.append(f"| {name} | {size:,} | {1e3 * seconds:,.1f} | {seconds / floor:.1f} |")
    return "\n".join(lines)


def main(
    device: Literal["cpu", "gpu"] = "cpu",
    rounds: int = 3,
    small: bool = False,
    out: Path = Path("runs/benchmarks"),
    figure: Path | None = None,
) -> None:
    """Measure how the costs grow, and draw it.

    Args:
        device: What JAX computes on.
        rounds: Timed runs at each size.
        small: Tiny sizes, to see that everything runs.
        out: Folder of scaling-<device>.json, and of the figure.
        figure: Where the SVG goes instead.
    """
    os.environ["JAX_PLATFORMS"] = "cpu" if device == "cpu" else "cuda"
    from benchmarks import machine

    described = machine.describe() | machine.floors(small)
    curves = measure(described, rounds, small)
    out.mkdir(parents=True, exist_ok=True)
    what = {"machine": described, "curves": [asdict(curve) for curve in curves]}
    (out / f"scaling-{device}.json").write_text(json.dumps(what, indent=1, ensure_ascii=False) + "\n")
    draw(curves, figure or out / f"scaling-{device}.svg")
    print(json.dumps(described), file=sys.stderr)
    print(text(curves))


if __name__ == "__main__":
    tyro.cli(main)
