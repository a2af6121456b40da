"""A stage's rows made by several jobs that know nothing of one another, and put together again.

Rows are made in chunks that are cut in the same way whoever makes them, so that an LM sees the same batches and
the rows are the same to the last bit. Shard i of n makes the chunks i, i + n, i + 2n, … and keeps them in a
journal of its own, `shards/i-of-n.jsonl` in the stage's folder. That file is all that must travel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ceil_jax.errors import UserError
from ceil_jax.store.journal import read_lines

FOLDER = "shards"


class Shard(NamedTuple):
    """One of `of` jobs, numbered from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file(self) -> str:
        """Its journal, in the stage's folder."""
        return f"{FOLDER}/{self.number}-of-{self.of}.jsonl"

    def chunks(self, starts: Sequence[int]) -> Sequence[int]:
        """Those of the chunks, by where they start, that are this job's."""
        return starts[self.number - 1 :: self.of]


def parse_shard(text: str, environment: Mapping[str, str] = os.environ) -> Shard:
    """`i/n`, or `slurm`: this task's place in its SLURM array, whatever number the array starts at.

    Raises:
        UserError: not of that form, or not in a SLURM array.
    """
    if text == "slurm":
        names = (
            "SLURM_ARRAY_TASK_ID",
            "SLURM_ARRAY_TASK_MIN",
            "SLURM_ARRAY_TASK_MAX",
            "SLURM_ARRAY_TASK_COUNT",
        )
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


def merged(folder: Path, total: int, chunk: int) -> list[dict[str, Any]]:
    """The lines of all shards' journals in the stage's folder, in order; none if there are no shards.

    Every chunk counts once, wherever it comes from (the shards of a 16 and of a 20 may lie together).

    Raises:
        UserError: chunks are missing, and which shards have them; a chunk has not its number of rows or none
            such belongs here; two shards disagree about one.
    """
    lines: dict[int, dict[str, Any]] = {}
    found: set[Shard] = set()
    for file in sorted((folder / FOLDER).glob("*-of-*.jsonl")):
        found.add(Shard(*map(int, file.stem.split("-of-"))))
        for line in read_lines(file, "start").values():
            start = line["start"]
            if start not in range(0, total, chunk) or len(line["rows"]) != min(chunk, total - start):
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
