"""`python -m chaos`: every kind for its share of the time; 0 if nothing failed."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from chaos.readers import FILES, Readers
from chaos.runs import Runs
from chaos.tally import Case, Tally, repeat

COMMANDS = ("compare", "score", "export")


def kinds(folder: Path) -> tuple[dict[str, Callable[[], Case]], list[Callable[[], None]]]:
    """Kind -> what makes its case; and what to close at the end. Nothing is started before it is asked for."""
    made: dict[str, Runs | Readers] = {}
    closing: list[Callable[[], None]] = []

    def runs() -> Runs:
        if "runs" not in made:
            made["runs"] = Runs(folder)
            closing.append(made["runs"].close)
        return made["runs"]

    def readers() -> Readers:
        return made.setdefault("readers", Readers(folder))

    found: dict[str, Callable[[], Case]] = {}
    for command in COMMANDS:
        found[f"kill {command}"] = lambda c=command: lambda draw: runs().killed(c, draw)
        found[f"damage {command}"] = lambda c=command: lambda draw: runs().damaged(c, draw)
    for kind in FILES:
        found[f"read {kind}"] = lambda k=kind: lambda draw: readers().file(k, draw)
    found["read encoder"] = lambda: lambda draw: readers().encoder(draw)
    return found, closing


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=5.0, help="for all kinds together")
    parser.add_argument("--cases", type=int, help="of each kind, in place of a time")
    parser.add_argument("--only", nargs="*", help="kinds, or how they begin, as in: read kill")
    given = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        found, closing = kinds(Path(scratch))
        chosen = [kind for kind in found if not given.only or kind.startswith(tuple(given.only))]
        if not chosen:
            parser.error(f"--only: expected some of {', '.join(found)}")
        # a run takes a thousand times as long as a read
        share = {kind: 0.1 if kind.startswith("read") else 1.0 for kind in chosen}
        print(f"seed {given.seed}", flush=True)
        for kind in chosen:
            seconds = 60 * given.minutes * share[kind] / sum(share.values())
            repeat(tally, kind, found[kind](), given.seed, seconds, given.cases)
        for close in closing:
            close()
    print(tally.page())
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
