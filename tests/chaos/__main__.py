"""`python -m chaos`: every kind for its share of the time; exit status 1 if anything failed."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from chaos.kinds import all_kinds
from chaos.schedule import Stopped, run
from chaos.tally import Tally

MINUTES = 9.0
"""By default; the first run of each command, which the others are compared with, is part of it."""


def main(arguments: list[str] | None = None) -> int:
    """Try, print the table, and return the exit status: 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"for all kinds ({MINUTES:.0f})")
    parser.add_argument("--cases", type=int, help="of each kind, in place of a time")
    parser.add_argument("--only", nargs="*", help="kinds, or how they begin, as in: read kill")
    parser.add_argument("--list", action="store_true", help="print the kinds")
    given = parser.parse_args(arguments)

    def stop(*_: object) -> None:
        raise Stopped

    tally = Tally()
    before = {
        number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as scratch,
        ExitStack() as closing,
    ):
        found = all_kinds(Path(scratch), closing)
        if given.list:
            print("\n".join(found))
            return 0
        chosen = {
            kind: case for kind, case in found.items() if not given.only or kind.startswith(tuple(given.only))
        }
        if not chosen:
            parser.error(f"--only: expected some of {', '.join(found)}")
        print(f"seed {given.seed}", flush=True)
        try:
            run(chosen, tally, given.seed, 60 * given.minutes, given.cases)
        except Stopped:
            print("stopped before its time")
        finally:
            # a second signal must not lose the table
            for number in before:
                signal.signal(number, signal.SIG_IGN)
            print(tally.table(), f"seed {given.seed}", sep="\n", flush=True)
    for number, handler in before.items():
        with suppress(TypeError):
            signal.signal(number, handler)
    return int(bool(tally.failed))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that hang would keep the process
