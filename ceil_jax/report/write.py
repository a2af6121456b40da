"""The writing of one HTML page for the finished runs in some folders."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.pipeline.records import read_records
from ceil_jax.report.page import render
from ceil_jax.report.run_tables import tables
from ceil_jax.store.locking import write

log = logging.getLogger(__name__)


def write_page(roots: Sequence[Path], out: Path) -> Path:
    """Write one page of every finished evaluation in some folders, and return `out`.

    A folder has stages, or contains such folders.

    The page and the log name the evaluations that cannot be shown.

    Raises:
        UserError: there is no finished evaluation, a folder is missing, or the page cannot be
            written.
    """
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name the page, such as {out / 'report.html'}")
    stores = dict.fromkeys(store for root in roots for store in _stores(root))
    contents = [read_records(store) for store in stores]
    records = [record for records_of_store, _ in contents for record in records_of_store]
    trouble = [line for _, lines in contents for line in lines]
    if not records:
        if trouble:
            raise UserError(trouble[0])
        raise UserError(f"{roots[0]}: no runs here; ceil-jax compare --out {roots[0]} makes one")
    for line in trouble:
        log.warning("%s", line)
    title = "Choosing in-context examples: runs in " + ", ".join(
        root.name or str(root) for root in roots
    )
    page = render(title, tables(records), notes=trouble)
    write(out, page.encode())
    return out


def _stores(root: Path) -> list[Path]:
    """Return the folders of stages that a folder names: itself, or those directly in it."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; give the folder that --out of a run named")
    if any(root.glob("*/key.json")):
        return [root]
    return sorted({key.parent.parent for key in root.glob("*/*/key.json")}) or [root]
