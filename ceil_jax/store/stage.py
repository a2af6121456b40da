"""Where work lives on disk: one folder a stage, named by the hash of everything it depends on.

A run is not a folder of its own but the stages it needs; two runs that need the same stage share it.

```
runs/
  scores-3f9a0c…/      key.json     what this stage depends on, readable
                       rows.jsonl   a journal: append-only, a checksum a line (keyed_rows.jsonl where the
                                    rows have names and may grow in number)
                       shards/      journals of jobs that made a part of the rows each
                       done.json    written last: the stage's summary and the sha256 of its files
```
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ceil_jax.store.hashing import digest, file_sha256
from ceil_jax.store.journal import Journal
from ceil_jax.store.rows import Chunk, Engine, Rows, measured, timed_chunk
from ceil_jax.store.shards import Shard, merged

log = logging.getLogger(__name__)


class Stage:
    """One stage's folder. Files appear whole or not at all."""

    leads = True
    """Whether this process is the one that writes."""

    DONE = "done.json"
    """Written last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """`kind-hash`: what other stages put into their keys to depend on this one."""
        return self.folder.name

    @property
    def scratch(self) -> Path:
        """The folder of what only the unfinished stage needs; gone when it is done."""
        return self.folder / "scratch"

    @property
    def summary(self) -> dict[str, Any] | None:
        """What `finish` was given, or None while the stage is unfinished or one of its files is damaged."""
        done = self.folder / self.DONE
        if not done.exists():
            return None
        summary, damaged = self._checked()
        if damaged is not None:
            log.warning("%s is damaged; computing %s again", damaged, self.name)
            done.unlink()
            return None
        # a process may have been killed after it finished and before it tidied up
        shutil.rmtree(self.scratch, ignore_errors=True)
        return summary

    def peek(self) -> dict[str, Any] | None:
        """`summary` for a reader that does not hold the stage: nothing on disk changes."""
        return self._checked()[0]

    def _checked(self) -> tuple[dict[str, Any] | None, Path | None]:
        """(summary, None), or (None, the first file that is missing or damaged)."""
        done = self.folder / self.DONE
        try:
            record = json.loads(done.read_bytes())
            files, summary = record["files"].items(), record["summary"]
            # stages of before there was a checksum are taken as they are
            sound = record.get("checksum", _of(record)) == _of(record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            return None, done
        for file, sha256 in files:
            path = self.folder / file
            if not path.exists() or file_sha256(path) != sha256:
                return None, path
        return summary, None

    def write(self, file: str, content: bytes) -> None:
        """Write beside its place, flush to the disk, rename."""
        target = self.folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".part")
        with beside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)

    def save(self, file: str, array: np.ndarray) -> None:
        """An array as `.npy`, whole or not at all."""
        target = self.folder / file
        beside = target.with_name(target.name + ".part")
        with beside.open("wb") as out:
            np.save(out, array)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)

    def load(self, file: str) -> np.ndarray:
        """The array, memory-mapped."""
        return np.load(self.folder / file, mmap_mode="r")

    def finish(self, summary: Mapping[str, Any], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """Mark the stage done; `files` are checked each time it is used again."""
        record = {
            "summary": dict(summary),
            "files": {file: file_sha256(self.folder / file) for file in files},
        }
        content = {**record, "checksum": _of(record)}
        self.write(self.DONE, (json.dumps(content, indent=1) + "\n").encode())
        shutil.rmtree(self.scratch, ignore_errors=True)
        return record["summary"]

    def rows(
        self,
        total: int,
        work: Callable[[int, int], list[Any]],
        *,
        chunk: int,
        what: str,
        cost: Callable[[], int] = lambda: 0,
        shard: Shard | None = None,
        engine: Engine | None = None,
    ) -> Rows:
        """`work(start, stop)` for each chunk of `range(total)` that is not in the log yet, appended to it.

        Chunks are cut the same way every time, so an LM sees the same batches whether or not the process
        was killed half-way, and the rows come out the same to the last bit.

        Args:
            work: start, stop → one JSON value for each of the rows.
            chunk: rows a chunk.
            what: the progress bar's label.
            cost: a running count (LM tokens read), whose increase is kept with each chunk.
            shard: make that part of the rows only, and return it. Without one, the rows that shards made
                are verified and taken (`shards.merged`).
            engine: makes the chunks elsewhere, instead of `work`.
        """
        if shard:
            (self.folder / shard.file).parent.mkdir(exist_ok=True)
        journal = Journal(self.folder / (shard.file if shard else "rows.jsonl"), "start")
        starts: Sequence[int] = range(0, total, chunk)
        if shard:
            starts = shard.chunks(starts)
        missing = [start for start in starts if start not in journal.lines]
        if missing and not shard:
            journal.append(
                [line for line in merged(self.folder, total, chunk) if line["start"] not in journal.lines]
            )
            missing = [start for start in missing if start not in journal.lines]
        if missing:

            def here(spans: Sequence[tuple[int, int]]) -> Iterator[Chunk]:
                for start, stop in spans:
                    yield timed_chunk(work, start, stop, cost)

            rows = {start: min(chunk, total - start) for start in starts}
            count = sum(rows.values())
            with tqdm(total=count, initial=count - sum(rows[start] for start in missing), desc=what) as bar:
                for line in (engine or here)([(start, start + rows[start]) for start in missing]):
                    journal.append([line])
                    bar.update(rows[line["start"]])
        lines = [journal.lines[start] for start in starts]
        return Rows([row for line in lines for row in line["rows"]], lines)

    def keyed_rows(
        self,
        keys: Sequence[str],
        work: Callable[[list[str]], list[Any]],
        *,
        chunk: int,
        what: str,
        cost: Callable[[], int] = lambda: 0,
    ) -> Rows:
        """The row of each key, in order; `work(some keys)` for those that are not in the log yet.

        For rows that depend on their key alone: other keys may come later, and only they are worked on.
        A chunk's cost is shared out evenly over its rows; a key that is asked for twice costs once.
        """
        journal = Journal(self.folder / "keyed_rows.jsonl", "key")
        asked = list(dict.fromkeys(keys))
        missing = [key for key in asked if key not in journal.lines]
        if missing:
            with tqdm(total=len(asked), initial=len(asked) - len(missing), desc=what) as bar:
                for start in range(0, len(missing), chunk):
                    some = missing[start : start + chunk]
                    rows, seconds, tokens = measured(partial(work, some), len(some), cost)
                    each = {"seconds": round(seconds / len(some), 4), "tokens": tokens / len(some)}
                    journal.append(
                        [{"key": key, "row": row, **each} for key, row in zip(some, rows, strict=True)]
                    )
                    bar.update(len(some))
        return Rows([journal.lines[key]["row"] for key in keys], [journal.lines[key] for key in asked])


def _of(record: Mapping[str, Any]) -> str:
    """The checksum of what done.json says."""
    # as it will be read back: keys are strings by then
    return digest(json.loads(json.dumps([record["summary"], record["files"]])))
