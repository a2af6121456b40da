"""A cache of the readings of language models, by content, so that each prompt is read once.

One SQLite file serves all stages of a folder of runs. A reading is the answer to a request: (LM,
prompt, choices) → log-probabilities, or (LM, prompt, settings of generation) → text, with the
tokens and seconds that it took. Each chunk of prompts is one transaction, so that a kill loses at
most the chunks that are being read. Shards write files of their own beside it
(`readings-3-of-16.sqlite`), which are copied into it when it is next opened.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
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
"""Number of requests that are made, looked up and read at a time: some hundred megabytes of
prompts. It is a multiple of the group size of every LM."""

_SHARDS = "readings-*.sqlite"
"""The pattern of the names of shards' files."""


class LMRequest(NamedTuple):
    """A request to an LM: a prompt, with choices to score or settings of generation; or for its
    hidden states."""

    prompt: str
    choices: tuple[str, ...] = ()
    """The continuations to score; empty to generate."""
    per_token: bool = False
    limit: int = 0
    """The most tokens to generate."""
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0
    states: bool = False
    """Whether the prompt's hidden states are requested, and neither scores nor a text."""

    def key(self, lm: str) -> bytes:
        """Return 16 bytes that identify the request to an LM."""
        *others, states = self
        content = [lm, *others]
        if states:
            # only where it is set: requests had no such field before, and keep their keys
            content.append("states")
        return hashlib.sha256(json.dumps(content).encode()).digest()[:16]


class Reading(NamedTuple):
    """The answer to a request: a log-probability for each choice, in nats; a generated text
    (`Answer.stored`); or hidden states (`stored_states`)."""

    value: Any
    cost: Cost


def read_chunk(lm: LanguageModel, requests: Sequence[LMRequest], sharing: int = 1) -> list[Reading]:
    """Return the readings of some requests. The cost is divided among them by their lengths in
    characters.

    All of them score, or all generate with the same settings except the seed, or all ask for hidden
    states. `sharing` is the number of chunks that are read at the same time, which share the
    seconds.
    """
    prompts = [request.prompt for request in requests]
    first_request = requests[0]
    began = time.perf_counter()
    before = lm.tokens_read
    values: Sequence[Any]
    if first_request.states:
        values = [stored_states(states) for states in lm.states(prompts)]
    elif first_request.choices:
        choices = [request.choices for request in requests]
        scores = lm.choice_log_likelihood(prompts, choices, per_token=first_request.per_token)
        values = [row.tolist() for row in scores]
    else:
        seeds = [request.seed for request in requests]
        written = lm.written(
            prompts, first_request.limit, first_request.stop, first_request.temperature, seeds
        )
        values = [answer.stored() for answer in written]
    seconds = (time.perf_counter() - began) / sharing
    tokens = lm.tokens_read - before
    lengths = [1 + len(request.prompt) + sum(map(len, request.choices)) for request in requests]
    # the share of the cost of all requests up to each one
    shares = np.cumsum([0, *lengths]) / sum(lengths)
    seconds_of_each = np.diff(shares * seconds)
    # whole numbers that add up to the tokens read
    tokens_of_each = np.diff((shares * tokens).round().astype(int))
    return [
        Reading(value, Cost(seconds_of_one, tokens_of_one))
        for value, seconds_of_one, tokens_of_one in zip(
            values, seconds_of_each.tolist(), tokens_of_each.tolist(), strict=True
        )
    ]


def stored_states(states: np.ndarray) -> list[Any]:
    """Return the hidden states of a text, float32 [2, D], as they stand in a reading."""
    return [base64.b64encode(states.astype("<f4").tobytes()).decode(), states.shape[-1]]


def states_of(stored: Sequence[Any]) -> np.ndarray:
    """Return the hidden states of a text, float32 [2, D], from a reading."""
    content, width = stored
    return np.frombuffer(base64.b64decode(content), "<f4").reshape(-1, width)


ReadChunks = Callable[[Sequence[Sequence[LMRequest]]], Iterable[tuple[int, list[Reading]]]]
"""A function that reads chunks of requests and yields each chunk's number and readings, in any
order."""

Reader = Callable[[int], AbstractContextManager[ReadChunks]]
"""A context manager, made from the most requests that will be read, that gives a `ReadChunks`."""


class Readings:
    """The stored readings of a folder of runs, by the key of their request. New ones are written
    into the shard's file, if there is a shard.

    A damaged file is moved away with a warning, and its readable rows are kept (`readings_file`).

    Raises:
        UserError: from every method, if the disk is full, or a file cannot be read or written.
    """

    def __init__(self, folder: Path, shard: Shard | None = None) -> None:
        self._folder = folder
        self._shard = shard
        self._shared = ReadingsFile(folder / FILE)
        self._target = ReadingsFile(folder / shard.file) if shard else self._shared
        self._is_ready = False

    @property
    def shards(self) -> bool:
        """Whether shards have left files of readings."""
        return any(self._folder.glob(_SHARDS))

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Reading]:
        """Return the stored readings among some keys, by key."""
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
        """Store readings by key. They are on the disk when this returns."""
        rows = []
        for key, (value, cost) in readings.items():
            content = key, json.dumps(value), cost.tokens, float(cost.seconds)
            rows.append(Row(*content, checksum(*content)))
        with disk_errors(self._folder):
            self._database.add(rows, replace=True)

    @property
    def _database(self) -> ReadingsFile:
        """The file for new readings. If it is the shared one, the readings of shards are first
        copied into it."""
        if not self._is_ready:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._target.prepare()
            if self._shard is None:
                for path in sorted(self._folder.glob(_SHARDS)):
                    shard = ReadingsFile(path)
                    for rows in shard.whole_rows():
                        self._target.add(rows, replace=False)
                    shard.close()
            self._is_ready = True
        return self._target

    def close(self) -> None:
        """Close the files. They are opened again on next use."""
        self._target.close()
        self._shared.close()
        self._is_ready = False


class ReadingMeter:
    """Counts the readings that are requested while it runs, each once, whether they are read now or
    were before."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self.cost = Cost()
        self.now = Cost()
        """The part of `cost` that was read now."""
        self.requests = 0

    def enter(self, key: bytes, cost: Cost, now: bool) -> None:
        if key not in self._keys:
            self._keys.add(key)
            self.requests += 1
            self.cost += cost
            self.now += cost if now else Cost()


class CachedLM(LanguageModel):
    """A language model behind a cache of readings, so that it reads each prompt once.

    A prompt without a stored reading is read by `lm`, or elsewhere by `reader`. A process with a
    shard reads only its own chunks of prompts; for other prompts without a reading it returns 0 or
    "". Prompts may be `Lazy`: only those of one block are in memory.
    """

    def __init__(
        self,
        lm: LanguageModel,
        readings: Readings,
        reader: Reader | None = None,
        shard: Shard | None = None,
    ) -> None:
        self.lm = lm
        self.readings = readings
        self.name = lm.name
        self.context_length = lm.context_length
        self.can_score = lm.can_score
        self.has_states = lm.has_states
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
        """Yield a meter of the readings that are requested inside the block. `what` describes them
        in progress bars."""
        meter = ReadingMeter()
        self._meters.append(meter)
        before = self._what
        self._what = what or before
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

    def states(self, texts: Sequence[str]) -> np.ndarray:
        if not self.has_states:
            return self.lm.states(texts)  # which says that there are none
        requests = Lazy(len(texts), lambda row: LMRequest(texts[row], states=True))
        return np.stack([states_of(value) for value in self._read(requests, "states")])

    def missing(self, requests: Sequence[LMRequest]) -> int:
        """Return how many of the distinct requests have not been read."""
        keys = {request.key(self.name) for request in requests}
        return len(keys) - len(self.readings.find(list(keys)))

    def _read(self, requests: Sequence[LMRequest], kind: str) -> list[Any]:
        """Return the value of each request. `kind` is "score", "write" or "states", for all of
        them.

        Requests are made one block at a time, so that only the prompts of one block are in memory.
        """
        values: list[Any] = []
        first_group = 0
        with ExitStack() as stack:
            read: ReadChunks | None = None
            progress: Any = None
            for start in range(0, len(requests), BLOCK):
                block = requests[start : start + BLOCK]
                keys = [request.key(self.name) for request in block]
                distinct = dict(zip(keys, block, strict=True))
                stored = self.readings.find(list(distinct))
                # the keys that this process has to read, in chunks that are read together
                chunks = self._chunks(distinct, stored, first_group, kind)
                first_group += math.ceil(len(distinct) / LanguageModel.at_once[kind])
                # reader and progress bar are opened once, for the first block that needs them
                if chunks and read is None:
                    if self._shard is None and self.readings.shards:
                        message = "%s: some prompts were read by no shard; reading them here"
                        log.warning(message, self._what)
                    reader = self._reader or self._here
                    read = stack.enter_context(reader(len(requests) - start))
                stored_requests = len(block) - sum(map(len, chunks))
                if progress is not None:
                    progress.update(stored_requests)
                elif chunks or len(requests) > BLOCK:
                    progress = stack.enter_context(
                        bar(len(requests), self._what, initial=start + stored_requests)
                    )
                readings_by_key = dict(stored)
                if chunks:
                    assert read is not None, "opened above"
                    requests_of_chunks = [[distinct[key] for key in chunk] for chunk in chunks]
                    for number, readings in read(requests_of_chunks):
                        new = dict(zip(chunks[number], readings, strict=True))
                        self.readings.keep(new)
                        readings_by_key |= new
                        progress.update(len(new))
                for meter in self._meters:
                    for key, reading in readings_by_key.items():
                        meter.enter(key, reading.cost, key not in stored)
                values += [_value(readings_by_key.get(key), distinct[key]) for key in keys]
        return values

    def _chunks(
        self,
        requests: Mapping[bytes, LMRequest],
        stored: Mapping[bytes, Reading],
        first_group: int,
        kind: str,
    ) -> list[list[bytes]]:
        """Return the keys of a block's requests that this process has to read, in chunks that are
        read together.

        Requests are dealt to shards in groups of consecutive ones.

        Args:
            requests: the requests of the block, by key.
            stored: the readings of those that were read before.
            first_group: the number of the block's first group.
            kind: "score", "write" or "states".
        """
        # groups have the same size for every LM, so that shards agree on them and actors have equal
        # shares
        size = LanguageModel.at_once[kind]

        def is_ours(position: int) -> bool:
            return self._shard is None or self._shard.owns(first_group + position // size)

        missing = [
            key for position, key in enumerate(requests) if key not in stored and is_ours(position)
        ]
        chunk = size if self._reader else self.lm.at_once.get(kind, size)
        return [missing[start : start + chunk] for start in range(0, len(missing), chunk)]

    @contextmanager
    def _here(self, requests: int) -> Iterator[ReadChunks]:
        """A reader that uses the LM of this process."""

        def read(chunks: Sequence[Sequence[LMRequest]]) -> Iterator[tuple[int, list[Reading]]]:
            sharing = min(self.lm.in_flight, max(1, len(chunks)))
            return self.lm.each(partial(read_chunk, self.lm, sharing=sharing), chunks)

        yield read


def _value(reading: Reading | None, request: LMRequest) -> Any:
    """Return the value of a reading; zeros or an empty text if it is missing because another shard
    reads it."""
    if reading is not None:
        return reading.value
    if request.choices:
        return [0.0 for _ in request.choices]
    return ""
