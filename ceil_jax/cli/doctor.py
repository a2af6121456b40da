"""Checks of this machine: what is installed, detected and cached, and what to do next."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ceil_jax.cli.first import EXTRAS
from ceil_jax.report.table import Table
from ceil_jax.tasks.assets import ASSETS, cache_path

PROBES = {
    "jax": "import jax; print(json.dumps([str(d) for d in jax.devices()]))",
    "torch": "import torch; n = torch.cuda.device_count(); "
    "print(json.dumps([torch.cuda.get_device_name(i) for i in range(n)] or ['cpu']))",
}
"""Run in separate processes, so that a plugin that crashes or hangs ends only its probe."""

PROBE_SECONDS = 60


class Finding(NamedTuple):
    """One row of the table."""

    what: str
    found: str
    next: str = ""
    """The next step for the user."""
    broken: bool = False
    """Whether it has to be mended."""


def examine(runs: Path) -> list[Finding]:
    """Return all findings, with those of a folder of runs. Nothing is downloaded or written."""
    return [*_packages(), *_cache(), _runs(runs)]


def findings_text(findings: list[Finding]) -> str:
    """Return the findings as a table, and what to do next."""
    table = Table(["  what", "found"], [[f"{'!' if f.broken else ' '} {f.what}", f.found] for f in findings])
    first = sorted(findings, key=lambda finding: not finding.broken)
    todo = [f"  {finding.what.strip()}: {finding.next}" for finding in first if finding.next]
    return "\n".join([table.text(), "", "what to do next:" if todo else "nothing to do", *todo])


def _packages() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("ceil-jax", _version("ceil-jax") or "run from its source")
    for name in ("jax", "flax", "transformers", "datasets", *EXTRAS):
        if version := _version(name) or _version(f"{name}-cpu"):
            yield Finding(name, version)
            if name in PROBES:
                yield _devices(name)
        elif name in EXTRAS:
            yield Finding(name, f"not installed; pip install 'ceil-jax[{EXTRAS[name]}]' if you need it")
        else:
            yield Finding(name, "not installed", "install it again: pip install ceil-jax", broken=True)


def _devices(name: str) -> Finding:
    what, probe = f"{name} devices", [sys.executable, "-c", f"import json; {PROBES[name]}"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Finding(
            what, f"no answer in {PROBE_SECONDS} s", "look at `nvidia-smi`: the driver may hang", broken=True
        )
    if done.returncode != 0:
        said = [f"exit code {done.returncode}", *done.stderr.strip().splitlines()][-1]
        return Finding(what, f"asking for them failed: {said[:200]}", f"install {name} again", broken=True)
    devices = ", ".join(json.loads(done.stdout.splitlines()[-1]))
    if name == "jax" and re.search("cuda.*error|error.*cuda", done.stderr, re.IGNORECASE):
        remedy = "its CUDA plugin does not start: match the extra, cuda or cuda12, to the driver"
        return Finding(what, devices, remedy, broken=True)
    return Finding(what, devices)


def _cache() -> Iterator[Finding]:
    folder = cache_path()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        remedy = "set CEIL_JAX_CACHE to a folder you can write to"
        yield Finding("cache", f"{folder} cannot be written", remedy, broken=True)
        return
    yield Finding("cache", f"{folder}, {_mb(folder)}; deleting it is safe")
    for name, asset in ASSETS.items():
        package = folder / "packages" / name
        here = _mb(package) if package.is_dir() else "not downloaded; the first use does it"
        yield Finding(f"  {name}", f"{here} ({asset.licence})")


def _runs(folder: Path) -> Finding:
    what = f"runs in {folder}"
    if not folder.is_dir():
        return Finding(what, "none yet", "start with `ceil-jax demo`, or `ceil-jax compare` on your own file")
    stages = len(list(folder.glob("*/key.json")))
    unfinished = stages - len(list(folder.glob("*/done.json")))
    reports = sorted(folder.glob("report-*/report.html"), key=lambda page: page.stat().st_mtime)
    found = f"{stages} stages, {unfinished} unfinished, {len(reports)} reports, {_mb(folder)}"
    if unfinished:
        return Finding(what, found, "the interrupted command continues where it stopped")
    return Finding(what, found, f"open {reports[-1]}" if reports else "")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _mb(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:,.1f} MB"
