"""Parameters by name, and the check that two sets of them match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ceil_jax.errors import UserError

Params = Mapping[str, jax.Array]
"""Arrays in float32 by dotted path, such as `layers.0.attention.query.kernel`."""

ParamsLike = Mapping[str, jax.Array | np.ndarray]
"""The same, possibly in the host's memory, where training keeps its best parameters."""


def check_same_shapes(expected: Mapping[str, Any], found: Mapping[str, Any], where: str) -> None:
    """Check that two sets of arrays have the same names and shapes.

    Args:
        expected: arrays, or anything else with a `shape`, by name.
        found: the same for the set that is checked.
        where: the folder or object that `found` comes from, for the error.

    Raises:
        UserError: names or shapes differ; up to three names are listed for each kind of difference.
    """
    missing = [name for name in expected if name not in found]
    unexpected = [name for name in found if name not in expected]
    shapes = [
        f"{name} {tuple(found[name].shape)} where {tuple(expected[name].shape)} was expected"
        for name in expected
        if name in found and tuple(found[name].shape) != tuple(expected[name].shape)
    ]
    differences = [
        f"{kind} {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("shape of", shapes))
        if names
    ]
    if differences:
        raise UserError(f"{where}: a checkpoint of another architecture: {'; '.join(differences)}")
