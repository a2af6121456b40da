"""A bank of a million vectors: build, memory-mapped load, exact and approximate top-100 for 1,101 queries.

    python experiments/big_bank.py --items 1000000

The vectors are synthetic: clusters of unequal size on the unit sphere, of MiniLM's width 384, about as near to their
centres as paraphrases are to each other. Recall on text may be better or worse. Measurements: experiments/NOTES.md.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

CLUSTERS = 20_000
SPREAD = 0.8
"""Length of the noise relative to the cluster's centre."""
BLOCK = 50_000


def vectors(seed: int, count: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, width), np.float32)
    # Zipf-like: the probability of cluster i is proportional to 1 / (i + 50)
    shares = 1 / (np.arange(CLUSTERS) + 50)
    chosen = centres[rng.choice(CLUSTERS, size=count, p=shares / shares.sum())]
    made = chosen + SPREAD * rng.standard_normal((count, width), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def peak_gib() -> float:
    """Return the peak memory of this process in GiB, mapped pages of the file included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, default=1_101)
    parser.add_argument("--probes", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--out", type=Path, default=Path("runs"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"bank-{options.items}x{options.width}.npy"

    def said(what: str, began: float, **more: float) -> None:
        row = {
            "what": what,
            "seconds": round(time.perf_counter() - began, 2),
            "peak_gib": round(peak_gib(), 2),
        }
        print(json.dumps({**row, **more}), flush=True)

    began = time.perf_counter()
    shape = (options.items, options.width)
    bank = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, options.items, BLOCK):
        bank[start : start + BLOCK] = vectors(start + 1, min(BLOCK, options.items - start), options.width)
    bank.flush()
    del bank
    said("build", began)

    from ceil_jax.retrieval.faiss_index import ApproximateIndex
    from ceil_jax.retrieval.index import top_k

    began = time.perf_counter()
    bank = np.load(file, mmap_mode="r")
    said("load", began)
    queries = vectors(options.items + 7, options.queries, options.width)
    began = time.perf_counter()
    _, exact = top_k(queries, bank, 100)
    said("exact top-100, first call", began)
    began = time.perf_counter()
    top_k(queries, bank, 100)
    elapsed = time.perf_counter() - began
    said("exact top-100, compiled", began, milliseconds_a_query=round(1e3 * elapsed / len(queries), 2))

    began = time.perf_counter()
    index = ApproximateIndex(bank)
    said("approximate: build", began)
    for probes in options.probes:
        index.probes = probes
        began = time.perf_counter()
        _, found = index.top_k(queries, 100)
        elapsed = time.perf_counter() - began
        milliseconds = round(1e3 * elapsed / len(queries), 2)
        said(
            f"approximate: {probes} probes",
            began,
            milliseconds_a_query=milliseconds,
            recall=recall(found, exact),
        )
    file.unlink()


def recall(found: np.ndarray, exact: np.ndarray) -> float:
    """Share of the exact neighbours, int [Q, k], that are among those found, int [Q, k]; −1 is an empty place."""
    pairs = zip(found.tolist(), exact.tolist(), strict=True)
    hits = [len({i for i in row if i >= 0} & {i for i in true if i >= 0}) for row, true in pairs]
    return sum(hits) / max(1, int((exact >= 0).sum()))


if __name__ == "__main__":
    main()
