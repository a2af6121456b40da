"""The measurement of ours and the peers side by side: first a check that results agree, then
interleaved rounds.

A subject is a file in `subjects/` with a function

    cases(settings: Settings) -> Iterator[Case]

that makes one workload at a time (so that its data can be freed before the next) and yields the
ways to do it, ours first. Case names are distinct within a subject and the same in every process.
The tests run every subject with `small=True`, one round.
"""

from __future__ import annotations

import gc
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import jax

SUBJECTS = tuple(
    sorted(path.stem for path in (Path(__file__).parent / "subjects").glob("[!_]*.py"))
)

_compiled: list[float] = []
"""Durations in seconds of all XLA compilations of this process, and of loads from the persistent cache."""


def _on_event(event: str, duration_secs: float, **_: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled.append(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_on_event)

SETTLE = 0.3
"""Seconds of pause before each run, because BLAS threads of the run before still spin and occupy a core."""

ROUND = 0.2
"""The minimum duration of a round in seconds: shorter calls are repeated, because the first call
after the pause is slow."""

OURS = "ceil_jax"
"""The name of our own contender in every case."""

Contender = Callable[[], Any]
"""A function that does the whole work once and returns its result, possibly as jax arrays that are not finished."""


class Disagreement(AssertionError):
    """Two contenders gave different results, so that their times cannot be compared."""


@dataclass(frozen=True)
class Settings:
    """The options of a run of the benchmarks."""

    device: Literal["cpu", "gpu"] = "cpu"
    rounds: int = 5
    small: bool = False
    """Use sizes for a test: the same code runs in a second or two."""


@dataclass(frozen=True)
class Case:
    """One workload, and the contenders that do it."""

    name: str
    contenders: Mapping[str, Contender]
    """Contenders by name: OURS first, then the peers."""
    agree: Callable[[Mapping[str, Any]], str]
    """A function from every contender's result to one line on how well they agree; it raises Disagreement."""
    at_least: Mapping[str, float] = field(default_factory=dict)
    """The target for the speedup over a peer, by the peer's name."""
    at_most: float | None = None
    """The target for our median time in seconds."""
    work: Mapping[str, float] = field(default_factory=dict)
    """The amount of work done in a run, as {"FLOP": …, "bytes": …, "tokens": …}; it is reported per
    second of our median."""
    memory: bool = False
    """Whether to measure each contender's peak memory too, in a process of its own."""
    less_memory: Mapping[str, float] = field(default_factory=dict)
    """The target for a peer's peak memory divided by ours."""


@dataclass(frozen=True)
class Timing:
    """The times of one contender's rounds, in seconds."""

    seconds: list[float]
    ratio: float | None
    """The median over rounds of the contender's time divided by ours; None for ours."""
    peak_bytes: int | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The spread of the times: (slowest − fastest) / median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


@dataclass(frozen=True)
class Measured:
    """The result of one case."""

    name: str
    agreement: str
    timings: Mapping[str, Timing]
    compilations: Mapping[str, int]
    """The number of XLA compilations in each contender's first run; the rounds must not need any."""
    missed: list[str]
    """The targets that were not reached, in words."""
    work: Mapping[str, float]


def load_cases(subject: str, settings: Settings) -> Iterator[Case]:
    """Yield the subject's cases, each created when it is needed."""
    return importlib.import_module(f"benchmarks.subjects.{subject}").cases(settings)


def measure(subject: str, case: Case, settings: Settings) -> Measured:
    """Run every contender once and compare the results, then run `rounds` rounds of each in turn.

    The first run also compiles and fills caches. Each round goes through all contenders, so that
    whatever else slows the machine meets all of them alike, and ratios are taken within a round. A
    round is one call, or the median of as many as fit into `ROUND`.

    Raises:
        Disagreement: the results differ; nothing is timed.
    """
    results = {}
    compilations = {}
    for name, run in case.contenders.items():
        before = len(_compiled)
        results[name] = finished(run())
        compilations[name] = len(_compiled) - before
    agreement = case.agree(results)
    del results
    before = len(_compiled)
    seconds: dict[str, list[float]] = {name: [] for name in case.contenders}
    gc.collect()
    gc.disable()
    try:
        for _ in range(settings.rounds):
            for name, run in case.contenders.items():
                time.sleep(SETTLE)
                seconds[name].append(call_seconds(run, 0 if settings.small else ROUND))
    finally:
        gc.enable()
    again = len(_compiled) - before
    timings = {}
    for name, times in seconds.items():
        ratios = [theirs / ours for theirs, ours in zip(times, seconds[OURS], strict=True)]
        peak = peak_memory(subject, case.name, name, settings) if case.memory else None
        timings[name] = Timing(times, None if name == OURS else statistics.median(ratios), peak)
    missed = _missed(case, timings) + ([f"{again} compilations during the rounds"] if again else [])
    return Measured(case.name, agreement, timings, compilations, missed, case.work)


def call_seconds(run: Contender, at_least: float) -> float:
    """Return the median duration of a call in seconds, over as many calls as take `at_least` seconds together."""
    calls: list[float] = []
    while not calls or sum(calls) < at_least:
        start = time.perf_counter()
        finished(run())
        calls.append(time.perf_counter() - start)
    return statistics.median(calls)


def finished(result: Any) -> Any:
    """Return a result after the device has computed it."""
    return jax.block_until_ready(result)


def _missed(case: Case, timings: Mapping[str, Timing]) -> list[str]:
    missed = []
    for peer, wanted in case.at_least.items():
        ratio = timings[peer].ratio
        if ratio is not None and ratio < wanted:
            missed.append(f"{ratio:.2f} x {peer}, wanted {wanted:g} x")
    if case.at_most is not None and timings[OURS].median > case.at_most:
        missed.append(f"{timings[OURS].median:.3g} s, wanted {case.at_most:g} s")
    for peer, wanted in case.less_memory.items():
        ours = timings[OURS].peak_bytes
        theirs = timings[peer].peak_bytes
        if ours is not None and theirs is not None and theirs < wanted * ours:
            missed.append(f"1/{theirs / ours:.1f} of {peer}'s memory, wanted 1/{wanted:g}")
    return missed


def peak_memory(subject: str, case: str, contender: str, settings: Settings) -> int:
    """Return the bytes by which one run of a contender raises the memory in use, in a process of
    its own.

    The run is its second: what is kept from the first, such as compiled code, does not count.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.memory",
        subject,
        case,
        contender,
        json.dumps(asdict(settings)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"measuring the memory of {subject}/{case}/{contender} failed:\n{done.stderr}"
        )
    return int(done.stdout.split()[-1])


def table(measured: Measured) -> str:
    """Return a case as lines of text."""
    lines = [f"{measured.name}  ({measured.agreement})"]
    for name, timing in measured.timings.items():
        ratio = "" if timing.ratio is None else f"{timing.ratio:8.2f} x"
        peak = "" if timing.peak_bytes is None else f"{timing.peak_bytes / 2**20:10,.1f} MiB"
        lines.append(
            f"  {name:32} {1e3 * timing.median:12,.2f} ms ±{timing.spread / 2:4.0%} {ratio}{peak}"
        )
    lines.append(f"  {measured.compilations[OURS]} compilations in the first run")
    ours = measured.timings[OURS].median
    rates = [f"{amount / ours:,.4g} {what}/s" for what, amount in measured.work.items()]
    lines += [f"  {OURS}: {', '.join(rates)}"] if rates else []
    lines += [f"  MISSED: {miss}" for miss in measured.missed]
    return "\n".join(lines)


def write(
    folder: Path, subject: str, machine: Mapping[str, Any], settings: Settings, rows: list[Measured]
) -> Path:
    """Write `<subject>-<device>.json` with the machine, the settings and every round of every contender."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{subject}-{settings.device}.json"
    cases = [
        asdict(row) | {"medians": {name: timing.median for name, timing in row.timings.items()}}
        for row in rows
    ]
    what = {"subject": subject, "machine": machine, "settings": asdict(settings), "cases": cases}
    file.write_text(json.dumps(what, indent=1, ensure_ascii=False) + "\n")
    return file
