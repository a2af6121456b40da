"""A run on films with the test LM, end to end: computed once, then found."""

from dataclasses import replace

import pytest
from films import SMALL, TASK

from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import open_run
from ceil_jax.pipeline.plan import plan


def test_a_row_is_computed_once_and_then_found(tmp_path, monkeypatch, moved_for_trained):
    config = replace(SMALL, out=tmp_path)
    run, graph = open_run(config, TASK)
    first = evaluate(run, graph, "ceil")
    assert len(first.rows) == len(TASK.validation) and first.record.preparing.tokens > 0
    monkeypatch.setattr(TinyLM, "choice_log_likelihood", lambda *a, **k: pytest.fail("the LM was asked"))
    run, graph = open_run(config, TASK)
    assert not plan(run, [graph.metric("ceil")]).missing
    assert evaluate(run, graph, "ceil").rows == first.rows


def test_ceil_starts_from_one_encoder_or_keeps_the_second(tmp_path):
    both = replace(SMALL, out=tmp_path, epr=replace(SMALL.epr, train_context="both"))
    with pytest.raises(UserError, match=r"--ceil\.train-context frozen has one encoder"):
        open_run(both, TASK).graph.encoders("ceil")
    released = replace(both, ceil=replace(both.ceil, train_context="released"))
    assert open_run(released, TASK).graph.encoders("ceil").training.name == "ceil"
