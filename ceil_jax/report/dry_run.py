"""What an experiment would do: its stages, those on disk and those to run, LM tokens, time; without doing it.

A dry run is a run: the same `Pipeline` on a store that keeps nothing and an LM that only counts. What is on
disk is read. What is not is noted, and stands in: vectors are random, a trained encoder is one that nothing is
known of. What follows from a stand-in has a key that no run ever had, and so is listed as to be run.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import LENGTHS, TRAINING_LENGTHS, padded_length
from ceil_jax.errors import UserError
from ceil_jax.lm.counting import CountingLM, counting_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.models import Encoders, Models
from ceil_jax.pipeline.run import Pipeline
from ceil_jax.report.grid import Entry, Grid
from ceil_jax.report.work import Plan, Work
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.store.hashing import digest
from ceil_jax.store.rows import Engine, Rows
from ceil_jax.store.shards import Shard
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.candidates import CandidateSets

_SAMPLES = 3
"""Chunks of a stage whose tokens are counted to estimate all."""

_LOOKED_UP = 200_000_000
"""Queries × bank examples up to which a stage's key is worked out to see if it is on disk."""


def plan(entries: Sequence[Entry], seeds: Sequence[int]) -> Plan:
    """The stages that the entries would need with these seeds of training. Nothing is written."""
    found = Plan()
    grid = Grid(CountingModels(), lambda *run: _Planner(found, *run))
    for entry in entries:
        cell, task = entry.cell, entry.task
        for seed in seeds if cell.trains else seeds[:1]:
            if task in found.failed:
                continue
            try:
                if not grid.applies(entry):
                    continue
                run = cell.seeded(seed).essential()
                pipeline = grid.pipeline(run.config, run.trained_by)
                pipeline.answers(run.method, pipeline.task.validation)
            except UserError as error:
                found.failed[task] = str(error)
    return found


class CountingModels(Models):
    """LMs that only count, and encoders as they are."""

    @cache  # noqa: B019  as in Models
    def lm(self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig) -> CountingLM:
        return counting_lm(spec, dtype)


class _StandIn:
    """A trained encoder that is not there yet."""

    def __init__(self, like: Any, key: str) -> None:
        self.dim, self.cached_as, self.name = like.dim, f"untrained-{key}", "not trained yet"
        self.tokenizer, self.max_length, self.params = like.tokenizer, like.max_length, like.params


class _Planner(Pipeline):
    """A pipeline that notes what it would do."""

    def __init__(
        self,
        found: Plan,
        config: Any,
        task: Task,
        models: Any = None,
        trained_by: Any = None,
        members: Any = (),
    ) -> None:
        super().__init__(config, task, models, trained_by, members)
        self.plan = found
        self.store = _PlannedStore(config.out, self)
        self.inputs._store = self.store

    def sibling(self, config: Any) -> _Planner:
        return _Planner(self.plan, config, self.task, self.models)

    @property
    def parameters(self) -> int:
        return sum(int(np.prod(leaf.shape)) for leaf in self.base.params.values())

    @cache  # noqa: B019  a plan lives as long as its command
    def _length(self, share: float, lengths: Sequence[int] = LENGTHS) -> int:
        """Tokens of a text in an encoder's batch: that share's quantile over a sample, as it is padded."""
        texts = [example.input for example in self.task.train[:200]]
        ids = self.base.tokenizer(texts, self.base.max_length)
        longest = float(np.quantile([len(row) for row in ids], share))
        return padded_length(longest, self.base.max_length, lengths)

    def embed(self, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
        key = {"encoder": encoder.cached_as, "texts": digest(list(texts))}
        with self.store.stage("vectors", key) as stage:
            if stage.summary is not None:
                self.note(stage, f"encoding {len(texts):,} texts", done=True)
                return np.array(stage.load("vectors.npy"))
            tokens = len(texts) * self._length(0.5)
            self.note(stage, f"encoding {len(texts):,} texts", encoded=tokens * self.parameters)
            rng = np.random.default_rng(zlib.crc32(stage.name.encode()))
            return rng.standard_normal((len(texts), encoder.dim), np.float32)

    def known(self, encoders: Encoders, bank: Sequence[Example], queries: Sequence[Example]) -> bool:
        """Whether what would be retrieved can be said: vectors on disk, and not too many."""
        asked = [
            (encoders.context, [example.input for example in bank]),
            (encoders.query, [query.input for query in queries]),
        ]
        for encoder, texts in asked:
            self.embed(encoder, texts)
        names = {
            f"vectors-{digest({'encoder': encoder.cached_as, 'texts': digest(texts)})}"
            for encoder, texts in asked
        }
        missing = {name for name, work in self.plan.stages.items() if not work.done}
        return not names & missing and len(bank) * len(queries) <= _LOOKED_UP

    def nearest(
        self, encoders: Encoders, bank: Sequence[Example], queries: Sequence[Example], n: int
    ) -> list[list[Retrieved]]:
        if self.known(encoders, bank, queries):
            return super().nearest(encoders, bank, queries, n)
        return self._guess(encoders.query.cached_as, bank, queries, min(n, len(bank) - 1))

    def _guess(
        self, what: str, bank: Sequence[Example], queries: Sequence[Example], n: int
    ) -> list[list[Retrieved]]:
        """Random examples in place of those that cannot be known yet; the same for the same question."""
        rng = np.random.default_rng(zlib.crc32(what.encode()))
        drawn = rng.integers(len(bank), size=(len(queries), n))
        return [[Retrieved(bank[i].id, int(i), 0.0, 0.0) for i in row] for row in drawn]

    def retrieve(self, name: str, queries: Sequence[Example]) -> list[list[Retrieved]]:
        method, needs = METHODS[name], METHODS[name].needs
        if method.encoder is None and not needs.text:
            return super().retrieve(name, queries)
        bank = self.bank_of(method)
        if method.encoder is None:
            sure, what = len(bank) * len(queries) <= _LOOKED_UP, ""
        elif not needs.text:
            sure, what = False, ""
        else:
            encoders = self.encoders(method.encoder)
            sure, what = self.known(encoders, bank, self.inputs.seen(queries)), encoders.query.cached_as
        if sure:
            return super().retrieve(name, queries)
        if needs.trade_off == "tunable":
            what += f" λ {self.trade_off_of(method)} n {self.config.shortlist}"
            what += " in budget" * (self.config.fit == "budget")
        return self._guess(f"{name} {what}", bank, queries, self.config.shots)

    def _single_sets(self, config: Any) -> tuple[list[Example], CandidateSets, str]:
        count = min(config.instances, len(self.task.train))
        if count * len(self.task.train) <= _LOOKED_UP:
            return super()._single_sets(config)
        instances = self.instances(count)
        size = min(config.candidates, len(self.task.train) - 1)
        return instances, self._any_sets(instances, size, size, 1), "EPR candidates"

    def _propose(self, encoder: Encoder, queries: Sequence[Example], config: Any) -> CandidateSets:
        bank = self.inputs.context
        if self.known(Encoders(encoder, encoder), bank, queries):
            return super()._propose(encoder, queries, config)
        size = min(config.shortlist, len(bank) - 1)
        return self._any_sets(queries, size, config.subsets, config.size, encoder.cached_as)

    def _any_sets(
        self, queries: Sequence[Example], n: int, count: int, size: int, salt: str = ""
    ) -> CandidateSets:
        rng = np.random.default_rng(zlib.crc32(salt.encode()))
        shortlist = rng.integers(len(self.task.train), size=(len(queries), n), dtype=np.int32)
        one = np.stack([rng.permutation(n)[:size] for _ in range(count)]).astype(np.int32)
        return CandidateSets(shortlist, np.broadcast_to(one, (len(queries), *one.shape)))

    def _train(
        self, name: str, key: dict[str, Any], parts: Sequence[str], train: Callable[..., Any]
    ) -> list[Encoder]:
        with self.store.stage(name.lower(), key) as stage:
            if stage.summary is not None:
                self.note(stage, f"training {name}, seed {self.config.seed}", done=True)
                return super()._train(name, key, parts, train)
            config = getattr(self.config, name.lower())
            of = [member.task for member in self.members] or [self.task]
            instances = sum(min(config.instances, len(task.train)) for task in of)
            queries = (instances - min(instances // 10, 100)) * config.epochs
            texts = 3.0
            if name == "CEIL":
                frozen = self.config.ceil.train_context == "frozen"
                texts = 1.0 if frozen else 1.0 + self.config.ceil.shortlist
            tokens = queries * texts * self._length(0.98, TRAINING_LENGTHS)
            self.note(stage, f"training {name}, seed {self.config.seed}", trained=tokens * self.parameters)
            return [_StandIn(self.base, f"{stage.name}-{part}") for part in parts]  # type: ignore[misc]

    def note(self, stage: Stage, what: str, **amounts: Any) -> None:
        """Put a stage on the plan, once."""
        self.plan.stages.setdefault(stage.name, Work(what, self.task.name, **amounts))


class _PlannedStore(Store):
    """Stages as they are on disk; none is made."""

    def __init__(self, root: Path, planner: _Planner) -> None:
        super().__init__(root)
        self._planner = planner

    @contextmanager
    def stage(self, kind: str, key: Mapping[str, Any], shard: Shard | None = None) -> Iterator[Stage]:
        yield _PlannedStage(self.root / f"{kind}-{digest(key)}", self._planner)


class _PlannedStage(Stage):
    """A stage whose rows are read if they are all there, else counted on a sample."""

    def __init__(self, folder: Path, planner: _Planner) -> None:
        super().__init__(folder)
        self._planner = planner

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
        missing = self.missing_rows(total, chunk)
        if not missing:
            self._planner.note(self, what, done=True)
            return super().rows(total, work, chunk=chunk, what=what, cost=cost)
        spread = missing[:: max(1, len(missing) // _SAMPLES)][:_SAMPLES]
        rows = self._count(
            [partial(work, start, min(start + chunk, total)) for start in spread],
            len(missing) * chunk if len(missing) * chunk <= total else total,
            what,
        )
        return Rows([rows[i % len(rows)] for i in range(total)], [])

    def keyed_rows(
        self,
        keys: Sequence[str],
        work: Callable[[list[str]], list[Any]],
        *,
        chunk: int,
        what: str,
        cost: Callable[[], int] = lambda: 0,
    ) -> Rows:
        missing = self.missing_keys(keys)
        if not missing:
            self._planner.note(self, what, done=True)
            return super().keyed_rows(keys, work, chunk=chunk, what=what, cost=cost)
        spread = missing[:: max(1, len(missing) // chunk)][:chunk]
        rows = self._count([lambda: work(spread)], len(missing), what)
        return Rows([rows[0] for _ in keys], [])

    def _count(self, samples: Sequence[Callable[[], list[Any]]], total: int, what: str) -> list[Any]:
        lm = self._planner.lm
        assert isinstance(lm, CountingLM)
        outputs = [example.output for example in self._planner.task.validation[:200]]
        lm.answer_tokens = float(lm.count_tokens(outputs).mean()) + 1
        read, written = lm.tokens_read, lm.tokens_written
        rows = [row for sample in samples for row in sample()]
        share = total / len(rows)
        self._planner.note(
            self,
            what,
            read=(lm.tokens_read - read) * share,
            written=(lm.tokens_written - written) * share,
            lm_parameters=lm.parameters,
        )
        return rows
