"""The command `python -m benchmarks [subject …] [--device gpu]`: ours and the peers take turns in one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ceil_jax.errors import UserError, unknown_name


def main(
    subjects: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    device: Literal["cpu", "gpu"] = "cpu",
    rounds: int = 5,
    small: bool = False,
    only: str = "",
    out: Path = Path("runs/benchmarks"),
) -> None:
    """Measure speed, ours and peers side by side.

    Every contender runs once and their results are compared; then come the rounds, in each of which
    all take their turn. Printed: the median, half the spread, and the median of a peer's time over
    ours. Every round is in OUT/<subject>-<device>.json.

    Args:
        subjects: What to measure; all by default.
        device: What JAX computes on; peers that have no GPU version stay on the CPU.
        rounds: Timed rounds.
        small: Tiny sizes, to see that everything runs.
        only: Cases whose name holds this text.
        out: Folder of the JSON files.
    """
    # JAX reads this when it is first imported
    os.environ["JAX_PLATFORMS"] = "cpu" if device == "cpu" else "cuda"
    from benchmarks import harness, machine

    for subject in subjects:
        if subject not in harness.SUBJECTS:
            raise unknown_name("subject", subject, harness.SUBJECTS)
    if rounds < 1:
        raise UserError(f"--rounds is {rounds}; expected at least 1")
    settings = harness.Settings(device, rounds, small)
    described = machine.describe() | machine.floors(small)
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    for subject in subjects or harness.SUBJECTS:
        print(f"\n== {subject}")
        rows = []
        for case in harness.load_cases(subject, settings):
            if only not in case.name:
                continue
            rows.append(harness.measure(subject, case, settings))
            print(harness.table(rows[-1]), flush=True)
        print(harness.write(out, subject, described, settings, rows))


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
