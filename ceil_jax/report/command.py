"""The command `ceil-jax report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("runs"),),
    out: Path | None = None,
    megabytes: float = 20.0,
) -> None:
    """Make one self-contained HTML page of every evaluation that folders of runs hold.

    Args:
        runs: Folders that --out of compare, demo or an experiment named.
        out: The page; report.html in the first of them by default.
        megabytes: What the browser of examples may take at most; it leaves out queries beyond.
    """
    from ceil_jax.report.write import report as write

    print(f"report: {write(runs, out or runs[0] / 'report.html', megabytes)}")
