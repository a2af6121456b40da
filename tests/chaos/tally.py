"""How many of each kind were tried, what failed, and the seed that repeats it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Cases by kind, and the failures."""

    tried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def note(self, kind: str, seed: int, outcome: str, failure: str = "") -> None:
        """Count one case; with a failure, keep it and print it at once."""
        self.tried[kind] += 1
        self.outcomes[f"{kind}: {outcome}"] += 1
        if failure:
            self.failures.append(
                f"{kind}: {failure}\n  again: python -m chaos --only '{kind}' --seed {seed} --cases 1"
            )
            print("FAILED", self.failures[-1], flush=True)

    def page(self) -> str:
        """All counts, a line each."""
        lines = [f"{count:7,}  {name}" for name, count in sorted(self.outcomes.items())]
        return "\n".join([*lines, f"{sum(self.tried.values()):7,}  tried, {len(self.failures)} failed"])


Case = Callable[[random.Random], tuple[str, str]]
"""One case drawn by a generator: (outcome, failure or "")."""


def repeat(tally: Tally, kind: str, case: Case, seed: int, seconds: float, cases: int | None = None) -> None:
    """Try cases of one kind, the n-th with the seed + n, until the time is up or there were enough."""
    end, n = time.monotonic() + seconds, 0
    while (cases is None and time.monotonic() < end) or (cases is not None and n < cases):
        outcome, failure = case(random.Random(f"{kind} {seed + n}"))
        tally.note(kind, seed + n, outcome, failure)
        n += 1
