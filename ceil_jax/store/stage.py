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

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ceil_jax.store.journal import Journal, read_lines
from ceil_jax.store.locking import file_sha256, held
from ceil_jax.store.shards import Shard, merged

log = logging.getLogger(__name__)

Line = Mapping[str, Any]
"""A chunk in a journal of rows: start, rows, seconds, tokens."""

Engine = Callable[[Sequence[tuple[int, int]]], Iterable[Line]]
"""The lines of chunks (start, stop), in any order."""


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, dataclasses as objects."""

    def plain(item: Any) -> Any:
        if is_dataclass(item) and not isinstance(item, type):
            return {field.name: getattr(item, field.name) for field in fields(item)}
        if isinstance(item, np.ndarray):
            content = hashlib.sha256(np.ascontiguousarray(item).data).hexdigest()
            return [str(item.dtype), list(item.shape), content]
        if isinstance(item, Mapping):
            return dict(item)
        if isinstance(item, Path):
            return str(item)
        raise TypeError(f"{type(item).__name__} cannot be part of a stage's key")

    return json.dumps(value, default=plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """16 hex digits that stand for the value; arrays count by their bytes."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


class Store:
    """A folder of stages; in a job of several processes one of them `leads` and writes, the others read."""

    def __init__(self, root: Path | str, *, leads: bool = True) -> None:
        self.root, self._leads = Path(root), leads

    def finished(self, kind: str, key: Mapping[str, Any]) -> Stage | None:
        """The stage if it is there and done; nothing is made, and nothing waited for."""
        stage = Stage(self.root / f"{kind}-{digest(key)}")
        return stage if stage.summary is not None else None

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        """The stage's folder, made if need be and held by this process alone until the block ends.

        A shard holds its own part of it only.

        Raises:
            UserError: the disk is full or the folder cannot be written.
        """
        folder = self.root / f"{kind}-{digest(key)}"
        if not self._leads:
            yield Followed(folder)
            return
        with held(folder, f".lock-{shard.number}-of-{shard.of}" if shard else ".lock"):
            stage = Stage(folder)
            content = (canonical(key) + "\n").encode()
            file = folder / "key.json"
            if not file.exists() or file.read_bytes() != content:
                if file.exists():
                    log.warning("%s is damaged; writing it again", file)
                stage.write("key.json", content)
            yield stage


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

            def here(spans: Sequence[tuple[int, int]]) -> Iterator[Line]:
                for start, stop in spans:
                    yield timed_line(work, start, stop, cost)

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
                    rows, seconds, tokens = _measured(partial(work, some), len(some), cost)
                    each = {"seconds": round(seconds / len(some), 4), "tokens": tokens / len(some)}
                    journal.append(
                        [{"key": key, "row": row, **each} for key, row in zip(some, rows, strict=True)]
                    )
                    bar.update(len(some))
        return Rows([journal.lines[key]["row"] for key in keys], [journal.lines[key] for key in asked])


class Followed(Stage):
    """A stage as the processes that do not lead see it: they write nothing and wait for what they read."""

    leads = False

    @property
    def summary(self) -> dict[str, Any] | None:
        return self.peek()

    def write(self, file: str, content: bytes) -> None:
        pass

    def save(self, file: str, array: np.ndarray) -> None:
        pass

    def load(self, file: str) -> np.ndarray:
        self._wait(lambda: (self.folder / file).exists())
        return super().load(file)

    def finish(self, summary: Mapping[str, Any], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """The leader's summary."""
        self._wait(lambda: self.summary is not None)
        found = self.summary
        assert found is not None
        return found

    def rows(self, total: int, work: Any, *, chunk: int, **_: Any) -> Rows:
        lines = self._lines("rows.jsonl", "start", range(0, total, chunk))
        return Rows([row for line in lines for row in line["rows"]], lines)

    def keyed_rows(self, keys: Sequence[str], work: Any, **_: Any) -> Rows:
        asked = list(dict.fromkeys(keys))
        lines = self._lines("keyed_rows.jsonl", "key", asked)
        row = {line["key"]: line["row"] for line in lines}
        return Rows([row[key] for key in keys], lines)

    def _lines(self, file: str, key: str, wanted: Sequence[Any]) -> list[Mapping[str, Any]]:
        found: dict[Any, Mapping[str, Any]] = {}

        def complete() -> bool:
            found.update(read_lines(self.folder / file, key))
            return all(place in found for place in wanted)

        self._wait(complete)
        return [found[place] for place in wanted]

    @staticmethod
    def _wait(ready: Callable[[], bool]) -> None:
        while not ready():
            time.sleep(0.5)


def timed_line(
    work: Callable[[int, int], list[Any]], start: int, stop: int, cost: Callable[[], int]
) -> dict[str, Any]:
    """A chunk's line for a journal: its rows, the seconds they took and by how much `cost` grew."""
    rows, seconds, tokens = _measured(partial(work, start, stop), stop - start, cost)
    return {"start": start, "rows": rows, "seconds": seconds, "tokens": tokens}


def _measured(
    work: Callable[[], list[Any]], count: int, cost: Callable[[], int]
) -> tuple[list[Any], float, int]:
    """The rows that `work` gives, the seconds it took and by how much `cost` grew."""
    began, before = time.perf_counter(), cost()
    rows = work()
    if len(rows) != count:
        raise ValueError(f"{len(rows)} rows for {count} places")
    return rows, round(time.perf_counter() - began, 3), cost() - before


@dataclass(frozen=True)
class Cost:
    """What work took, over all the processes that took part in it."""

    seconds: float
    tokens: int = 0
    """Read by the LM."""


class Rows(list):
    """A stage's rows in order, with what they cost over all the processes that made them."""

    def __init__(self, rows: list[Any], lines: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(rows)
        self.seconds: float = sum(line["seconds"] for line in lines)
        self.tokens: int = round(sum(line["tokens"] for line in lines))


def _of(record: Mapping[str, Any]) -> str:
    """The checksum of what done.json says."""
    # as it will be read back: keys are strings by then
    return digest(json.loads(json.dumps([record["summary"], record["files"]])))
