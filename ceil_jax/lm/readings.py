"""Readings of language models, by content: each prompt is read once, whoever asks.

One SQLite file lies below all stages of a folder of runs. A reading is the answer to one request:
(LM, prompt, choices) → log-probabilities, or (LM, prompt, how to generate) → text, with the tokens
and seconds that it took. Each chunk of prompts is one transaction, so that a kill loses at most the
chunks that are being read: one of a local LM, one request each of a server's. Shards fill files of
their own beside it (`readings-3-of-16.sqlite`), which are copied into it when it is next opened.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ceil_jax.lm.answers import Answer, stored_answer
from ceil_jax.lm.base import LanguageModel, check_choices
from ceil_jax.lm.lazy import Lazy
from ceil_jax.lm.readings_file import ReadingsFile, Row, checksum
from ceil_jax.store.cost import Cost
from ceil_jax.store.locking import disk_errors
from ceil_jax.store.progress import bar
from ceil_jax.store.shards import Shard

log = logging.getLogger(__name__)

FILE = "readings.sqlite"

BLOCK = 2**16
"""Requests that are made, looked up and read before the next are made: some hundred megabytes of
prompts. A multiple of what any LM reads at a time."""

_SHARDS = "readings-*.sqlite"
"""The files of shards, as a pattern."""


class LMRequest(NamedTuple):
    """One prompt, and what an LM is asked about it."""

    prompt: str
    choices: tuple[str, ...] = ()
    """Continuations to score; none to generate."""
    per_token: bool = False
    limit: int = 0
    """Tokens to generate at most."""
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0

    def key(self, lm: str) -> bytes:
        """Return 16 bytes that stand for the request and the LM it is made of."""
        return hashlib.sha256(json.dumps([lm, *self]).encode()).digest()[:16]


class Reading(NamedTuple):
    """The answer to a request: a log-probability for each choice, in nats, or what was written
    (`Answer.stored`)."""

    value: Any
    cost: Cost


def read_chunk(lm: LanguageModel, requests: Sequence[LMRequest], sharing: int = 1) -> list[Reading]:
    """Return the readings of some requests, with their cost shared out by their lengths in
    characters.

    All of them score, or all of them generate with the same settings but for the seed. So many
    chunks are read at a time, `sharing` the seconds.
    """
    prompts, first_request = [request.prompt for request in requests], requests[0]
    began, before = time.perf_counter(), lm.tokens_read
    values: Sequence[Any]
    if first_request.choices:
        choices = [request.choices for request in requests]
        scores = lm.choice_log_likelihood(prompts, choices, per_token=first_request.per_token)
        values = [row.tolist() for row in scores]
    else:
        seeds = [request.seed for request in requests]
        written = lm.written(
            prompts, first_request.limit, first_request.stop, first_request.temperature, seeds
        )
        values = [answer.stored() for answer in written]
    lengths = [1 + len(request.prompt) + sum(map(len, request.choices)) for request in requests]
    upto = np.cumsum([0, *lengths]) / sum(lengths)
    seconds = np.diff(upto * (time.perf_counter() - began) / sharing).tolist()
    # whole numbers that add up to the tokens read
    tokens = np.diff((upto * (lm.tokens_read - before)).round().astype(int)).tolist()
    return [
        Reading(value, Cost(*cost)) for value, *cost in zip(values, seconds, tokens, strict=True)
    ]


ReadChunks = Callable[[Sequence[Sequence[LMRequest]]], Iterable[tuple[int, list[Reading]]]]
"""Reads chunks of requests: yields each chunk's number and its readings, in any order."""

Reader = Callable[[int], AbstractContextManager[ReadChunks]]
"""Prepares to read at most so many requests, in one block of chunks after another."""


class Readings:
    """Readings in a folder of runs, by the key of their request; new ones are kept in the file of
    the shard, if any.

    A damaged file is set aside with a warning, and what can be read of it is kept
    (`readings_file`).

    Raises:
        UserError: by every method, if the disk is full, or a file cannot be read or written.
    """

    def __init__(self, folder: Path, shard: Shard | None = None) -> None:
        self._folder = folder
        self._shard = shard
        self._shared = ReadingsFile(folder / FILE)
        self._own = ReadingsFile(folder / shard.file) if shard else self._shared
        self._is_ready = False

    @property
    def shards(self) -> bool:
        """Whether shards have left files of readings."""
        return any(self._folder.glob(_SHARDS))

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Reading]:
        """Return the readings that are there, by their keys."""
        readings: dict[bytes, Reading] = {}
        if not (self.shards or self._shared.path.exists()):
            return readings
        files = [self._database]
        if self._shard and self._shared.path.exists():
            files.append(self._shared)
        for file in files:
            for row in file.find(keys):
                if row.is_whole:
                    readings[row.key] = Reading(
                        json.loads(row.value), Cost(row.seconds, row.tokens)
                    )
                else:
                    log.warning("%s: a damaged reading; reading that prompt again", file.path)
        return readings

    def keep(self, readings: Mapping[bytes, Reading]) -> None:
        """Keep readings by their keys; they are on the disk when this returns."""
        rows = []
        for key, (value, cost) in readings.items():
            content = key, json.dumps(value), cost.tokens, float(cost.seconds)
            rows.append(Row(*content, checksum(*content)))
        with disk_errors(self._folder):
            self._database.add(rows, replace=True)

    @property
    def _database(self) -> ReadingsFile:
        """The file that new readings go into, with those of shards copied in where it is the one of
        all."""
        if not self._is_ready:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._own.prepare()
            if self._shard is None:
                for path in sorted(self._folder.glob(_SHARDS)):
                    shard = ReadingsFile(path)
                    for rows in shard.whole_rows():
                        self._own.add(rows, replace=False)
                    shard.close()
            self._is_ready = True
        return self._own

    def close(self) -> None:
        """Close the files; they are opened again when they are next asked."""
        self._own.close()
        self._shared.close()
        self._is_ready = False


class ReadingMeter:
    """The readings that were asked for while it ran, each once, whether they were read now or
    before."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self.cost = Cost()
        self.now = Cost()
        """The part that was read now."""
        self.requests = 0

    def enter(self, key: bytes, cost: Cost, now: bool) -> None:
        if key not in self._keys:
            self._keys.add(key)
            self.requests += 1
            self.cost += cost
            self.now += cost if now else Cost()


class CachedLM(LanguageModel):
    """A language model that reads each prompt once: an LM over its readings.

    A prompt that has no reading yet is read by `lm`, or elsewhere by `reader`. A process with a
    shard reads only its own chunks of prompts; for the others it returns 0 or "" where no reading
    is kept. Prompts may be `Lazy`: those of one block are in memory at a time.
    """

    def __init__(
        self,
        lm: LanguageModel,
        readings: Readings,
        reader: Reader | None = None,
        shard: Shard | None = None,
    ) -> None:
        self.lm, self.readings = lm, readings
        self.name, self.context_length, self.can_score = lm.name, lm.context_length, lm.can_score
        self.ends_itself = lm.ends_itself
        self._reader = reader
        self._shard = shard
        self._meters: list[ReadingMeter] = []
        self._what = "reading prompts"

    @property
    def tokens_read(self) -> int:
        return self.lm.tokens_read

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.lm.count_tokens(texts))

    @contextmanager
    def metered(self, what: str = "") -> Iterator[ReadingMeter]:
        """Yield a meter of the readings that are asked for inside the block; progress shows `what`
        they are for."""
        self._meters.append(meter := ReadingMeter())
        before, self._what = self._what, what or self._what
        try:
            yield meter
        finally:
            self._meters.remove(meter)
            self._what = before

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> list[np.ndarray]:
        check_choices(choices)
        if len(prompts) != len(choices):
            raise ValueError(f"{len(prompts)} prompts and {len(choices)} lists of choices")
        requests = Lazy(
            len(prompts), lambda row: LMRequest(prompts[row], tuple(choices[row]), per_token)
        )
        return [np.array(value, np.float64) for value in self._read(requests, "score")]

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        stops = tuple(stop)
        requests = Lazy(
            len(prompts),
            lambda row: LMRequest(
                prompts[row],
                limit=limit,
                stop=stops,
                temperature=temperature,
                seed=seeds[row] if temperature else 0,
            ),
        )
        return [stored_answer(value) for value in self._read(requests, "write")]

    def missing(self, requests: Sequence[LMRequest]) -> int:
        """Return how many of the distinct requests have not been read."""
        keys = {request.key(self.name) for request in requests}
        return len(keys) - len(self.readings.find(list(keys)))

    def _read(self, requests: Sequence[LMRequest], kind: str) -> list[Any]:
        """Return the value of each request; all of them "score", or all of them "write".

        Requests are made a block at a time, so that the prompts of one block alone are in memory.
        """
        values: list[Any] = []
        groups = 0
        with ExitStack() as stack:
            read: ReadChunks | None = None
            progress: Any = None
            for start in range(0, len(requests), BLOCK):
                block = requests[start : start + BLOCK]
                keys = [request.key(self.name) for request in block]
                distinct = dict(zip(keys, block, strict=True))
                before = self.readings.find(list(distinct))
                chunks = self._chunks(distinct, before, groups, kind)
                groups += -(-len(distinct) // LanguageModel.at_once[kind])
                if chunks and read is None:
                    if self._shard is None and self.readings.shards:
                        message = "%s: some prompts were read by no shard; reading them here"
                        log.warning(message, self._what)
                    reader = self._reader or self._here
                    read = stack.enter_context(reader(len(requests) - start))
                known = len(block) - sum(map(len, chunks))
                if progress is not None:
                    progress.update(known)
                elif chunks or len(requests) > BLOCK:
                    progress = stack.enter_context(
                        bar(len(requests), self._what, initial=start + known)
                    )
                readings_by_key = dict(before)
                groups_to_read = [[distinct[key] for key in chunk] for chunk in chunks]
                for number, readings in read(groups_to_read) if read else ():
                    new = dict(zip(chunks[number], readings, strict=True))
                    self.readings.keep(new)
                    readings_by_key |= new
                    progress.update(len(new))
                for meter in self._meters:
                    for key, reading in readings_by_key.items():
                        meter.enter(key, reading.cost, key not in before)
                values += [_value(readings_by_key.get(key), distinct[key]) for key in keys]
        return values

    def _chunks(
        self,
        requests: Mapping[bytes, LMRequest],
        before: Mapping[bytes, Reading],
        groups: int,
        kind: str,
    ) -> list[list[bytes]]:
        """Return the keys of a block's requests that this process has to read, in chunks of what is
        read at a time. `before` holds the readings that are kept already, and `groups` is the
        number of groups in the blocks before this one."""
        # groups of one size whatever the LM, so that shards agree on them and actors have even
        # shares
        size = LanguageModel.at_once[kind]
        missing = [
            key
            for position, key in enumerate(requests)
            if key not in before
            and (self._shard is None or self._shard.owns(groups + position // size))
        ]
        size = size if self._reader else self.lm.at_once[kind]
        return [missing[start : start + size] for start in range(0, len(missing), size)]

    @contextmanager
    def _here(self, requests: int) -> Iterator[ReadChunks]:
        """A reader that asks the LM of this process."""

        def read(chunks: Sequence[Sequence[LMRequest]]) -> Iterator[tuple[int, list[Reading]]]:
            sharing = min(self.lm.in_flight, max(1, len(chunks)))
            return self.lm.each(partial(read_chunk, self.lm, sharing=sharing), chunks)

        yield read


def _value(reading: Reading | None, request: LMRequest) -> Any:
    """Return the value of a reading; zeros or an empty text for one that another shard reads."""
    if reading is not None:
        return reading.value
    return [0.0] * len(request.choices) or ""
