"""A bank whose labels cosines do not see."""

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.training.free.rows import Observations


def planted(count, seed, label_at=0.3):
    """Vectors of eight large directions that say nothing, and one small one that is the label."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, 9))
    y = generator.integers(2, size=count)
    vectors[:, 0] = label_at * (2 * y - 1)
    return Observations(
        [f"text {i}" for i in range(count)],
        unit_rows(vectors).astype(np.float32),
        outputs=[("bad", "good")[label] for label in y],
    )
