"""`python -m benchmarks.record [FOLDER]`: what the benchmarks wrote into a folder, as a table for README.md."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import tyro


def record(folder: Path) -> str:
    """Return the machine in a line and a row for each case: median, half the spread, and each peer's time over ours.

    Args:
        folder: holds `<subject>-<device>.json`.
    """
    files = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*-[cg]pu.json"))]
    found = [one for one in files if "cases" in one]
    if not found:
        return f"{folder}: no benchmarks; run python -m benchmarks --out {folder}"
    lines = [
        _machine(found[0]["machine"]),
        "",
        "| workload | ours | peers, and their time over ours | missed |",
    ]
    lines.append("| --- | ---: | --- | --- |")
    lines += [_row(one["subject"], case) for one in found for case in one["cases"]]
    return "\n".join(lines)


def _machine(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"{machine['device']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{packages}, {machine['date'][:10]}; {machine['bytes_per_second'] / 1e9:,.0f} GB/s, "
        f"{machine['flop_per_second'] / 1e9:,.0f} GFLOP/s in float32, load {machine['load']:.1f}"
    )


def _row(subject: str, case: dict[str, Any]) -> str:
    (_, ours), *peers = case["timings"].items()
    others = "; ".join(f"{name} {_time(one)}, {one['ratio']:.2f}" for name, one in peers) or "–"
    return f"| {subject}: {case['name']} | {_time(ours)} | {others} | {'; '.join(case['missed']) or '–'} |"


def _time(timing: dict[str, Any]) -> str:
    seconds = timing["seconds"]
    median = statistics.median(seconds)
    half = (max(seconds) - min(seconds)) / median / 2
    shown = f"{median:.2f} s" if median >= 1 else f"{1e3 * median:.3g} ms"
    return f"{shown} ± {half:.0%}"


def main(folder: tyro.conf.Positional[Path] = Path("runs/benchmarks")) -> None:
    """Print the table.

    Args:
        folder: Where `python -m benchmarks` wrote its files.
    """
    print(record(folder))


if __name__ == "__main__":
    tyro.cli(main)
