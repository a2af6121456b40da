"""A method of a run as a selector's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.pipeline.run import Pipeline
from ceil_jax.selector.manifest import MANIFEST


def export(pipeline: Pipeline, method: str, folder: Path, license: str = "") -> str:
    """Write `pipeline.selector(method)` into the folder; what to tell the user.

    Raises:
        UserError: the folder holds something else, or `method` does not end in DPP-MAP. Both are said before
            anything is trained.
    """
    if (
        folder.exists()
        and (not folder.is_dir() or any(folder.iterdir()))
        and not (folder / MANIFEST).exists()
    ):
        raise UserError(f"{folder} is there already and is no selector; choose another folder")
    selector = pipeline.selector(method)
    selector.card = replace(selector.card, license=license)
    selector.save_pretrained(folder)
    measured = ", ".join(f"{name} {value:.1f}" for name, value in selector.card.metrics.items())
    return (
        f"{folder}: {selector.card.title}, {len(selector):,} examples; "
        + (measured or "not evaluated: `ceil-jax compare` with the same flags measures it")
        + f'\nin Python: CeilSelector.from_pretrained("{folder}").select("a query", k={pipeline.config.shots})'
    )
