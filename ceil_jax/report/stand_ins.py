"""The tools of a dry run: LMs that count, and guesses in place of vectors, searches and training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.lm.counting import CountingLM, counting_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Learned, Lesson, Models, learn_on_disk, vectors_key
from ceil_jax.pipeline.search import choosing
from ceil_jax.retrieval.registry import Retrieved, retrievers
from ceil_jax.store.hashing import digest
from ceil_jax.store.keys import warn_of_older_stages
from ceil_jax.store.looking import LookingStore
from ceil_jax.store.rows import Cost
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.ceil import SETS_A_STEP
from ceil_jax.training.config import CEILConfig
from ceil_jax.training.loop import held_out_count, step_count

WRITING = 4.0
"""A written token costs as many read ones: a guess, because a step writes one token a text."""

_LOOKED_UP = 200_000_000
"""Queries × bank examples up to which a search is done for real, to see whether what follows is on disk."""


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

    def spent(self, answers: Sequence[str]) -> dict[str, float]:
        """Return what all LMs have counted so far, by the fields of `dry_run.Work`.

        Args:
            answers: answers as long as those that are generated from now on.
        """
        lms = self.counting.values()
        for lm in lms:
            lm.answer_tokens = float(lm.count_tokens(answers).mean()) + 1
        return {
            "read": sum(lm.tokens_read for lm in lms),
            "written": sum(lm.tokens_written for lm in lms),
            "lm": sum((lm.tokens_read + WRITING * lm.tokens_written) * lm.parameters for lm in lms),
        }


class StandIns:
    """A run's vectors, searches and training from disk where they are there; else they are noted and guessed.

    A search is done for real where its vectors are on disk and the bank is not too large. A guess is random, and the
    same for the same question.

    Args:
        config: the run's settings.
        task: its task.
        models: its LMs only count.
        store: only looks.
    """

    def __init__(self, config: RunConfig, task: Task, models: CountingModels, store: LookingStore) -> None:
        self.config, self.task, self.models, self.store = config, task, models, store

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors on disk, or random ones, float32 [N, D]."""
        found = self._vectors(encoder, texts)
        if found is not None:
            return found
        return _rng(digest(vectors_key(encoder, texts))).standard_normal(
            (len(texts), encoder.dim), np.float32
        )

    def _vectors(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray | None:
        """The vectors on disk; None where they are not."""
        with self.store.stage("vectors", vectors_key(encoder, texts)) as stage:
            done, what = stage.summary is not None, f"encoding {len(texts):,} texts"
            self.store.note(stage, what, done=done, encoded=len(texts) * self._work(0.5, LENGTHS))
            return np.array(stage.load("vectors.npy")) if done else None

    def learn(self, lesson: Lesson) -> Learned:
        """Return the trained encoders on disk, or stand-ins."""
        name, config = lesson.name, lesson.config
        texts = 3
        if isinstance(config, CEILConfig):
            frozen = config.train_context == "frozen"
            texts = 1 if frozen else 1 + min(config.shortlist, SETS_A_STEP * config.size)
        instances = lesson.queries - held_out_count(lesson.queries)
        work = texts * instances * config.epochs * self._work(0.75, TRAINING_LENGTHS)
        steps = step_count(instances, config.epochs, config.batch_size)
        with self.store.stage(name.lower(), lesson.key) as stage:
            done = stage.summary is not None
            self.store.note(
                stage, f"training {name}, seed {lesson.seed}", done=done, trained=work, steps=steps
            )
            if done:
                return learn_on_disk(self.store, self.models, self.config.encoder, lesson)
            warn_of_older_stages(self.store.root, name.lower())
            encoders: list[Any] = [_StandIn(self._base, f"{stage.name}-{part}") for part in lesson.parts]
            return Learned(encoders, [], Cost(0.0), None)

    @cached_property
    def _base(self) -> Encoder:
        return self.models.encoder(self.config.encoder, self.config.endpoint)

    @cached_property
    def _tokens(self) -> list[int]:
        texts = [example.input for example in self.task.train[:200]]
        return [len(ids) for ids in self._base.tokenizer(texts, self._base.max_length)]

    def _work(self, share: float, lengths: Sequence[int]) -> int:
        """Tokens × parameters of a text in a batch, padded to that quantile of a sample of the bank."""
        longest = float(np.quantile(self._tokens, share))
        parameters = sum(int(np.prod(leaf.shape)) for leaf in self._base.params.values())
        return padded_length(longest, self._base.max_length, lengths) * parameters

    def choose(
        self, retriever: str, bank: Sequence[Example], queries: Sequence[Example], k: int, **given: Any
    ) -> list[list[Retrieved]]:
        """Return at most k examples for each query."""
        needs, encoder = retrievers()[retriever].needs, given.get("encoder")
        asked = given.get("query_encoder") or encoder
        if needs.skills != "none":
            given["rewrite"]([*bank, *queries])
        compared = [encoder, asked] if needs.text and encoder else []
        if (needs.text or not encoder) and self._known(bank, queries, *compared):
            return choosing(self.embed, self.config.index)(retriever, bank, queries, k, **given)
        question = [retriever, *(one.cached_as for one in compared)]
        question += [given["trade_off"], given["shortlist"]] if needs.trade_off == "tunable" else []
        drawn = _rng(digest(question)).integers(len(bank), size=(len(queries), k))
        return [[Retrieved(bank[i].id, int(i), 0.0, 0.0) for i in row] for row in drawn]

    def draw(
        self,
        sets: Callable[[], CandidateSets],
        bank: Sequence[Example],
        queries: Sequence[Example],
        shape: tuple[int, int, int],
        encoder: Encoder | None,
    ) -> CandidateSets:
        """Return the candidate sets."""
        if self._known(bank, queries, *([encoder, encoder] if encoder else [])):
            return sets()
        rng, (n, count, size) = _rng(encoder.cached_as if encoder else ""), shape
        shortlist = rng.integers(len(bank), size=(len(queries), n), dtype=np.int32)
        one = np.stack([rng.permutation(n)[:size] for _ in range(count)]).astype(np.int32)
        return CandidateSets(shortlist, np.broadcast_to(one, (len(queries), *one.shape)))

    def _known(self, bank: Sequence[Example], queries: Sequence[Example], *encoders: Encoder) -> bool:
        """Whether a search can be done: the vectors are on disk, which is noted, and it takes seconds."""
        found = [
            self._vectors(encoder, [example.input for example in examples])
            for encoder, examples in zip(encoders, (bank, queries), strict=False)
        ]
        return len(bank) * len(queries) <= _LOOKED_UP and all(vectors is not None for vectors in found)


class _StandIn:
    """A trained encoder that is not there yet."""

    def __init__(self, like: Encoder, key: str) -> None:
        self.dim, self.cached_as, self.name = like.dim, f"untrained-{key}", "not trained yet"
        self.tokenizer, self.max_length, self.params = like.tokenizer, like.max_length, like.params


def _rng(text: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(text.encode()))
