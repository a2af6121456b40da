"""The part of a configuration that is in the key of a stage: the fields that differ from a frozen baseline.

A new option is left out of keys while it has its default, so that it orphans no training on disk. The baseline holds
the defaults of the day on which this layout began and is never edited: if a default is changed later, the new value
differs from the baseline and is part of the key. A field that is newer than the baseline is compared with its own
default; whoever changes the default of such a field adds its old value to the baseline.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

LAYOUT = 2
"""The version of training keys. Version 1 held every field of a configuration."""


def differing(
    config: Any, baseline: Mapping[str, Mapping[str, Any]], *, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the fields of a configuration that differ from the baseline, for a stage's key.

    Args:
        config: a dataclass; fields that hold dataclasses are compared field by field.
        baseline: the class's name → the value that each of its fields had when the layout of the keys began.
        without: fields that the stage does not depend on.
    """
    began = baseline.get(type(config).__name__, {})
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in without:
            continue
        if dataclasses.is_dataclass(value):
            inner = differing(value, baseline)
            if inner:
                found[field.name] = {"kind": type(value).__name__, **inner}
        elif value != began.get(field.name, _default(field)):
            found[field.name] = value
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@functools.cache
def warn_of_older_stages(root: Path, kind: str) -> None:
    """Log one line if a folder of stages has trained encoders whose keys are of an older layout.

    Args:
        root: the folder of stages.
        kind: tst, epr or ceil.
    """
    older = [file.parent.name for file in sorted(root.glob(f"{kind}-*/key.json")) if _layout(file) < LAYOUT]
    if older:
        log.warning(
            "%s: %d trained %s (%s) of an older layout, in which keys held every setting, cannot be found by today's "
            "keys and will be trained again; delete them, or use the version of ceil_jax that made them",
            root,
            len(older),
            "encoder" if len(older) == 1 else "encoders",
            ", ".join(older[:3]) + ", …" * (len(older) > 3),
        )


def _layout(file: Path) -> int:
    """The version of a key; of a file that cannot be read today's, because it is damaged and not old."""
    try:
        return int(json.loads(file.read_text("utf-8")).get("layout", 1))
    except (OSError, ValueError, AttributeError, TypeError):
        return LAYOUT
