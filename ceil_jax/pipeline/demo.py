"""What `make demo` runs: film reviews, a packaged 135M LM, a packaged MiniLM."""

from __future__ import annotations

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.training.config import CEILConfig, EPRConfig

DEMO = RunConfig(
    task="movie_reviews",
    limit=300,
    bank_limit=3000,
    shots=6,
    epr=EPRConfig(instances=240, candidates=16, epochs=5),
    ceil=CEILConfig(instances=240, subsets=12, size=6, epochs=5),
)
"""λ of DPP-MAP and the training signal were compared on 300 sentences of the bank, never on those reported;
sizes and epochs are what 15 minutes on 2 cores allow (README, "The demo")."""

DEMO_RETRIEVERS = ("random", "bm25", "topk", "dpp", "epr", "ceil")
