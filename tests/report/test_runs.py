"""The runs of a method over seeds."""

import numpy as np
import pytest

from ceil_jax.pipeline.records import Record
from ceil_jax.report.runs import Runs
from ceil_jax.store.cost import Cost


def record(seed, right, tokens=0):
    statistics = (np.arange(100) < right).astype(float)[:, None]
    return Record(
        name="run-1",
        task="films",
        method="ceil",
        metric="accuracy",
        lm="small-lm",
        config={},
        queries=100,
        bank=60,
        texts="texts-1",
        value=float(right),
        cost=Cost(1.0, tokens),
        seed=seed,
        statistics=statistics,
    )


def test_seeds_are_paired_whatever_their_order_in_the_file():
    # CEIL is ten points above EPR with each seed, and the seeds are far apart
    epr = [record(0, 20), record(1, 50), record(2, 80)]
    ceil = [record(2, 90), record(0, 30), record(1, 60)]
    found = Runs(ceil).minus(Runs(epr))
    assert found.mean == pytest.approx(10)
    assert found.excludes_zero
    assert found == Runs(sorted(ceil, key=lambda record: record.seed)).minus(Runs(epr))


def test_the_cost_is_that_of_the_first_seed_also_if_another_one_stands_before_it():
    runs = Runs([record(1, 50, tokens=7), record(0, 20, tokens=3)])
    assert runs.record.seed == 0
    assert runs.costs()[0] == 3


def test_a_run_without_a_seed_comes_first():
    assert [one.seed for one in Runs([record(1, 50), record(None, 20)]).records] == [None, 1]
