"""How many of each kind were tried, what failed, and the seed that repeats it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

Case = Callable[[random.Random], tuple[str, str]]
"""One case drawn by a generator: (outcome, failure or "")."""


@dataclass
class Tally:
    """Cases by kind, and the failures."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    again: dict[str, int] = field(default_factory=dict)
    """Kind -> the seed of its first failure."""

    @property
    def tried(self) -> int:
        return sum(counts.total() for counts in self.outcomes.values())

    @property
    def failed(self) -> int:
        return sum(map(len, self.failures.values()))

    def note(self, kind: str, seed: int, outcome: str, failure: str = "") -> None:
        """Count one case; with a failure, keep it and print it at once."""
        self.outcomes[kind][outcome] += 1
        if failure:
            self.again.setdefault(kind, seed)
            self.failures[kind].append(failure)
            print(f"FAILED {kind}: {failure}\n  again: {command(kind, seed)}", flush=True)

    def table(self) -> str:
        """A row for each kind, the sum, and the commands that repeat the first failure of each kind."""
        width = max(map(len, [*self.outcomes, "kind"]))
        lines = [f"{'kind':{width}}  {'tried':>7}  {'failed':>7}  outcomes"]
        for kind, counts in self.outcomes.items():
            shown = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
            lines.append(f"{kind:{width}}  {counts.total():7,}  {len(self.failures[kind]):7,}  {shown}")
        lines.append(f"{'all':{width}}  {self.tried:7,}  {self.failed:7,}")
        lines += [f"again: {command(kind, seed)}" for kind, seed in self.again.items()]
        return "\n".join(lines)


def command(kind: str, seed: int) -> str:
    """The command that tries one case of a kind again."""
    return f"make chaos CHAOS=\"--only '{kind}' --seed {seed} --cases 1\""
