"""Queries that are rows of the bank, on which methods are trained and λ is tuned."""

from __future__ import annotations

import numpy as np

from ceil_jax.pipeline.setup import Setup
from ceil_jax.pipeline.views import BankQueries
from ceil_jax.training.tuning import TUNING_QUERIES


def bank_queries(setup: Setup, count: int, after: int = 0) -> BankQueries:
    """Return `count` queries of the bank, in a drawn order that is the same for all methods; fewer
    queries are among more.

    Args:
        setup: the task and its settings.
        count: how many queries; fewer where the bank has fewer.
        after: how many queries of that order are left to others.
    """
    order = np.random.default_rng([setup.config.data_seed, 3]).permutation(len(setup.bank))
    return setup.bank.queries(order[after : after + count])


def tuning_queries(setup: Setup) -> BankQueries:
    """Return the queries of the bank on which λ is tuned. Training takes its queries from the
    beginning of the order, tuning from its end."""
    return bank_queries(setup, TUNING_QUERIES, after=max(0, len(setup.bank) - TUNING_QUERIES))
