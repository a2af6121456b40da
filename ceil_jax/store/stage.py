"""One stage on disk: a folder named by the hash of everything that the stage depends on.

```
runs/
  scores-3f9a0c…/      key.json     what this stage depends on, readable; its hash is in the folder's name
                       rows.jsonl   a journal: append-only, a checksum and the stage's name in each line
                                    (keyed_rows.jsonl where rows have names and may grow in number)
                       shards/      journals of jobs that made some of the rows each
                       scratch/     what only the unfinished stage needs, as checkpoints
                       done.json    written last: the summary, the stage's name, the sha256 of its files
```

Content that was copied from another stage, or changed, is not taken: it is computed again, and a warning says so.
Stages written before rows and summaries carried their stage's name are taken as they are while key.json is whole.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ceil_jax.store.hashing import digest, file_sha256, text_digest
from ceil_jax.store.journal import Accept, Journal, read_lines
from ceil_jax.store.locking import appearing
from ceil_jax.store.rows import Chunk, Engine, Rows, chunk_length, measured, timed_chunk
from ceil_jax.store.shards import Shard, merged

log = logging.getLogger(__name__)

KEY, DONE, ROWS, KEYED_ROWS = "key.json", "done.json", "rows.jsonl", "keyed_rows.jsonl"


class Stage:
    """One stage's folder. Files in it appear whole or not at all.

    Args:
        folder: `KIND-HASH`, where HASH is the digest of the stage's key.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._takes_unnamed = True

    @property
    def name(self) -> str:
        """`KIND-HASH`; other stages put it into their keys to depend on this one."""
        return self.folder.name

    @property
    def scratch(self) -> Path:
        """The folder of what only the unfinished stage needs; it is removed when the stage is done."""
        return self.folder / "scratch"

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary that `finish` was given; None while the stage is unfinished or one of its files is damaged."""
        done = self.folder / DONE
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
        """Return `summary` for a reader that does not hold the stage: nothing on disk changes."""
        key = self.folder / KEY
        if key.exists() and text_digest(key.read_bytes().removesuffix(b"\n")) != self.name.rpartition("-")[2]:
            return None
        return self._checked()[0]

    def _checked(self) -> tuple[dict[str, Any] | None, Path | None]:
        """(summary, None), or (None, the first file that is missing, damaged or another stage's)."""
        done = self.folder / DONE
        try:
            record = json.loads(content := done.read_bytes())
            files, summary = record["files"].items(), record["summary"]
            if not self._signed(record, content):
                return None, done
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None, done
        for file, sha256 in files:
            path = self.folder / file
            if not path.is_file() or file_sha256(path) != sha256:
                return None, path
        return summary, None

    def _signed(self, record: Mapping[str, Any], content: bytes) -> bool:
        """Whether done.json is what `finish` wrote, in this stage's folder."""
        if "stage" in record:
            # to the byte: a line that stands twice changes nothing that is read, but was not written so
            signed = (record["stage"], record["checksum"]) == (self.name, _checksum(record))
            return signed and content == _text(record)
        # of a version that did not write the stage's name, or no checksum either
        return self._takes_unnamed and record.get("checksum", _checksum(record)) == _checksum(record)

    def distrust(self) -> None:
        """Take only what carries this stage's name from now on: the key in its folder is damaged or another's."""
        self._takes_unnamed = False
        shutil.rmtree(self.scratch, ignore_errors=True)

    def owns(self, line: Chunk) -> bool:
        """Return whether a journal's line is of this stage."""
        return line.get("stage", self.name if self._takes_unnamed else None) == self.name

    def accepts(self, total: int, chunk: int) -> Accept:
        """Return what tells whether a line is one of the chunks that this stage's rows are cut into, and whole."""
        return lambda line: (
            self.owns(line) and 0 < len(line["rows"]) == chunk_length(line["start"], total, chunk)
        )

    def write(self, file: str, content: bytes, *, part: str = ".part") -> None:
        """Write a file beside its place, flush it to the disk, and rename it into place.

        Args:
            file: its path in the stage's folder.
            content: all of it.
            part: the suffix while it is written; another one for each process that may write at the same time.
        """
        with appearing(self.folder / file, part) as out:
            out.write(content)

    def save(self, file: str, array: np.ndarray) -> None:
        """Write an array as `.npy`, whole or not at all.

        Args:
            file: its path in the stage's folder.
            array: of any shape and dtype that needs no pickle.
        """
        with appearing(self.folder / file) as out:
            np.save(out, array)

    def load(self, file: str) -> np.ndarray:
        """Return an array that `save` wrote, memory-mapped."""
        return np.load(self.folder / file, mmap_mode="r")

    def finish(self, summary: Mapping[str, Any], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """Mark the stage done.

        Args:
            summary: JSON values that `summary` gives from now on.
            files: paths in the stage's folder, whose content is checked each time the stage is used again.

        Returns:
            The summary.
        """
        record: dict[str, Any] = {
            "summary": dict(summary),
            "files": {file: file_sha256(self.folder / file) for file in files},
            "stage": self.name,
        }
        self.write(DONE, _text({**record, "checksum": _checksum(record)}))
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
        """Return all rows, computing the chunks that are not in the journal yet and appending them to it.

        Chunks are cut the same way every time. An LM therefore sees the same batches whether or not the process was
        killed half-way, and the rows are the same to the last bit.

        Args:
            total: rows in all.
            work: (start, stop) -> one JSON value a row.
            chunk: rows a chunk.
            what: the progress bar's label.
            cost: a running count (of LM tokens read), whose increase is kept with each chunk; none by default.
            shard: make and return only that part of the rows. Without one, the rows that shards made are checked
                and taken (`shards.merged`).
            engine: makes the chunks elsewhere, in place of `work`.

        Raises:
            UserError: some shards' rows are missing, or two shards disagree.
        """
        file = self.folder / (shard.file if shard else ROWS)
        if shard:
            file.parent.mkdir(exist_ok=True)
        journal = Journal(file, "start", self.accepts(total, chunk))
        starts: Sequence[int] = range(0, total, chunk)
        if shard:
            starts = shard.chunks(starts)
        missing = [start for start in starts if start not in journal.lines]
        if missing and not shard:
            others = merged(self.folder, total, chunk, self.owns)
            journal.append([line for line in others if line["start"] not in journal.lines])
            missing = [start for start in missing if start not in journal.lines]
        if missing:

            def here(spans: Sequence[tuple[int, int]]) -> Iterator[Chunk]:
                for start, stop in spans:
                    yield timed_chunk(work, start, stop, cost)

            lengths = {start: chunk_length(start, total, chunk) for start in starts}
            count = sum(lengths.values())
            with tqdm(
                total=count, initial=count - sum(lengths[start] for start in missing), desc=what
            ) as bar:
                for line in (engine or here)([(start, start + lengths[start]) for start in missing]):
                    journal.append([{"stage": self.name, **line}])
                    bar.update(lengths[line["start"]])
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
        """Return the row of each key, in order, computing those that are not in the journal yet.

        For rows that depend on nothing but their key: other keys may be asked for later, and only they are worked on.

        Args:
            keys: one for each row wanted; a key that is given twice costs once.
            work: some keys -> one JSON value a key.
            chunk: keys that `work` is given at a time.
            what: the progress bar's label.
            cost: as in `rows`; a chunk's cost is shared out evenly over its rows.
        """
        journal = Journal(self.folder / KEYED_ROWS, "key", self.owns)
        asked = list(dict.fromkeys(keys))
        missing = [key for key in asked if key not in journal.lines]
        if missing:
            with tqdm(total=len(asked), initial=len(asked) - len(missing), desc=what) as bar:
                for start in range(0, len(missing), chunk):
                    some = missing[start : start + chunk]
                    rows, seconds, tokens = measured(partial(work, some), len(some), cost)
                    each = {"seconds": round(seconds / len(some), 4), "tokens": tokens / len(some)}
                    named = zip(some, rows, strict=True)
                    journal.append(
                        [{"stage": self.name, "key": key, "row": row, **each} for key, row in named]
                    )
                    bar.update(len(some))
        return Rows([journal.lines[key]["row"] for key in keys], [journal.lines[key] for key in asked])

    def missing_rows(self, total: int, chunk: int) -> list[int]:
        """Return the first rows of the chunks that `rows` would compute. Nothing on disk changes."""
        lines = read_lines(self.folder / ROWS, "start", self.accepts(total, chunk))
        return [start for start in range(0, total, chunk) if start not in lines]

    def missing_keys(self, keys: Sequence[str]) -> list[str]:
        """Return the keys whose rows `keyed_rows` would compute, each once. Nothing on disk changes."""
        lines = read_lines(self.folder / KEYED_ROWS, "key", self.owns)
        return [key for key in dict.fromkeys(keys) if key not in lines]

    def rows_so_far(self) -> list[Any]:
        """Return the rows that are in the journal, in order. Nothing on disk changes."""
        lines = read_lines(self.folder / ROWS, "start", self.owns).values()
        return [row for line in sorted(lines, key=lambda line: line["start"]) for row in line["rows"]]


def _text(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()


def _checksum(record: Mapping[str, Any]) -> str:
    """The checksum of what done.json says; the stage's name is part of it where it is given."""
    content = [record["summary"], record["files"], *([record["stage"]] if "stage" in record else [])]
    # as it will be read back: keys are strings by then
    return digest(json.loads(json.dumps(content)))
