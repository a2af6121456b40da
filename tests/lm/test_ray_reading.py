"""Prompts read by actors are those that one process reads."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.ray_reading import Actor, actor_pool
from ceil_jax.lm.readings import Readings


def test_an_actor_with_another_lm_is_refused():
    with pytest.raises(
        UserError, match=r"the LM is tiny on .* and tiny@float32 where the run was started"
    ):
        Actor(TinyLM, "tiny@float32")


def test_no_actors():
    with pytest.raises(UserError, match="--actors 0: expected at least 1"):
        actor_pool(TinyLM, "tiny", 0)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:os.fork"
)  # jax warns of threads in the processes that ray forks
def test_a_pool_reads_as_one_process(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("ceil_jax.lm.base.LanguageModel.at_once", {"score": 4})
    prompts = [f"film {i % 7} was number{i}" for i in range(10)]
    choices = [(" bad", " good fun")] * 10
    lm = TinyLM()
    read = CachedLM(lm, Readings(tmp_path), actor_pool(TinyLM, "tiny", 1))
    with read.metered() as meter:
        found = read.choice_log_likelihood(prompts, choices)
    assert lm.tokens_read == 0
    assert meter.requests == 10
    with pytest.raises(
        UserError, match=r"--actors 99: the cluster has .* CPUs; an actor takes one"
    ):
        actor_pool(TinyLM, "tiny", 99)(10).__enter__()
    assert np.array_equal(found, TinyLM().choice_log_likelihood(prompts, choices))
