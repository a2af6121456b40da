"""A language model with a cache of its outputs (readings), so that each prompt is read once.

Each chunk of prompts is stored in one transaction, so that a kill loses at most the chunks that are
being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from ceil_jax.lm.answers import Answer, stored_answer
from ceil_jax.lm.base import LanguageModel, check_choices
from ceil_jax.lm.messages import Messages, Rendered
from ceil_jax.lm.on_access import OnAccess
from ceil_jax.lm.readings import Readings
from ceil_jax.lm.request import LMRequest, Reading, read_chunk
from ceil_jax.store.cost import Cost
from ceil_jax.store.progress import bar

BLOCK = 2**16
"""Number of requests that are created, looked up and read at a time: some hundred megabytes of
prompts. It is a multiple of the group size of every LM."""

ReadChunks = Callable[[Sequence[Sequence[LMRequest]]], Iterable[tuple[int, list[Reading]]]]
"""A function that reads chunks of requests and yields each chunk's number and readings, in any
order."""

Reader = Callable[[int], AbstractContextManager[ReadChunks]]
"""A function that is given the maximum number of requests and returns a context manager, which
yields a `ReadChunks`."""


class ReadingMeter:
    """A counter of the distinct LM calls that are requested, cached or not."""

    def __init__(self) -> None:
        self._keys: set[bytes] = set()
        self.cost = Cost()
        self.now = Cost()
        """The part of `cost` that was not in the cache."""
        self.requests = 0

    def enter(self, key: bytes, cost: Cost, now: bool) -> None:
        if key not in self._keys:
            self._keys.add(key)
            self.requests += 1
            self.cost += cost
            self.now += cost if now else Cost()


class CachedLM(LanguageModel):
    """A language model with a cache of its outputs (readings), so that it reads each prompt once.

    A prompt without a stored reading is read by `lm`, or elsewhere by `reader`. Prompts may be
    `OnAccess`: only those of one block are in memory.
    """

    def __init__(self, lm: LanguageModel, readings: Readings, reader: Reader | None = None) -> None:
        self.lm = lm
        self.readings = readings
        self.name = lm.name
        self.context_length = lm.context_length
        self.can_score = lm.can_score
        self.can_label = lm.can_label
        self.can_weigh = lm.can_weigh
        self.ends_itself = lm.ends_itself
        self.reads_messages = lm.reads_messages
        self.takes_system = lm.takes_system
        self._reader = reader
        self._meters: list[ReadingMeter] = []
        self._what = "reading prompts"

    @property
    def tokens_read(self) -> int:
        return self.lm.tokens_read

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.lm.count_tokens(texts))

    def chat(self, messages: Messages) -> Rendered:
        return self.lm.chat(messages)

    def tells_apart(self, labels: Sequence[str]) -> bool:
        return self.lm.tells_apart(labels)

    @contextmanager
    def metered(self, what: str = "") -> Iterator[ReadingMeter]:
        """Yield a meter of the readings that are requested inside the block.

        `what` describes them in progress bars.
        """
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
        self,
        prompts: Sequence[Rendered],
        choices: Sequence[Sequence[str]],
        *,
        per_token: bool = False,
    ) -> list[np.ndarray]:
        check_choices(choices)
        if len(prompts) != len(choices):
            raise ValueError(f"{len(prompts)} prompts and {len(choices)} lists of choices")
        requests = OnAccess(
            len(prompts), lambda row: LMRequest(prompts[row], tuple(choices[row]), per_token)
        )
        return [np.array(value, np.float64) for value in self._read(requests, "score")]

    def write(
        self,
        prompts: Sequence[Rendered],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        stops = tuple(stop)
        requests = OnAccess(
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

    def write_labels(
        self, prompts: Sequence[Rendered], labels: Sequence[Sequence[str]], limit: int
    ) -> list[Answer]:
        requests = OnAccess(
            len(prompts),
            lambda row: LMRequest(prompts[row], limit=limit, labels=tuple(labels[row])),
        )
        return [stored_answer(value) for value in self._read(requests, "write")]

    def missing(self, requests: Sequence[LMRequest]) -> int:
        """Return how many of the distinct requests have not been read."""
        keys = {request.key(self.name) for request in requests}
        return len(keys) - len(self.readings.find(list(keys)))

    def _read(self, requests: Sequence[LMRequest], kind: str) -> list[Any]:
        """Return the value of each request. `kind` is "score" or "write", for all of them.

        Requests are made one block at a time, so that only the prompts of one block are in memory.
        """
        values: list[Any] = []
        with ExitStack() as stack:
            read: ReadChunks | None = None
            progress: Any = None
            for start in range(0, len(requests), BLOCK):
                block = requests[start : start + BLOCK]
                keys = [request.key(self.name) for request in block]
                distinct = dict(zip(keys, block, strict=True))
                stored = self.readings.find(list(distinct))
                # the keys that have to be read, in chunks that are read together
                chunks = self._chunks([key for key in distinct if key not in stored], kind)
                # reader and progress bar are opened once, for the first block that needs them
                if chunks and read is None:
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
                    readings_by_key |= self._read_now(read, distinct, chunks, progress)
                for meter in self._meters:
                    for key, reading in readings_by_key.items():
                        meter.enter(key, reading.cost, key not in stored)
                values += [readings_by_key[key].value for key in keys]
        return values

    def _read_now(
        self,
        read: ReadChunks,
        requests: Mapping[bytes, LMRequest],
        chunks: Sequence[Sequence[bytes]],
        progress: Any,
    ) -> dict[bytes, Reading]:
        """Read chunks of requests and return their readings by key.

        Each chunk is stored as soon as it is read, so that it is not lost if the process is killed.

        Args:
            read: reads chunks.
            requests: the requests by key.
            chunks: the keys of each chunk.
            progress: the bar, which counts requests.
        """
        readings_by_key: dict[bytes, Reading] = {}
        for number, readings in read([[requests[key] for key in chunk] for chunk in chunks]):
            readings_of_chunk = dict(zip(chunks[number], readings, strict=True))
            self.readings.keep(readings_of_chunk)
            readings_by_key |= readings_of_chunk
            progress.update(len(readings_of_chunk))
        return readings_by_key

    def _chunks(self, missing: Sequence[bytes], kind: str) -> list[Sequence[bytes]]:
        """Return the keys of requests in chunks that are read together.

        `kind` is "score" or "write".
        """
        size = LanguageModel.at_once[kind]
        if not self._reader:  # which has equal shares for every LM
            size = self.lm.at_once.get(kind, size)
        return [missing[start : start + size] for start in range(0, len(missing), size)]

    @contextmanager
    def _here(self, requests: int) -> Iterator[ReadChunks]:
        """A reader that uses the LM of this process."""

        def read(chunks: Sequence[Sequence[LMRequest]]) -> Iterator[tuple[int, list[Reading]]]:
            sharing = min(self.lm.in_flight, max(1, len(chunks)))
            return self.lm.each(partial(read_chunk, self.lm, sharing=sharing), chunks)

        yield read
