"""Shards: several jobs that share the prompts of an LM, each with its own file of readings."""

from __future__ import annotations

import re
from typing import NamedTuple

from ceil_jax.errors import UserError


class Shard(NamedTuple):
    """Job `number` (from 1) of `of` jobs that share the chunks of a stage's prompts."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file(self) -> str:
        """The name of its file of readings."""
        return f"readings-{self.number}-of-{self.of}.sqlite"

    def owns(self, chunk: int) -> bool:
        """Return whether this job reads a chunk, numbered from 0: job i of n reads chunks i − 1, i
        − 1 + n, …"""
        return chunk % self.of == self.number - 1


def parse_shard(text: str) -> Shard:
    """Return the shard for `--shard i/n`. A UserError for a text of another form."""
    form = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    shard = Shard(*map(int, form.groups())) if form else Shard(0, 0)
    if not 1 <= shard.number <= shard.of:
        raise UserError(f"--shard {text}: expected i/n with i from 1 to n, as in 3/16")
    return shard
