"""What `make demo` runs: film reviews, a packaged 135M LM, a packaged MiniLM."""

from __future__ import annotations

from ceil_jax.config import CEILConfig, EPRConfig, RunConfig

DEMO = RunConfig(
    task="movie_reviews",
    limit=300,
    bank_limit=3000,
    shots=6,
    epr=EPRConfig(instances=200, candidates=16),
    ceil=CEILConfig(instances=150, subsets=10, size=6),
)
"""Chosen on 300 sentences of the bank (README, "The demo"), never on the 300 that are reported."""

DEMO_RETRIEVERS = ("random", "bm25", "topk", "dpp", "epr", "ceil")
