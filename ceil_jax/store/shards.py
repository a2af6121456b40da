"""The rows of one stage made by several jobs that know nothing of each other, and the merging of what they made.

All jobs cut the rows into the same chunks, so an LM sees the same batches and the rows are the same to the last bit.
Shard i of n makes the chunks i, i + n, i + 2n, … and keeps them in a journal of its own, `shards/i-of-n.jsonl` in the
stage's folder. That file is all that has to be copied to the machine that merges.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.store.journal import Accept, read_lines
from ceil_jax.store.rows import chunk_length

FOLDER = "shards"


class Shard(NamedTuple):
    """One of several jobs that share the rows of a stage."""

    number: int
    """The job's number, from 1 to `of`."""
    of: int
    """How many jobs there are."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file(self) -> str:
        """The path of its journal in the stage's folder."""
        return f"{FOLDER}/{self.number}-of-{self.of}.jsonl"

    def chunks(self, starts: Sequence[int]) -> Sequence[int]:
        """Return the chunks that this job makes, of all chunks, each known by its first row."""
        return starts[self.number - 1 :: self.of]


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


def merged(folder: Path, total: int, chunk: int, accept: Accept) -> list[dict[str, Any]]:
    """Return the chunks of all shards, in order; none if there are no shards.

    Every chunk counts once, whichever shard it comes from: shards of 16 and of 20 may lie in one folder.

    Args:
        folder: the stage's folder.
        total: rows in all.
        chunk: rows a chunk.
        accept: whether a journal's line is of this stage; other lines count as missing.

    Raises:
        UserError: chunks are missing (the message names the shards that make them), a chunk has another number of
            rows than it should, or two shards disagree about one.
    """
    lines: dict[int, dict[str, Any]] = {}
    found: set[Shard] = set()
    for file in sorted((folder / FOLDER).glob("*-of-*.jsonl")):
        found.add(Shard(*map(int, file.stem.split("-of-"))))
        for line in read_lines(file, "start", accept).values():
            start = line["start"]
            if not 0 < len(line["rows"]) == chunk_length(start, total, chunk):
                raise UserError(
                    f"{file}: {len(line['rows'])} rows from row {start} on are no chunk of this stage "
                    f"({total} rows in chunks of {chunk}); was it made by another version? Remove the file"
                )
            if lines.setdefault(start, line)["rows"] != line["rows"]:
                raise UserError(
                    f"{file}: rows {start} to {start + len(line['rows']) - 1} differ from another shard's; "
                    "were they made on other hardware? Remove one of the files"
                )
    missing = [start for start in range(0, total, chunk) if start not in lines]
    if found and missing:
        of = max(shard.of for shard in found)
        shards = sorted({start // chunk % of + 1 for start in missing})
        rows = sum(min(chunk, total - start) for start in missing)
        raise UserError(
            f"{folder}: {rows} of {total} rows are missing, row {missing[0]} the first; run again "
            + ", ".join(f"--shard {number}/{of}" for number in shards[:4])
            + (f" and {len(shards) - 4} more" if len(shards) > 4 else "")
            + f", or remove {folder / FOLDER} to make all rows here"
        )
    return [lines[start] for start in sorted(lines)]
