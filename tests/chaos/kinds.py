"""Every kind of attack: its name, its share of the time, and what tries one case.

A module that fuzzes something else has a function `kinds(folder, closing)` that returns the same, and a line in
`OTHERS`. Nothing heavy is started before its kind's first turn.
"""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import ExitStack
from pathlib import Path

from chaos.readers import FILES, Readers
from chaos.runs import Runs
from chaos.saves import Saves
from chaos.selector_folders import SelectorFolders
from chaos.tally import Case
from chaos.training import Trainings

OTHERS = ("server", "endpoint")
"""Modules of this folder that may be missing."""

SECONDS = 600.0
"""A run or a save that takes longer hangs."""

READ, SELECTOR, RUN = 0.1, 0.3, 1.0
"""Shares of the time: a run takes a thousand times as long as a read."""

Kinds = dict[str, tuple[float, Case]]


def all_kinds(folder: Path, closing: ExitStack) -> Kinds:
    """Return all kinds whose modules and packages are here.

    Args:
        folder: an empty folder for everything that is written.
        closing: closes what was started.
    """
    runs, saves = Runs(folder, SECONDS), Saves(folder, SECONDS)
    closing.callback(runs.close)
    closing.callback(saves.close)
    selectors, readers = SelectorFolders(folder), Readers(folder)
    found: Kinds = {}
    for command in ("compare", "score", "export"):
        found[f"kill {command}"] = RUN, lambda draw, c=command: runs.killed(c, draw)
        found[f"damage {command}"] = RUN, lambda draw, c=command: runs.damaged(c, draw)
    found["kill report"] = SELECTOR, runs.killed_report
    found["damage scratch"] = RUN, Trainings(runs).damaged
    if importlib.util.find_spec("ray"):
        found["kill ray"] = RUN, runs.killed_with_ray
    found["kill save"] = SELECTOR, saves.killed
    found["damage selector"] = SELECTOR, selectors.damaged
    found["flip selector"] = SELECTOR, selectors.flipped
    found["selector machine"] = SELECTOR, _machine
    found["selector threads"] = SELECTOR, lambda draw: _threads(folder, draw)
    for kind in FILES:
        found[f"read {kind}"] = READ, lambda draw, k=kind: readers.file(k, draw)
    found["read encoder"] = READ, readers.encoder
    for name in OTHERS:
        if importlib.util.find_spec(f"chaos.{name}"):
            found |= importlib.import_module(f"chaos.{name}").kinds(folder, closing)
    return found


def _machine(draw):
    from chaos.machine import run_machine

    return run_machine(draw)


def _threads(folder, draw):
    from chaos.threads import run_threads

    return run_threads(folder, draw)
