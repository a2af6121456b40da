"""The tools of a dry run: an LM that counts, and estimates in place of vectors, searches and training."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.lm.counting import CountingLM, counting_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models, vectors_key
from ceil_jax.pipeline.search import Search
from ceil_jax.pipeline.trained import Learned, Lesson, learn_on_disk
from ceil_jax.retrieval.registry import Retrieved, retriever_named
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


class Estimates:
    """Vectors and trained encoders from disk where they are there, and estimates of the work where they are not."""

    def __init__(self, config: RunConfig, task: Task, models: CountingModels, store: LookingStore) -> None:
        self.config, self.task, self.models, self.store = config, task, models, store
        self._guessed: set[str] = set()

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors on disk, or random ones, float32 [N, D]."""
        with self.store.stage("vectors", vectors_key(encoder, texts)) as stage:
            what = f"encoding {len(texts):,} texts"
            if stage.summary is not None:
                self.store.note(stage, what, done=True)
                return np.array(stage.load("vectors.npy"))
            self._guessed.add(stage.name)
            self.store.note(stage, what, encoded=len(texts) * self._work(0.5, LENGTHS))
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
            texts = 3
            if isinstance(config, CEILConfig):
                frozen = config.train_context == "frozen"
                texts = 1 if frozen else 1 + min(config.shortlist, SETS_A_STEP * config.size)
            instances = lesson.queries - held_out_count(lesson.queries)
            work = texts * instances * config.epochs * self._work(0.75, TRAINING_LENGTHS)
            steps = step_count(instances, config.epochs, config.batch_size)
            self.store.note(stage, what, trained=work, steps=steps)
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
        needs, encoder = retriever_named(retriever).needs, given.get("encoder")
        asked = given.get("query_encoder") or encoder
        if needs.skills != "none":
            given["rewrite"]([*bank, *queries])
        if encoder is None or asked is None:
            sure = not needs.text or _small(bank, queries)
        else:
            sure = needs.text and self._known(encoder, asked, bank, queries)
        if sure:
            return super().choose(retriever, bank, queries, k, **given)
        question = [retriever, needs.text and asked is not None and asked.cached_as]
        question += [given["trade_off"], given["shortlist"]] if needs.trade_off == "tunable" else []
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
