"""A pool of actors, one of them killed at work: the same rows, each once."""

import itertools
import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.lm.prompts import PromptBuilder
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.ray_scoring import ScoringJob, actor_pool
from ceil_jax.training.samplers import uniform_sets
from ceil_jax.training.scoring import score_sets

WORDS = ("bad", "good")
BANK = [Example(f"train-{i}", f"film {i % 7} was number{i}", WORDS[i % 2], WORDS) for i in range(30)]
QUERIES = BANK[:16]
TEMPLATE = Template("{input} It is {output}")
SUBSETS = 80  # two queries a chunk: eight chunks


def proposal() -> CandidateSets:
    shortlist = [[(i + j) % len(BANK) for j in range(1, 9)] for i in range(len(QUERIES))]
    return uniform_sets(QUERIES, np.array(shortlist, np.int32), SUBSETS, 3, seed=0)


class Mortal(TinyLM):
    """Its process is killed at the second chunk; one is born after that lives."""

    def __init__(self, killed):
        super().__init__()
        self.killed, self.calls = killed, 0

    def choice_log_likelihood(self, prompts, choices, **how):
        self.calls += 1
        if self.calls == 2 and not self.killed.exists():
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().choice_log_likelihood(prompts, choices, **how)


def scored(folder, engine=None):
    """All rows, and the lines of the journal."""
    lm = TinyLM()
    builder = PromptBuilder(lm, TEMPLATE, reserve=8)
    with Store(folder).stage("scores", {}) as stage:
        options = {"fit": "greedy", "what": "scoring", "engine": engine}
        rows = score_sets(stage, QUERIES, BANK, proposal(), lm, builder, **options)
        return list(rows), (stage.folder / "rows.jsonl").read_bytes().splitlines()


@pytest.mark.filterwarnings("ignore")  # ray's own
def test_a_killed_actor_and_a_killed_run_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{Path(__file__).parents[1]}")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    import ray

    killed = tmp_path / "killed"
    scorer = ScoringJob(
        partial(Mortal, killed), TinyLM.name, QUERIES, BANK, proposal(), TEMPLATE, 8, (), "greedy"
    )
    pool = actor_pool(scorer, actors=2)
    asked = []

    def stops(spans):
        asked.append(len(spans))
        yield from itertools.islice(pool(spans), 5)
        raise KeyboardInterrupt

    def goes_on(spans):
        asked.append(len(spans))
        return pool(spans)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with pytest.raises(KeyboardInterrupt):
            scored(tmp_path / "pool", stops)
        assert killed.exists()
        rows, lines = scored(tmp_path / "pool", goes_on)
        with pytest.raises(UserError, match="--actors 3: the cluster has 2 CPUs"):
            list(actor_pool(scorer, actors=3)([(0, 2)] * 3))
    finally:
        ray.shutdown()
    assert asked == [8, 8 - 5]
    assert len(lines) == 8
    assert rows == scored(tmp_path / "here")[0]


def test_at_least_one_actor():
    with pytest.raises(UserError, match="--actors 0: expected at least 1"):
        actor_pool(None, actors=0)
