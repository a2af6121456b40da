"""A bank of a million vectors: build, memory-mapped load and exact top-100 for 1,101 queries.

    python experiments/big_bank.py --items 1000000

The vectors are synthetic: clusters of unequal size on the unit sphere, of MiniLM's width 384, about
as near to their centres as paraphrases are to each other. Measurements: experiments/notes/scaling.md.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

WIDTH = 384
QUERIES = 1_101
CLUSTERS = 20_000
SPREAD = 0.8
"""The length of the noise relative to that of the cluster's centre."""
BLOCK = 50_000


def vectors(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, WIDTH), np.float32)
    # Zipf-like: the probability of cluster i is proportional to 1 / (i + 50)
    shares = 1 / (np.arange(CLUSTERS) + 50)
    chosen = centres[rng.choice(CLUSTERS, size=count, p=shares / shares.sum())]
    points = chosen + SPREAD * rng.standard_normal((count, WIDTH), np.float32)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def peak_gib() -> float:
    """Return the peak memory of this process in GiB, mapped pages of the file included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def report(step: str, seconds: float, queries: int = 0) -> None:
    row = {"step": step, "seconds": round(seconds, 2), "peak_gib": round(peak_gib(), 2)}
    print(
        json.dumps(row | ({"ms_a_query": round(1e3 * seconds / queries, 2)} if queries else {})),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    items = parser.parse_args().items
    with tempfile.TemporaryDirectory(dir=".") as folder:
        file = Path(folder, "bank.npy")
        began = time.perf_counter()
        bank = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(items, WIDTH))
        for start in range(0, items, BLOCK):
            bank[start : start + BLOCK] = vectors(start + 1, min(BLOCK, items - start))
        bank.flush()
        del bank
        report("build", time.perf_counter() - began)

        from ceil_jax.retrieval.index import top_k

        bank = np.load(file, mmap_mode="r")
        queries = vectors(items + 7, QUERIES)
        for step in ("exact top-100, first call", "exact top-100, compiled"):
            began = time.perf_counter()
            top_k(queries, bank, 100)
            report(step, time.perf_counter() - began, QUERIES)


if __name__ == "__main__":
    main()
