"""Plans: the stages that getting some targets would compute, their LM tokens and their time. Nothing is computed.

A plan is a walk over the graph (`Run.missing`) with each stage's own estimate.
"""

from __future__ import annotations

import importlib.util
import timeit
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from ceil_jax.pipeline.stage import Run, Stage, Work, closure

WRITING = 4.0
"""A written token costs as many read ones: a guess, because a step writes one token a text."""


class Machine(NamedTuple):
    """The speed of a machine in parameters × tokens a second: a network twice as large takes twice as long."""

    name: str
    lm: float
    """Speed at which an LM reads."""
    encode: float
    """Speed at which an encoder encodes."""
    train: float
    """Speed of training, forward and backward pass together."""

    def seconds(self, work: Work) -> float:
        """Return the time that some work takes."""
        read = (work.read + WRITING * work.written) * work.parameters
        return read / self.lm + work.encoded / self.encode + work.trained / self.train


ENCODING, TRAINING = {"cpu": 1.28, "gpu": 0.1}, {"cpu": 0.24, "gpu": 0.033}
"""The shares of a float32 product's speed that encoding and training reach: on a CPU measured with all-MiniLM-L6-v2,
whose embeddings count as parameters but take no products; on a GPU guesses."""


@cache
def this_machine() -> Machine:
    """Return the speed of this machine, measured in about two seconds."""
    import jax
    import jax.numpy as jnp

    kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
    left, right = jnp.ones((1024, 384)), jnp.ones((384, 1536))
    product = jax.jit(jnp.matmul)
    times = timeit.repeat(lambda: product(left, right).block_until_ready(), number=1, repeat=50)
    speed = reading = left.size * right.shape[1] / min(times)
    if importlib.util.find_spec("torch") is not None:
        from ceil_jax.lm.torch.loading import reading_speed

        reading = reading_speed()
    return Machine(
        "this machine (from its speed just now)", reading, ENCODING[kind] * speed, TRAINING[kind] * speed
    )


_H100_BF16 = 989e12  # dense bfloat16 FLOP/s, the maker's figure for the SXM model
_H100_TF32 = 495e12

ONE_H100 = Machine(
    "one H100 (an estimate from its peak, not measured)",
    # 2 FLOP a parameter and token, at 40 % of the peak
    lm=0.4 * _H100_BF16 / 2,
    # short texts in small networks: 10 % of the peak
    encode=0.1 * _H100_TF32 / 2,
    # the backward pass costs twice the forward one
    train=0.1 * _H100_TF32 / 6,
)


class Step(NamedTuple):
    """One stage of a plan."""

    stage: Stage[Any]
    work: Work | None
    """None for a stage on disk."""


@dataclass
class Plan:
    """The stages of some targets, each once, needs first."""

    steps: dict[str, Step] = field(default_factory=dict)
    """By the stage's key."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a task cannot run, by its name."""
    tasks: dict[str, str] = field(default_factory=dict)
    """The task of each stage, by the stage's key."""

    def add(self, run: Run, targets: Sequence[Stage[Any]], task: str = "") -> None:
        """Add the stages of some targets.

        Args:
            run: knows what is on disk; its LMs may be ones that only count.
            targets: what is to be got.
            task: the task that they are of.
        """
        missing = {stage.key for stage in run.missing(targets)}
        for stage in closure(targets):
            if stage.key in self.steps or stage.in_memory:
                continue
            if stage.key in missing:
                self.steps[stage.key] = Step(stage, run.estimate(stage))
            elif run.summary(stage) is not None:
                self.steps[stage.key] = Step(stage, None)
            self.tasks.setdefault(stage.key, task)

    @property
    def missing(self) -> list[Step]:
        """The stages that would be computed."""
        return [step for step in self.steps.values() if step.work is not None]

    @property
    def tokens(self) -> float:
        """LM tokens to read and to write."""
        return sum(step.work.read + step.work.written for step in self.missing if step.work)

    def expected(self, machine: Machine) -> dict[str, float]:
        """Return the seconds that each missing stage takes on a machine, at least a tenth of one, by its key."""
        return {step.stage.key: max(0.1, machine.seconds(step.work)) for step in self.missing if step.work}

    def seconds(self, machine: Machine) -> float:
        """Return the time that the missing stages take on a machine."""
        return sum(machine.seconds(step.work) for step in self.missing if step.work)

    def rows(self) -> list[list[str | int | None]]:
        """Return a row for each stage that takes LM tokens, encoding or training, the others summed up in one."""
        machines = this_machine(), ONE_H100
        found: list[list[str | int | None]] = []
        small = 0
        for key, (stage, work) in self.steps.items():
            if work is not None and not any((work.read, work.written, work.encoded, work.trained)):
                small += 1
            elif work is None:
                found.append([stage.what, self.tasks[key], "on disk", *[None] * 5])
            else:
                times = [duration(machine.seconds(work)) for machine in machines]
                amounts = work.steps or None, round(work.read), round(work.written)
                found.append([stage.what, self.tasks[key], "would run", *amounts, *times])
        if small:
            found.append([f"{small} stages of little work", "", "would run", *[None] * 5])
        return found

    def text(self) -> str:
        """Return the sums in words."""
        rest = self.missing
        read = sum(step.work.read for step in rest if step.work)
        written = sum(step.work.written for step in rest if step.work)
        return "\n".join(
            [
                f"{len(self.steps) - len(rest)} stages on disk, {len(rest)} would run: about {read:,.0f} LM tokens "
                f"to read and {written:,.0f} to write",
                *(f"{one.name}: about {duration(self.seconds(one))}" for one in (this_machine(), ONE_H100)),
                *(f"{task} cannot run: {message}" for task, message in self.failed.items()),
            ]
        )


HEADER = (*("stage", "task", "state", "steps", "LM tokens read", "written", "this machine", "H100 (est.)"),)
"""The columns of `Plan.rows`."""


def plan(run: Run, targets: Sequence[Stage[Any]], task: str = "") -> Plan:
    """Return the plan of some targets."""
    found = Plan()
    found.add(run, targets, task)
    return found


def duration(seconds: float) -> str:
    """Return a time as text: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
