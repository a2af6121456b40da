"""What all methods share: the flags that their messages name, and what they need of an LM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ceil_jax.errors import UserError
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.fixed import FixedPrompt
from ceil_jax.methods.fixed_near import FixedNear
from ceil_jax.methods.free import Free
from ceil_jax.methods.second_round import SecondRound
from ceil_jax.methods.tst import TST
from ceil_jax.methods.untrained import Untrained

TWO_NETWORKS = EPR(train_context="both")


@pytest.mark.parametrize(
    ("method", "refused", "flag"),
    [
        (CEIL(size=9, shortlist=9), lambda m: m.candidate_sampler(6), "--ceil.size 9: "),
        (CEIL(size=9, shortlist=9), lambda m: m.candidate_sampler(6), "raise --ceil.shortlist"),
        (
            SecondRound(),
            lambda m: m.candidate_sampler(1),
            "--second-round.shortlist 50: a bank of 1 example",
        ),
        (SecondRound(), lambda m: replace(m, epochs=0), "--second-round.epochs 0: expected"),
        (
            SecondRound(loss_options=("reduction=sum",)),
            lambda m: m.check(),
            "--second-round.loss-options reduction=sum: expected one of",
        ),
        (
            EPR(loss="pairwise", loss_options=("reduction=sum",)),
            lambda m: m.check(),
            "--epr.loss-options reduction=sum: expected one of",
        ),
        (
            SecondRound(start=TWO_NETWORKS),
            lambda m: m.check(),
            "--epr.train-context both: --second-round.train-context frozen has one encoder for "
            "queries and examples; give both or released, or --second-round.start base",
        ),
        (
            CEIL(start=SecondRound(train_context="released")),
            lambda m: m.check(),
            "--second-round.train-context released: --ceil.train-context frozen",
        ),
        (SecondRound(), lambda m: m.configured({"epr": EPR(start=m)}), "--epr.start second_round"),
        (
            CEIL(start=SecondRound()),
            lambda m: m.configured({"second_round": SecondRound(start=m)}),
            "--second-round.start ceil: a training cannot start from itself",
        ),
        (
            SecondRound(start=FixedNear()),
            lambda m: m.configured({}),
            "--second-round.start fixed_near: it finds examples, and has no encoder",
        ),
    ],
)
def test_messages_name_the_flags_of_the_method(method, refused, flag):
    with pytest.raises(UserError) as refusal:
        refused(method)
    assert flag in str(refusal.value)


@pytest.mark.parametrize(
    ("method", "scored", "learns", "log_probs"),
    [
        (Untrained(), False, False, False),
        (Free(), False, False, False),
        (TST(), False, False, False),
        (TST(start=EPR()), False, True, True),
        (EPR(), True, True, True),
        (CEIL(start=Free()), True, True, True),
        (SecondRound(), True, True, True),
        (FixedPrompt(), True, True, False),
        (FixedNear(), True, True, False),
        (FixedNear(start=EPR()), True, True, True),
    ],
)
def test_what_a_method_needs_of_an_lm(method, scored, learns, log_probs):
    """The table at the head of `methods.base`."""
    assert method.scored_by_lm is scored
    assert method.learns_from_lm is learns
    assert method.needs_log_probs is log_probs
