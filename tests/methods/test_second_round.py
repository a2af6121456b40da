"""A second round of training on single examples."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from ceil_jax.errors import UserError
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import ROWS
from ceil_jax.methods.second_round import SecondRound
from ceil_jax.pipeline.config import RunConfig


def test_it_is_ceil_on_single_examples_after_epr():
    method = SecondRound()

    assert method.set_size == 1
    assert isinstance(method.start, EPR)
    assert method.candidate_sampler(100).size == 1


def test_the_size_of_its_sets_is_no_setting():
    assert "size" not in {field.name for field in fields(SecondRound)}
    with pytest.raises(UserError, match="second_round"):
        RunConfig().with_method(SecondRound, size=3)


def test_it_starts_from_epr_as_the_run_has_it():
    config = RunConfig().with_method(EPR, epochs=9).with_method(CEIL, epochs=7)

    method = config.method(SecondRound)

    assert method.start == replace(EPR(), epochs=9)
    assert method.epochs != 7


def test_its_row_takes_the_nearest_and_is_compared_with_the_first_round():
    row = ROWS["second_round"]

    assert row.needs.trade_off is None
    assert row.against == ("epr", "free", "topk")
