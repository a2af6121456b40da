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
from typing import Literal, NamedTuple

from ceil_jax.report.table import Table
from ceil_jax.tasks.assets import ASSETS, cache_path

PROBES = {
    "jax": "import jax; print(json.dumps([str(d) for d in jax.devices()]))",
    "torch": "import torch; n = torch.cuda.device_count(); "
    "print(json.dumps([torch.cuda.get_device_name(i) for i in range(n)] or ['cpu']))",
}
"""Run in separate processes, so that a plugin that crashes or hangs ends only its probe."""

PROBE_SECONDS = 60

State = Literal["ok", "missing", "broken"]

PACKAGES: dict[str, tuple[State, str]] = {
    **dict.fromkeys(
        ("jax", "flax", "transformers", "datasets"), ("broken", "install it again: pip install ceil-jax")
    ),
    "torch": ("missing", "for language models: pip install 'ceil-jax[lm]'"),
}
"""The state and the next step where a package is not installed."""


class Finding(NamedTuple):
    """One row of the table."""

    what: str
    found: str
    state: State = "ok"
    """missing: optional and not installed; broken: something does not work."""
    next: str = ""
    """The next step for the user."""


def examine(runs: Path) -> list[Finding]:
    """Return all findings. Nothing is downloaded or written.

    Args:
        runs: the folder of runs.
    """
    return [*_versions(), *_extras(), *_cache(), _runs(runs)]


def page(findings: list[Finding]) -> str:
    """Return the findings as a table, and what to do about those that are not as they should be."""
    marks = {"ok": " ", "missing": "-", "broken": "!"}
    parts = [Table(["  what", "found"], [[f"{marks[f.state]} {f.what}", f.found] for f in findings]).text()]
    if any(one.state == "missing" for one in findings):
        parts.append(
            "- is not installed and needed only for some uses; pip install 'ceil-jax[NAME]' adds an extra"
        )
    todo = [
        f"  {f.what.strip()}: {f.next}" for f in sorted(findings, key=lambda f: f.state != "broken") if f.next
    ]
    parts.append("\n".join(["what to do next:", *todo]) if todo else "nothing to do")
    return "\n\n".join(parts)


def _versions() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("ceil-jax", _version("ceil-jax") or "run from its source")
    for name, (state, remedy) in PACKAGES.items():
        if version := _version(name):
            yield Finding(name, version)
            if name in PROBES:
                yield _devices(name)
        else:
            yield Finding(name, "not installed", state, remedy)


def _devices(name: str) -> Finding:
    what, probe = f"{name} devices", [sys.executable, "-c", f"import json; {PROBES[name]}"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Finding(
            what, f"no answer in {PROBE_SECONDS} s", "broken", "look at `nvidia-smi`: the driver may hang"
        )
    said = done.stderr.strip().splitlines()
    if done.returncode != 0:
        last = said[-1] if said else f"exit code {done.returncode}"
        return Finding(what, f"asking for them failed: {last[:200]}", "broken", f"install {name} again")
    devices = ", ".join(json.loads(done.stdout.splitlines()[-1]))
    if name == "jax" and re.search("cuda.*error|error.*cuda", done.stderr, re.IGNORECASE):
        remedy = "its CUDA plugin does not start: match the extra, cuda or cuda12, to the driver"
        return Finding(what, devices, "broken", remedy)
    return Finding(what, devices)


def _extras() -> Iterator[Finding]:
    """Yield a finding for each extra of the installed package, except those that only bundle other extras."""
    wanted: dict[str, list[str]] = {}
    for requirement in _requirements():
        named = re.match(r"([\w.-]+)(?:\[(cuda\d+)\])?.*\bextra == ['\"]([\w-]+)['\"]", requirement)
        if named and named[3] != "dev":
            # jax[cuda13] is there if its plugin is
            name = f"{named[1]}-{named[2]}-plugin" if named[2] else named[1]
            wanted.setdefault(named[3], []).append(name)
    for bundle, names in wanted.items():
        absent = [name for name in names if not _version(name)]
        if "ceil-jax" not in names:
            found = f"without {', '.join(absent)}" if absent else "installed"
            yield Finding(f"extra {bundle}", found, "missing" if absent else "ok")


def _requirements() -> list[str]:
    try:
        return metadata.requires("ceil-jax") or []
    except metadata.PackageNotFoundError:
        return []


def _cache() -> Iterator[Finding]:
    folder = cache_path()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        remedy = "set CEIL_JAX_CACHE to a folder you can write to"
        yield Finding("cache", f"{folder} cannot be written", "broken", remedy)
        return
    yield Finding("cache", f"{folder}, {_mb(folder)}; deleting it is safe")
    for name, asset in ASSETS.items():
        if (folder / "packages" / name).is_dir():
            yield Finding(f"  {name}", f"{_mb(folder / 'packages' / name)}, {asset.licence}")
        else:
            yield Finding(f"  {name}", f"not downloaded; the first use does it ({asset.licence})", "missing")


def _runs(folder: Path) -> Finding:
    what = f"runs in {folder}"
    if not folder.is_dir():
        start = (
            "start with `ceil-jax demo`, or `ceil-jax compare` on your own file; --out names another folder"
        )
        return Finding(what, "none yet", "missing", start)
    stages = len(list(folder.glob("*/key.json")))
    unfinished = stages - len(list(folder.glob("*/done.json")))
    reports = sorted(folder.glob("report-*/report.html"), key=lambda page: page.stat().st_mtime)
    found = f"{stages} stages, {unfinished} unfinished, {len(reports)} reports, {_mb(folder)}"
    if unfinished:
        return Finding(what, found, "ok", "the interrupted command continues where it stopped")
    return Finding(what, found, "ok", f"open {reports[-1]}" if reports else "")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _mb(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:,.1f} MB"
