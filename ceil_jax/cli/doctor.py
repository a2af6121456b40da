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

from ceil_jax.errors import UserError
from ceil_jax.report.table import Table
from ceil_jax.tasks.assets import ASSETS, cache_path

PROBES = {
    "jax": "import jax; print(json.dumps([str(d) for d in jax.devices()]))",
    "torch": "import torch; n = torch.cuda.device_count(); "
    "print(json.dumps([torch.cuda.get_device_name(i) for i in range(n)] or ['cpu']))",
}
"""Run in separate processes, both at once, so that a plugin that crashes ends only its probe."""

PROBE_SECONDS = 60


State = Literal["ok", "missing", "broken"]


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
    probes = {
        name: subprocess.Popen(
            [sys.executable, "-c", f"import json; {code}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, code in PROBES.items()
        if _version(name)
    }
    findings = [*_versions(), *_extras(), *_cache(), _runs(runs)]
    findings[len(PACKAGES) + 1 : len(PACKAGES) + 1] = [
        _devices(name, probe) for name, probe in probes.items()
    ]
    return findings


def page(findings: list[Finding]) -> str:
    """Return the findings as a table, and what to do about those that are not as they should be."""
    marks = {"ok": " ", "missing": "-", "broken": "!"}
    rows = [[f"{marks[one.state]} {one.what}", one.found] for one in findings]
    parts = [Table(["  what", "found"], rows).text()]
    if any(one.state == "missing" for one in findings):
        parts.append(
            "- is not installed and needed only for some uses; pip install 'ceil-jax[NAME]' adds an extra"
        )
    todo = [
        f"  {f.what.strip()}: {f.next}" for f in sorted(findings, key=lambda f: f.state != "broken") if f.next
    ]
    parts.append("\n".join(["what to do next:", *todo]) if todo else "nothing to do")
    return "\n\n".join(parts)


PACKAGES: dict[str, tuple[str, State, str]] = {
    "ceil-jax": ("run from its source", "missing", "pip install -e . also shows the extras here"),
    **dict.fromkeys(
        ("jax", "flax", "transformers", "datasets"),
        ("not installed", "broken", "install it again: pip install ceil-jax"),
    ),
    "torch": ("not installed", "missing", "for language models: pip install 'ceil-jax[lm]'"),
}
"""The finding where a package is not installed."""


def _versions() -> Iterator[Finding]:
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    for name, absent in PACKAGES.items():
        version = _version(name)
        yield Finding(name, version) if version else Finding(name, *absent)


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


def _devices(name: str, probe: subprocess.Popen[str]) -> Finding:
    what = f"{name} devices"
    try:
        out, err = probe.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return Finding(
            what, f"no answer in {PROBE_SECONDS} s", "broken", "look at `nvidia-smi`: the driver may hang"
        )
    said = [line.strip() for line in err.splitlines() if line.strip()]
    if probe.returncode != 0:
        last = said[-1] if said else f"exit code {probe.returncode}"
        return Finding(what, f"asking for them failed: {last[:200]}", "broken", f"install {name} again")
    devices = json.loads(out.splitlines()[-1])
    if name == "jax" and any("cuda" in line.lower() and "error" in line.lower() for line in said):
        remedy = "its CUDA plugin does not start: match the extra, cuda or cuda12, to the driver"
        return Finding(what, ", ".join(devices), "broken", remedy)
    return Finding(what, ", ".join(devices))


def _cache() -> Iterator[Finding]:
    folder = cache_path()
    if not _writable(folder):
        yield Finding(
            "cache",
            f"{folder} cannot be written",
            "broken",
            "set CEIL_JAX_CACHE to a folder you can write to",
        )
        return
    yield Finding("cache", f"{folder}, {_mb(folder)}")
    for name, asset in ASSETS.items():
        places = [place for place in (folder / "packages" / name, folder / "lm" / name) if place.is_dir()]
        if places:
            size = " and as converted ".join(_mb(place) for place in places)
            yield Finding(f"  {name}", f"{size}, {asset.licence}")
        else:
            yield Finding(f"  {name}", f"not downloaded; the first use does it ({asset.licence})", "missing")
    compiled = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or folder / "xla")
    yield Finding("  compiled functions", f"{_mb(compiled)} in {compiled}; deleting the folder is safe")


def _writable(folder: Path) -> bool:
    """Whether files can be written to the folder, or to its first parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def _runs(folder: Path) -> Finding:
    if not folder.is_dir():
        return Finding(
            f"runs in {folder}",
            "none yet",
            "missing",
            "start with `ceil-jax demo`, or `ceil-jax compare` on your own file; doctor --out names another folder",
        )
    stages = [key.parent for key in folder.glob("*/key.json")]
    unfinished = sum(1 for stage in stages if not _finished(stage))
    reports = sorted(folder.glob("report-*/report.html"), key=lambda page: page.stat().st_mtime)
    found = f"{len(stages)} stages, {unfinished} unfinished, {len(reports)} reports, {_mb(folder)}"
    if unfinished:
        return Finding(f"runs in {folder}", found, "ok", "the interrupted command continues where it stopped")
    if reports:
        return Finding(f"runs in {folder}", found, "ok", f"open {reports[-1]}")
    return Finding(f"runs in {folder}", found)


def _finished(stage: Path) -> bool:
    """Whether the stage has results. Journals of rows count: only the run knows how many rows there should be."""
    return any((stage / file).exists() for file in ("done.json", "rows.jsonl", "keyed_rows.jsonl"))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _mb(folder: Path) -> str:
    if not folder.is_dir():
        return "0 MB"
    try:
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}") from None
    return f"{size / 1e6:,.1f} MB"
