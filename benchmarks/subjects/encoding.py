"""Encoding of sentences with all-MiniLM-L6-v2, compared with sentence-transformers, on film reviews
of natural length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from benchmarks.harness import OURS, Case, Disagreement, Settings
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.tasks.assets import fetch
from ceil_jax.tasks.load import load_task

ENCODER = "all-MiniLM-L6-v2"
SENTENCES = 5000
BATCH = 64


def cases(settings: Settings) -> Iterator[Case]:
    from sentence_transformers import SentenceTransformer

    texts = [example.input for example in load_task("movie_reviews").train]
    texts = texts[: 24 if settings.small else SENTENCES]
    gpu = settings.device == "gpu"
    peer = SentenceTransformer(str(fetch(ENCODER)), device="cuda" if gpu else "cpu")
    encoder = load_encoder(ENCODER)
    yield Case(
        f"{len(texts):,} sentences, {ENCODER}, float32",
        {
            OURS: partial(encoder.encode, texts, BATCH),
            "sentence-transformers": partial(
                peer.encode, texts, batch_size=BATCH, show_progress_bar=False
            ),
        },
        same_vectors,
        at_least={"sentence-transformers": 0.9},
        work={"tokens": sum(map(len, encoder.tokenizer(texts, encoder.max_length)))},
    )


def same_vectors(results: Mapping[str, np.ndarray]) -> str:
    """Return a line on the largest difference between entries of the unit vectors."""
    furthest = max(float(np.abs(results[OURS] - theirs).max()) for theirs in results.values())
    if furthest > 1e-4:
        raise Disagreement(f"vectors differ by {furthest:.2g}")
    return f"vectors equal to {furthest:.1g}"
