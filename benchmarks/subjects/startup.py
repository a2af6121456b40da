"""The start-up times of `import ceil_jax` and of `ceil-jax --help`.

Each run is a process of its own, and the time is all of it, the interpreter's start included.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial

from benchmarks.harness import OURS, Case, Disagreement, Settings

IMPORT = ("-c", "import ceil_jax")
HELP = (
    "-c",
    "import sys; from ceil_jax.cli.main import main; sys.argv = ['ceil-jax', '--help']; main()",
)


def cases(settings: Settings) -> Iterator[Case]:
    for name, arguments, seconds in (
        ("import ceil_jax", IMPORT, 0.3),
        ("ceil-jax --help", HELP, 1.0),
    ):
        yield Case(name, {OURS: partial(_run, arguments)}, _succeeded, at_most=seconds)


def _run(arguments: tuple[str, ...]) -> int:
    return subprocess.run([sys.executable, *arguments], capture_output=True).returncode


def _succeeded(results: Mapping[str, int]) -> str:
    if results[OURS] != 0:
        raise Disagreement(f"the process ended with {results[OURS]}")
    return "exit status 0"
