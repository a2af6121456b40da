"""Kinds take turns until the time is up; the n-th case of a kind has the seed + n, whenever its turn comes."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Mapping

from chaos.tally import Case, Tally


class Stopped(BaseException):
    """Somebody ended the run; what was counted so far counts."""


def run(
    kinds: Mapping[str, tuple[float, Case]],
    tally: Tally,
    seed: int,
    seconds: float,
    cases: int | None = None,
    report_every: float = 60.0,
) -> None:
    """Try the kind that has had the least of its share of the time, again and again.

    No case begins once the time is up, so that a run takes longer by one case at most.

    Args:
        kinds: kind -> (its share of the time, what tries one case).
        tally: where cases are counted.
        seed: of all cases.
        seconds: how long; without a meaning where `cases` is given.
        cases: how many of each kind.
        report_every: seconds between two lines that say how far it is.
    """
    spent = dict.fromkeys(kinds, 0.0)
    number = dict.fromkeys(kinds, 0)
    began = said = time.monotonic()
    while True:
        left = [kind for kind in kinds if cases is None or number[kind] < cases]
        if not left or (cases is None and time.monotonic() - began >= seconds):
            return
        kind = min(left, key=lambda kind: spent[kind] / kinds[kind][0])
        before = time.monotonic()
        _try(tally, kind, kinds[kind][1], seed + number[kind])
        spent[kind] += max(time.monotonic() - before, 1e-6)
        number[kind] += 1
        if time.monotonic() - said >= report_every:
            said = time.monotonic()
            print(f"{(said - began) / 60:5.1f} min: {tally.tried:,} tried, {tally.failed} failed", flush=True)


def _try(tally: Tally, kind: str, case: Case, seed: int) -> None:
    try:
        outcome, failure = case(random.Random(f"{kind} {seed}"))
    except Exception as error:
        traceback.print_exc()
        outcome, failure = "failed", f"{type(error).__name__}: {str(error)[:300]}"
    tally.note(kind, seed, outcome, failure)
