"""Dry runs: the stages of a run, those on disk and those that would run, their LM tokens and their time.

A dry run is a `Run` with other tools: an LM that counts, a store that only looks, and estimates in place of vectors,
searches and training. Stages on disk are read. What is not on disk is noted and stands in with a guess: vectors and
sets are random, a trained encoder is a name. What follows from a guess has a key that no run ever had, and so is
listed as to be run.
"""

from __future__ import annotations

import importlib.util
import logging
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from ceil_jax.pipeline.compose import Tools, open_run
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.search import Search
from ceil_jax.pipeline.trained import Trainer
from ceil_jax.report.stand_ins import CountingModels, StandIns
from ceil_jax.report.table import Table, Value
from ceil_jax.store.looking import LookingStore
from ceil_jax.store.stage import Stage
from ceil_jax.tasks.example import Task


@contextmanager
def no_guessed_trade_offs() -> Iterator[None]:
    """Keep the values of λ out of the log, which a dry run tunes on stand-ins for the LM's scores."""
    log = logging.getLogger("ceil_jax.pipeline.training_data")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


@no_guessed_trade_offs()
def preparation(config: RunConfig, task: Task, method: str) -> Plan:
    """Return the stages that a method needs before its first query is answered. Nothing is written.

    Args:
        config: the run.
        task: its task.
        method: a row of METHODS.

    Raises:
        UserError: an LM or an encoder behind an endpoint, whose tokens cannot be counted here.
    """
    found = Plan()
    found.open(config, task, CountingModels()).retrieve(method, task.validation)
    return found


class Machine(NamedTuple):
    """The speed of a machine in parameters × tokens a second: a network twice as large takes twice as long."""

    name: str
    lm: float
    """Speed at which an LM reads."""
    encode: float
    """Speed at which an encoder encodes."""
    train: float
    """Speed of training, forward and backward pass together."""


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


@dataclass
class Work:
    """One stage: done, or what it would take."""

    what: str
    task: str
    done: bool = False
    read: float = 0
    """LM tokens to read."""
    written: float = 0
    """LM tokens to write."""
    lm: float = 0
    """Both × parameters of the LM, a written token counted as WRITING read ones."""
    encoded: float = 0
    """Tokens to encode × parameters of the encoder, padding included."""
    trained: float = 0
    """Tokens to train on × parameters of the encoder, padding included."""
    steps: int = 0
    """Training steps."""

    def seconds(self, machine: Machine) -> float:
        """Return the time that it would take on a machine."""
        return self.lm / machine.lm + self.encoded / machine.encode + self.trained / machine.train


@dataclass
class Plan:
    """The stages of an experiment, each once, in the order in which they come up."""

    stages: dict[str, Work] = field(default_factory=dict)
    """The work of each stage by the stage's name."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a task cannot run, by its name."""
    models: dict[str, None] = field(default_factory=dict)
    """The encoders and LMs of the runs, in words."""

    def open(
        self, config: RunConfig, task: Task, models: CountingModels, trainer: Trainer | None = None
    ) -> Run:
        """Return a run that notes its stages here; the arguments are those of `open_run`."""

        def note(stage: Stage, what: str, **amounts: Any) -> None:
            self.stages.setdefault(stage.name, Work(what, task.name, **amounts))

        answers = [example.output for example in task.validation[:200]]
        store = LookingStore(config.out, note, lambda: models.spent(answers))
        guessed = StandIns(config, task, models, store)
        tools = Tools(store, Search(guessed.embed, guessed.choose, guessed.draw), guessed.learn)
        return open_run(config, task, models, trainer, tools=tools)

    def text(self) -> str:
        """Return the stages as a table, and the sum on this machine and on an H100."""
        machines = (this_machine(), ONE_H100)
        header = [
            "stage",
            "task",
            "state",
            "steps",
            "LM tokens read",
            "written",
            "this machine",
            "H100 (est.)",
        ]
        rows: list[list[Value]] = []
        for work in self.stages.values():
            times = [duration(work.seconds(machine)) for machine in machines]
            amounts = [work.steps or None, round(work.read), round(work.written), *times]
            state = ["on disk", *[None] * 5] if work.done else ["would run", *amounts]
            rows.append([work.what, work.task, *state])
        rest = [work for work in self.stages.values() if not work.done]
        sums = [
            f"{machine.name}: about {duration(sum(work.seconds(machine) for work in rest))}"
            for machine in machines
        ]
        return "\n".join(
            [
                *(*self.models, "", Table(header, rows).text(), ""),
                f"{len(self.stages) - len(rest)} stages on disk, {len(rest)} would run: about "
                f"{sum(work.read for work in rest):,.0f} LM tokens to read and "
                f"{sum(work.written for work in rest):,.0f} to write",
                *sums,
                *(f"{task} cannot run: {message}" for task, message in self.failed.items()),
            ]
        )


def duration(seconds: float) -> str:
    """Return a time as text: `45 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
