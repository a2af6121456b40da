"""Whether training kept its starting weights, and how that is said."""

from types import SimpleNamespace

import pytest

from ceil_jax.pipeline.trained import Trainer, kept_start
from ceil_jax.training.loop import QUALITY


def history(*qualities):
    return [{QUALITY: quality} for quality in qualities]


@pytest.mark.parametrize(
    ("qualities", "kept"),
    [((0.5, 0.4, 0.5), True), ((0.5, 0.4, 0.6), False), ((0.5,), False), ((), False)],
)
def test_the_start_is_kept_unless_a_step_is_better(qualities, kept):
    assert kept_start(history(*qualities)) is kept


@pytest.mark.parametrize(
    ("source", "initial", "said"),
    [
        ("ceil", "epr", "training kept EPR's encoder"),
        ("ceil", "base", "training kept the untrained encoder"),
        ("epr", "tst", "training kept the untrained encoder"),
        ("base", "epr", ""),
    ],
)
def test_the_remark_names_the_start(source, initial, said):
    config = SimpleNamespace(ceil=SimpleNamespace(initial=initial))
    trainer = SimpleNamespace(config=config, history=lambda source: history(0.5, 0.4))
    assert Trainer.kept(trainer, source) == said
    trainer.history = lambda source: history(0.4, 0.5)
    assert Trainer.kept(trainer, source) == ""
