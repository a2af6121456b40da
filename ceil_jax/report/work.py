"""What stages would take: LM tokens and time on two machines, as a dry run prints it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ceil_jax.report.rates import ONE_H100, TWO_CORES, WRITING, Machine
from ceil_jax.report.table import Table, Value


@dataclass
class Work:
    """One stage."""

    what: str
    task: str
    done: bool = False
    read: float = 0
    """LM tokens."""
    written: float = 0
    lm_parameters: int = 0
    encoded: float = 0
    """Tokens × parameters of the encoder, padding included."""
    trained: float = 0

    def seconds(self, machine: Machine) -> float:
        lm = (self.read + WRITING * self.written) * self.lm_parameters / machine.lm
        return lm + self.encoded / machine.encode + self.trained / machine.train


@dataclass
class Plan:
    """The stages of an experiment, each once, in the order they come up."""

    stages: dict[str, Work] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The list, and what it adds up to on two kinds of machine."""
        header = ["stage", "task", "state", "LM tokens read", "written", "2 cores", "H100 (est.)"]
        lines: list[list[Value]] = [
            [work.what, work.task, "on disk", None, None, None, None]
            if work.done
            else [
                *(work.what, work.task, "would run", round(work.read), round(work.written)),
                *(duration(work.seconds(machine)) for machine in (TWO_CORES, ONE_H100)),
            ]
            for work in self.stages.values()
        ]
        rest = [work for work in self.stages.values() if not work.done]
        read, written = (sum(getattr(work, name) for work in rest) for name in ("read", "written"))
        out = [
            Table(header, lines).text(),
            "",
            f"{len(self.stages) - len(rest)} stages on disk, {len(rest)} would run: about {read:,.0f} LM tokens to "
            f"read and {written:,.0f} to write",
        ]
        out += [
            f"{machine.name}: about {duration(sum(work.seconds(machine) for work in rest))}"
            for machine in (TWO_CORES, ONE_H100)
        ]
        return "\n".join(out + [f"{task} cannot run: {message}" for task, message in self.failed.items()])


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
