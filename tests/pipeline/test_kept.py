"""Whether training kept its starting weights, and how that is said."""

from types import SimpleNamespace

import pytest

from ceil_jax.pipeline.trained import Trainer
from ceil_jax.training.loop import Ending


def ending(kept):
    return Ending(kept, {"start": 0.5, "best": 0.5, "average": 0.4})


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
    trainer = SimpleNamespace(config=config, ending=lambda source: ending("start"))
    assert Trainer.kept(trainer, source) == said
    trainer.ending = lambda source: ending("average")
    assert Trainer.kept(trainer, source) == ""
