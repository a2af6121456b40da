"""A loss for CEIL from outside the package."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from films import SMALL, TASK, metric_of, networks_of

from ceil_jax import SetScores, UserError, info_nce_loss, pairwise_margin_loss, register_loss
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline.setup import open_run
from ceil_jax.training.losses import ceil_loss


def listnet(scores: SetScores, temperature: float = 1.0, normalised: bool = False) -> jax.Array:
    """Cross-entropy between softmax(LM scores / temperature) and softmax(log P) (ListNet)."""
    target = jax.nn.softmax(scores.lm_scores / temperature, where=scores.mask)
    logits = jnp.where(scores.mask, scores.log_probs, -jnp.inf)
    loss = jax.nn.logsumexp(logits) - jnp.sum(target * scores.log_probs, where=scores.mask)
    return loss / scores.mask.sum() if normalised else loss


register_loss("listnet", listnet)

SCORES = SetScores(
    jnp.array([0.0, 2.0, 1.0]), jnp.array([-1.0, -3.0, -2.0]), jnp.array([True, True, True])
)


def test_a_loss_from_outside_trains_ceil(tmp_path):
    config = replace(SMALL, out=tmp_path).with_method(CEIL, start=Untrained(), learning_rate=3e-3)
    losses = {}
    for name, options in (("listnet", ()), ("listnet", ("temperature=0.1",))):
        with_loss = config.with_method(CEIL, loss=name, loss_options=options)
        run, setup = open_run(with_loss, TASK)
        run.get(networks_of(setup, CEIL))
        history = run.notes(networks_of(setup, CEIL))["history"]
        losses[name, options] = [row["loss"] for row in history if "loss" in row]
    assert all(len(rows) > 2 for rows in losses.values())
    assert len({tuple(rows) for rows in losses.values()}) == 2


def test_options_are_read_by_the_types_of_their_fields():
    target = jax.nn.softmax(SCORES.lm_scores / 0.5)
    expected = jax.nn.logsumexp(SCORES.log_probs) - target @ SCORES.log_probs
    found = ceil_loss("listnet", ("temperature=0.5", "normalised=true"))(SCORES)
    assert found == pytest.approx(float(expected) / 3, rel=1e-6)


def test_the_packages_own_losses_are_registered_like_any_other():
    assert ceil_loss("pairwise")(SCORES) == pairwise_margin_loss(SCORES)
    assert ceil_loss("info_nce")(SCORES) == info_nce_loss(SCORES)
    gap_mean = pairwise_margin_loss(SCORES, reduction="gap_mean")
    named = ceil_loss("pairwise", ["reduction=gap_mean"])(SCORES)
    assert named == gap_mean != pairwise_margin_loss(SCORES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("pairwise", ("reduktion=x",)),
            "unknown option of loss pairwise 'reduktion'; did you mean 'reduction'",
        ),
        (
            ("listnet", ("temperature=warm",)),
            "--ceil.loss-options temperature=warm: expected float",
        ),
        (
            ("listnet", ("normalised=yes",)),
            "--ceil.loss-options normalised=yes: expected one of true, false",
        ),
        (("pairwise", ("reduction=sum",)), "reduction=sum: expected one of pairs, gap_mean"),
    ],
)
def test_unknown_names_and_values_say_what_is_known(arguments, message):
    with pytest.raises(UserError, match=message):
        ceil_loss(*arguments)


def test_a_misspelt_loss_costs_no_lm_tokens(tmp_path):
    config = replace(SMALL, out=tmp_path).with_method(CEIL, loss="pairwize")
    _, setup = open_run(config, TASK)
    with pytest.raises(UserError, match="did you mean 'pairwise'"):
        metric_of(setup, "ceil")
    assert not [*tmp_path.glob("scores-*")]


def test_a_loss_gives_one_number():
    register_loss("each", lambda scores: scores.log_probs)
    with pytest.raises(
        UserError, match=r"loss 'each' returned .*; expected one number for the sets of a query"
    ):
        ceil_loss("each")(SCORES)
