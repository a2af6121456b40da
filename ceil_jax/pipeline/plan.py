"""Plans: the stages that some targets would need to have computed, their LM tokens and their time.
Nothing is computed."""

from __future__ import annotations

import importlib.util
import logging
import math
import timeit
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from ceil_jax.distributed.machine import device
from ceil_jax.errors import UserError
from ceil_jax.pipeline.stage import Run, Stage, Work
from ceil_jax.store.folder import read_json, write_json
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.assets import cache_path, has_cache

log = logging.getLogger(__name__)

WRITING = 4.0
"""The cost of generating a token, in tokens read. A guess: a step generates one token of each
text."""


class Machine(NamedTuple):
    """The speed of a machine, in parameters × tokens per second: a network twice as large takes
    twice as long."""

    name: str
    lm: float
    encode: float
    """The speed of encoding."""
    train: float
    """The speed of training, forward and backward pass together."""

    def seconds(self, work: Work) -> float:
        """Return the seconds that some work takes."""
        read = (work.read + WRITING * work.written) * work.parameters
        return read / self.lm + work.encoded / self.encode + work.trained / self.train


NAME = "this machine (from its speed when it was first measured)"

LAYOUT = 1
"""Raised when machines are measured in another way."""

ENCODING = {"cpu": 1.28, "gpu": 0.1}
"""The speed of encoding as a share of that of a float32 matrix product; measured as below."""

TRAINING = {"cpu": 0.24, "gpu": 0.033}
"""The same share for training. On a CPU it was measured with all-MiniLM-L6-v2, whose embeddings
count as parameters but take no products; on a GPU it is a guess."""


@cache
def this_machine() -> Machine:
    """Return the speed of this machine. It is measured once, in about two seconds, and kept in the
    cache folder, if there is one."""
    if not has_cache():
        return measured()
    file = cache_path() / f"machine-{digest([device(), LAYOUT])[:8]}.json"
    try:
        speeds = read_json(file)
        return Machine(NAME, speeds["lm"], speeds["encode"], speeds["train"])
    except (OSError, ValueError, KeyError, TypeError):
        machine = measured()
    speeds = {"lm": machine.lm, "encode": machine.encode, "train": machine.train}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, speeds)
    except (OSError, UserError):
        log.info("%s cannot be written: the machine is measured again next time", file)
    return machine


def measured() -> Machine:
    """Measure this machine, in about two seconds."""
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
        NAME,
        reading,
        ENCODING[kind] * speed,
        TRAINING[kind] * speed,
    )


class Plan(dict[Stage[Any], Work]):
    """The work of each stage that would be computed, needs first."""

    @property
    def tokens(self) -> float:
        """The LM tokens to read and to generate."""
        return sum(work.read + work.written for work in self.values())

    def seconds(self, machine: Machine) -> float:
        """Return the seconds that all stages take on a machine."""
        return sum(map(machine.seconds, self.values()))


def plan(run: Run, targets: Sequence[Stage[Any]]) -> Plan:
    """Return the work of the stages that have to be computed for some targets. The run's LMs may be
    ones that only count tokens."""
    return Plan({stage: run.estimate(stage) for stage in run.missing(targets)})


def minutes_for(seconds: float, share: float) -> str:
    """Return the --minutes in which work of `seconds` fits if only `share` of the minutes is
    planned, rounded up."""
    value = seconds / 60 / share - 1e-6
    return f"{math.ceil(value):,}" if value > 1 else f"{math.ceil(10 * max(value, 0)) / 10:g}"


def duration(seconds: float) -> str:
    """Return a time as text: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
