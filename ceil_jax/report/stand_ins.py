"""What a dry run works with: an LM that counts, a store that only looks, estimates in place of vectors, searches and
training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.lm.counting import CountingLM, counting_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Kept, Models, vectors_key
from ceil_jax.pipeline.search import Search
from ceil_jax.pipeline.trained import Learned, Lesson, learn_on_disk
from ceil_jax.retrieval.registry import Retrieved, retriever_named
from ceil_jax.store.hashing import digest
from ceil_jax.store.keys import warn_of_older_stages
from ceil_jax.store.rows import Cost, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.config import CEILConfig
from ceil_jax.training.loop import held_out_count

_SAMPLES = 3
"""Chunks of a stage whose tokens are counted to estimate all."""

_LOOKED_UP = 200_000_000
"""Queries × bank examples up to which a search is done for real, to see whether what follows is on disk."""


Note = Callable[..., None]
"""(name of a stage, what it does, its task, amounts of work) → into the plan."""


class CountingModels(Models):
    """LMs that only count, and encoders as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.counting: dict[tuple[str, str], CountingLM] = {}

    def lm(self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig) -> CountingLM:
        """Return the LM's tokenizer and configuration, without its weights."""
        if (spec, dtype) not in self.counting:
            self.counting[spec, dtype] = counting_lm(spec, dtype)
        return self.counting[spec, dtype]


class LookingStore(Store):
    """Stages as they are on disk; none is made. What a run asks for is noted in a plan."""

    def __init__(self, root: Path, task: Task, models: CountingModels, note: Note) -> None:
        super().__init__(root)
        self.task, self.models, self._note = task, models, note

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        """Yield the stage, which may not be there."""
        yield LookingStage(self.root / f"{kind}-{digest(key)}", self)

    def note(self, stage: Stage, what: str, **amounts: Any) -> None:
        """Put a stage into the plan, once."""
        self._note(stage.name, what, self.task.name, **amounts)

    def counted(
        self, stage: Stage, samples: Sequence[Callable[[], list[Any]]], total: int, what: str
    ) -> list[Any]:
        """Note a stage of `total` rows by the LM tokens of a sample of its work, and return the sample's rows."""
        lms = self.models.counting.values()
        outputs = [example.output for example in self.task.validation[:200]]
        for lm in lms:
            lm.answer_tokens = float(lm.count_tokens(outputs).mean()) + 1
        before = [(lm.tokens_read, lm.tokens_written) for lm in lms]
        rows = [row for sample in samples for row in sample()]
        spent = [
            (lm.tokens_read - read, lm.tokens_written - written, lm.parameters)
            for lm, (read, written) in zip(lms, before, strict=True)
        ]
        read, written, parameters = max(spent)
        share = total / len(rows)
        self.note(stage, what, read=read * share, written=written * share, lm_parameters=parameters)
        return rows


class LookingStage(Stage):
    """A stage whose rows are read if they are all there, and otherwise estimated from a sample."""

    def __init__(self, folder: Path, store: LookingStore) -> None:
        super().__init__(folder)
        self.store = store

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a finished stage; nothing on disk changes."""
        return self.peek()

    def rows(
        self, total: int, work: Callable[[int, int], list[Any]], *, chunk: int, what: str, **_: Any
    ) -> Rows:
        """Return the rows on disk, or guesses."""
        missing = self.missing_rows(total, chunk)
        if not missing:
            self.store.note(self, what, done=True)
            return super().rows(total, work, chunk=chunk, what=what)
        spread = missing[:: max(1, len(missing) // _SAMPLES)][:_SAMPLES]
        samples = [partial(work, start, min(start + chunk, total)) for start in spread]
        rows = self.store.counted(self, samples, min(len(missing) * chunk, total), what)
        return Rows([rows[i % len(rows)] for i in range(total)], [])

    def keyed_rows(
        self, keys: Sequence[str], work: Callable[[list[str]], list[Any]], *, chunk: int, what: str, **_: Any
    ) -> Rows:
        """Return the rows on disk, or guesses."""
        missing = self.missing_keys(keys)
        if not missing:
            self.store.note(self, what, done=True)
            return super().keyed_rows(keys, work, chunk=chunk, what=what)
        spread = missing[:: max(1, len(missing) // chunk)][:chunk]
        rows = self.store.counted(self, [lambda: work(spread)], len(missing), what)
        return Rows([rows[0] for _ in keys], [])


class Estimates:
    """Vectors and trained encoders from disk where they are there, and estimates of the work where they are not."""

    def __init__(self, config: RunConfig, task: Task, models: CountingModels, store: LookingStore) -> None:
        self.config, self.task, self.models, self.store = config, task, models, store
        self._guessed: set[str] = set()
        self._lengths: Kept[int] = Kept()

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors on disk, or random ones, float32 [N, D]."""
        with self.store.stage("vectors", vectors_key(encoder, texts)) as stage:
            what = f"encoding {len(texts):,} texts"
            if stage.summary is not None:
                self.store.note(stage, what, done=True)
                return np.array(stage.load("vectors.npy"))
            self._guessed.add(stage.name)
            tokens = len(texts) * self._length(0.5)
            self.store.note(stage, what, encoded=tokens * self._parameters)
            return _rng(stage.name).standard_normal((len(texts), encoder.dim), np.float32)

    def known(self, encoder: Encoder, examples: Sequence[Example]) -> bool:
        """Return whether the vectors of the examples' inputs are on disk; note them in the plan."""
        texts = [example.input for example in examples]
        self.embed(encoder, texts)
        return f"vectors-{digest(vectors_key(encoder, texts))}" not in self._guessed

    def learn(self, lesson: Lesson) -> Learned:
        """Return the trained encoders on disk, or stand-ins."""
        name, config = lesson.name, lesson.config
        what = f"training {name}, seed {lesson.seed}"
        with self.store.stage(name.lower(), lesson.key) as stage:
            if stage.summary is not None:
                self.store.note(stage, what, done=True)
                return learn_on_disk(self.store, self.models, self.config.encoder, lesson)
            warn_of_older_stages(self.store.root, name.lower())
            queries = (lesson.queries - held_out_count(lesson.queries)) * config.epochs
            texts = 3
            if isinstance(config, CEILConfig):
                texts = 1 if config.train_context == "frozen" else 1 + config.shortlist
            tokens = queries * texts * self._length(0.98, TRAINING_LENGTHS)
            self.store.note(stage, what, trained=tokens * self._parameters)
            encoders: list[Any] = [_StandIn(self._base, f"{stage.name}-{part}") for part in lesson.parts]
            return Learned(encoders, [], Cost(0.0), None)

    @property
    def _base(self) -> Encoder:
        return self.models.encoder(self.config.encoder, self.config.endpoint)

    @property
    def _parameters(self) -> int:
        return sum(int(np.prod(leaf.shape)) for leaf in self._base.params.values())

    def _length(self, share: float, lengths: Sequence[int] = LENGTHS) -> int:
        """The tokens of a text in an encoder's batch: a quantile over a sample of the bank, with padding."""

        def length() -> int:
            texts = [example.input for example in self.task.train[:200]]
            ids = self._base.tokenizer(texts, self._base.max_length)
            longest = float(np.quantile([len(row) for row in ids], share))
            return padded_length(longest, self._base.max_length, lengths)

        return self._lengths.get(share, length)


class _StandIn:
    """A trained encoder that is not there yet."""

    def __init__(self, like: Encoder, key: str) -> None:
        self.dim, self.cached_as, self.name = like.dim, f"untrained-{key}", "not trained yet"
        self.tokenizer, self.max_length, self.params = like.tokenizer, like.max_length, like.params


class GuessingSearch(Search):
    """Searches done for real where their vectors are on disk and the bank is not too large, and otherwise guessed.

    A guess is random, and the same for the same question.
    """

    def __init__(self, index: str, estimates: Estimates) -> None:
        super().__init__(estimates.embed, index)
        self.estimates = estimates

    def choose(
        self, retriever: str, bank: Sequence[Example], queries: Sequence[Example], k: int, **given: Any
    ) -> list[list[Retrieved]]:
        """Return at most k examples for each query."""
        needs = retriever_named(retriever).needs
        encoder = given.get("encoder")
        if needs.skills != "none":
            given["rewrite"]([*bank, *queries])
        if encoder is None:
            sure = not needs.text or _small(bank, queries)
        else:
            query_encoder = given.get("query_encoder") or encoder
            sure = needs.text and self._known(encoder, query_encoder, bank, queries)
        if sure:
            return super().choose(retriever, bank, queries, k, **given)
        question = [retriever, needs.text and encoder is not None and query_encoder.cached_as]
        question += [given["trade_off"], given["shortlist"]] if needs.trade_off == "tunable" else []
        question += [given.get("room") is not None]
        drawn = _rng(digest(question)).integers(len(bank), size=(len(queries), k))
        return [[Retrieved(bank[i].id, int(i), 0.0, 0.0) for i in row] for row in drawn]

    def candidates(self, queries: Sequence[Example], bank: Sequence[Example], count: int) -> CandidateSets:
        """Return EPR's candidates."""
        if _small(bank, queries):
            return super().candidates(queries, bank, count)
        size = min(count, len(bank) - 1)
        return _any_sets(queries, bank, size, size, 1)

    def subsets(
        self,
        encoder: Encoder,
        bank: Sequence[Example],
        queries: Sequence[Example],
        config: CEILConfig,
        seed: int,
    ) -> CandidateSets:
        """Return CEIL's candidate sets."""
        if self._known(encoder, encoder, bank, queries):
            return super().subsets(encoder, bank, queries, config, seed)
        size = min(config.shortlist, len(bank) - 1)
        return _any_sets(queries, bank, size, config.subsets, config.size, encoder.cached_as)

    def _known(
        self, encoder: Encoder, query_encoder: Encoder, bank: Sequence[Example], queries: Sequence[Example]
    ) -> bool:
        # both are looked up, so that both are in the plan
        known = self.estimates.known(encoder, bank), self.estimates.known(query_encoder, queries)
        return all(known) and _small(bank, queries)


def _small(bank: Sequence[Example], queries: Sequence[Example]) -> bool:
    return len(bank) * len(queries) <= _LOOKED_UP


def _any_sets(
    queries: Sequence[Example], bank: Sequence[Example], n: int, count: int, size: int, salt: str = ""
) -> CandidateSets:
    rng = _rng(salt)
    shortlist = rng.integers(len(bank), size=(len(queries), n), dtype=np.int32)
    one = np.stack([rng.permutation(n)[:size] for _ in range(count)]).astype(np.int32)
    return CandidateSets(shortlist, np.broadcast_to(one, (len(queries), *one.shape)))


def _rng(text: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(text.encode()))
