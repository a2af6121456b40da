"""`make gpu-check`: whether a GPU computes what it should, and how fast, in under ten minutes.

Three steps, each in a process of its own: the tests of numerics, every benchmark, and one small experiment that uses
JAX and torch on the same device. What they print goes into OUT/<step>.log, and OUT/table.md is the table for
README.md. A step that fails does not keep the others from running. `--device cpu --small` does the same in small,
without a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import tyro

from benchmarks.record import record

TESTS = ("tests/dpp", "tests/retrieval", "tests/training", "tests/encoders", "tests/lm/torch")


def steps(device: str, small: bool, out: Path) -> dict[str, list[str]]:
    """Return the command of each step, without the interpreter."""
    benchmarks = [
        "-m",
        "benchmarks",
        "--device",
        device,
        "--rounds",
        "1" if small else "3",
        "--out",
        str(out),
    ]
    compare = ["-m", "ceil_jax.cli.main", "compare", "--out", str(out / "runs")]
    compare += ["--method", "topk", "dpp", "epr", "ceil"]
    return {
        "tests": ["-m", "pytest", "-q", "-m", "", *(TESTS[:1] if small else TESTS)],
        "benchmarks": benchmarks + (["--small"] if small else []),
        "experiment": compare + (["--lm", "tiny", "--encoder", "tiny", "--limit", "8"] if small else []),
    }


def main(
    device: Literal["gpu", "cpu"] = "gpu", small: bool = False, out: Path = Path("runs/gpu-check")
) -> int:
    """Run the three steps.

    Args:
        device: What JAX computes on.
        small: Tiny sizes, to see that everything runs.
        out: Folder of the logs and of the table.
    """
    out.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu" if device == "cpu" else "cuda",
        # torch needs room beside JAX
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    failed = []
    for name, command in steps(device, small, out).items():
        print(f"{name}: {' '.join(command)}", flush=True)
        began, log = time.perf_counter(), out / f"{name}.log"
        with log.open("w", encoding="utf-8") as file:
            code = subprocess.run(
                [sys.executable, *command], stdout=file, stderr=subprocess.STDOUT, env=environment
            ).returncode
        failed += [name] if code else []
        result = f"failed with exit code {code}, see {log}" if code else "passed"
        print(f"  {result}, {time.perf_counter() - began:.0f} s", flush=True)
    table = record(out)
    (out / "table.md").write_text(table + "\n", encoding="utf-8")
    print(f"\n{table}\n\n{out / 'table.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
