"""One of several jobs that share the reading of an LM, each of which keeps what it read in a file of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ceil_jax.errors import UserError


class Shard(NamedTuple):
    """One of several jobs that share the chunks of a stage's prompts."""

    number: int
    """The job's number, from 1 to `of`."""
    of: int
    """How many jobs there are."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file(self) -> str:
        """The name of its file of readings."""
        return f"readings-{self.number}-of-{self.of}.sqlite"

    def owns(self, chunk: int) -> bool:
        """Return whether this job reads the chunk of that number, from 0: job i of n reads i − 1, i − 1 + n, …"""
        return chunk % self.of == self.number - 1


def parse_shard(text: str, environment: Mapping[str, str] = os.environ) -> Shard:
    """Return the shard that a command's `--shard` names.

    Args:
        text: `i/n`, or `slurm` for this task's place in its SLURM array, whatever number the array starts at.
        environment: where SLURM's variables are; the process's environment by default.

    Raises:
        UserError: the text has another form, or this is no task of a SLURM array.
    """
    if text == "slurm":
        names = [f"SLURM_ARRAY_TASK_{part}" for part in ("ID", "MIN", "MAX", "COUNT")]
        if not all(environment.get(name, "").isdecimal() for name in names):
            raise UserError("--shard slurm: not in a SLURM array (sbatch --array=1-16); or give --shard i/n")
        place, first, last, count = (int(environment[name]) for name in names)
        step = (last - first) // (count - 1) if count > 1 else 1
        if (last - first) != step * (count - 1):
            raise UserError("--shard slurm: the array's task numbers are not evenly spaced; use --array=1-16")
        return Shard((place - first) // step + 1, count)
    form = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    shard = Shard(*map(int, form.groups())) if form else Shard(0, 0)
    if not 1 <= shard.number <= shard.of:
        raise UserError(f"--shard {text}: expected i/n with i from 1 to n, as in 3/16, or slurm")
    return shard
