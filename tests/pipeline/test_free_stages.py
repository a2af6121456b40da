"""What the bank's outputs teach, as stages."""

import logging
from dataclasses import replace

import pytest
from films import SMALL, TASK

from ceil_jax.methods.free import Free, Labels
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.encoders import CrossFitting
from ceil_jax.pipeline.setup import open_run
from ceil_jax.store import progress


@pytest.fixture
def said(monkeypatch, caplog):
    """Returns the shares that a log, which is never too early for a line, has of some work."""
    monkeypatch.setattr(progress, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    monkeypatch.setattr(progress, "_BEAT", 60.0)
    caplog.set_level(logging.INFO, "ceil_jax.store.progress")

    def shares(work):
        lines = [line for line in caplog.messages if line.startswith(f"{work}, ")]
        return [line.removeprefix(f"{work}, ") for line in lines]

    return shares


def test_learning_from_outputs_says_how_far_it_is(said, tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), TASK)
    run.get(row_stages.encoders(setup, Free()).head)
    # the untrained encoder and the head are fitted to be judged, and what is taken on all rows
    assert said("training free") == ["33%", "67%", "100%"]
    head = row_stages.encoders(setup, Labels()).head
    run.get(head)
    assert said("training label head") == ["100%"]
    run.get(CrossFitting(head))
    assert said("cross-fitting label head") == ["20%", "40%", "60%", "80%", "100%"]
