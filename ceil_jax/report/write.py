"""Writes the two kinds of page: of a comparison that just ran, and of folders of finished runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.pipeline.graph import Graph
from ceil_jax.pipeline.records import Record, read_records
from ceil_jax.pipeline.stage import Run
from ceil_jax.report.closeup import closeup
from ceil_jax.report.compare import Comparison
from ceil_jax.report.page import Figure, render
from ceil_jax.report.run_tables import tables
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import write
from ceil_jax.store.locking import held

log = logging.getLogger(__name__)

MEGABYTES = 20.0
"""Default size limit of the browser's data, in MB."""
_FIGURES = 24
"""Maximum number of pictures on a page."""


class Files(NamedTuple):
    """The files that `write_report` wrote."""

    page: Path
    figure: Path


def write_report(folder: Path, run: Run, graph: Graph, comparison: Comparison) -> Files:
    """Write `report.html`, self-contained, and `report.png`, `results.csv` and `results.md` beside it.

    Args:
        folder: where to write.
        run: has evaluated the methods.
        graph: the task and the settings.
        comparison: the scores.
    """
    pictures = closeup(run, graph, comparison)
    page = render(
        f"{comparison.task}: choosing in-context examples",
        tables([row.record for row in comparison.rows]),
        figures=pictures.parts,
        costs=comparison.costs,
        notes=[comparison.note],
        megabytes=MEGABYTES,
    )
    with held(folder):
        write(folder / "report.png", pictures.whole)
        write(folder / "results.csv", comparison.csv().encode())
        write(folder / "results.md", comparison.markdown().encode())
        write(folder / "report.html", page.encode())
    return Files(folder / "report.html", folder / "report.png")


def report(roots: Sequence[Path], out: Path, megabytes: float = MEGABYTES) -> Path:
    """Write one page of every finished evaluation in the folders, with the pictures beside their stages.

    Evaluations that cannot be shown are named on the page and in the log.

    Args:
        roots: folders of stages, or folders that contain such folders.
        out: the page to write.
        megabytes: size limit of the browser's data, in MB.

    Returns:
        `out`.

    Raises:
        UserError: no such folder, no finished evaluation in any, or the page cannot be written.
    """
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name the page, such as {out / 'report.html'}")
    stores = dict.fromkeys(store for root in roots for store in _stores(root))
    found = [read_records(store) for store in stores]
    records = [record for some, _ in found for record in some]
    trouble = [line for _, lines in found for line in lines]
    if not records:
        none = f"{roots[0]}: no runs here; ceil-jax compare --out {roots[0]} makes one"
        raise UserError([*trouble, none][0])
    for line in trouble:
        log.warning("%s", line)
    figures = [figure for store in stores for figure in _figures(store)]
    page = render(
        "Choosing in-context examples: runs in " + ", ".join(root.name or str(root) for root in roots),
        tables(records),
        figures=figures[:_FIGURES],
        costs=_costs(records),
        notes=trouble,
        megabytes=megabytes,
    )
    write(out, page.encode())
    return out


def _stores(root: Path) -> list[Path]:
    """Return the folders of stages in a folder: itself, or those directly in it.

    Raises:
        UserError: there is no such folder.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; give the folder that --out of a run named")
    if any(root.glob("*/key.json")):
        return [root]
    return sorted({key.parent.parent for key in root.glob("*/*/key.json")}) or [root]


def _figures(store: Path) -> list[Figure]:
    """Return the pictures that comparisons and experiments left beside the stages."""
    files = [file for file in sorted(store.glob("*/*.png")) if not (file.parent / "key.json").exists()]
    # two comparisons of the same runs draw the same picture
    pictures = {file.read_bytes(): f"{file.parent.name}/{file.name}" for file in reversed(files)}
    return [Figure(caption, png) for png, caption in reversed(pictures.items())]


def _costs(records: Sequence[Record]) -> dict[str, Cost]:
    return {
        f"{record.task}, {record.method} ({record.name}): {what}": cost
        for record in records
        for what, cost in (("preparing", record.preparing), ("answering", record.answering))
    }
