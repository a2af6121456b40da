"""The models of runs: LMs and encoders by name, vectors and trained weights kept on disk, the prompts of a task."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.lm import LanguageModel, load_lm
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.prompts import PromptBuilder, answer_reserve
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.retrieval.registry import Embed
from ceil_jax.store.hashing import digest
from ceil_jax.store.keys import warn_of_older_stages
from ceil_jax.store.rows import Cost
from ceil_jax.store.stage import Stage
from ceil_jax.store.store import Store
from ceil_jax.tasks.example import Example, Task
from ceil_jax.training.config import CEILConfig, EPRConfig
from ceil_jax.training.loop import Ending, Trained
from ceil_jax.training.tuning import PromptBudget

log = logging.getLogger(__name__)

KEPT = 8
"""Runs, and trained encoders, held in memory: a table has hundreds of them, and they are on disk."""

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by key, each made when it is first asked for; beyond `size` the least recently used is dropped."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._values: dict[Hashable, T] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of the key, made now if it is not there."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        if self._size is not None and len(self._values) > self._size:
            del self._values[next(iter(self._values))]
        return value


class Encoders(NamedTuple):
    """The encoder of queries and the encoder of examples: the same one unless CEIL trained both."""

    query: Encoder
    context: Encoder


class Models:
    """LMs and encoders by name, each loaded when it is first asked for; runs may share one `Models`."""

    def __init__(self) -> None:
        self._lms: Kept[LanguageModel] = Kept()
        self._encoders: Kept[Encoder] = Kept()
        self._trained: Kept[Encoder] = Kept(KEPT)

    def lm(self, spec: str, dtype: str, device_map: str | None, endpoint: EndpointConfig) -> LanguageModel:
        """Return the LM that a run's configuration names; see `load_lm` for the arguments."""
        return self._lms.get(
            (spec, dtype, device_map, endpoint),
            lambda: load_lm(spec, dtype=dtype, device_map=device_map, endpoint=endpoint),
        )

    def encoder(self, name: str, endpoint: EndpointConfig) -> Encoder:
        """Return the untrained encoder of this name; see `load_encoder`."""
        return self._encoders.get((name, endpoint), lambda: load_encoder(name, endpoint=endpoint))

    def trained(self, folder: Path, start: str, name: str) -> Encoder:
        """Return a trained encoder; it shares compiled functions with the encoder that training began with.

        Args:
            folder: where a stage saved its weights.
            start: the name of the untrained encoder.
            name: what reports call it.
        """

        def load() -> Encoder:
            encoder = self.encoder(start, EndpointConfig())
            # the user has named the function on the command line already
            trained = load_encoder(folder, allow_import=(encoder.factory,) if encoder.factory else ())
            return encoder.with_params(trained.params).renamed(name)

        return self._trained.get((folder, start, name), load)


def vectors_key(encoder: Encoder, texts: Sequence[str]) -> dict[str, Any]:
    """The key of the stage that holds the vectors of these texts."""
    return {"encoder": encoder.cached_as, "texts": digest(list(texts))}


def embed_on_disk(store: Store, encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """Return `encoder.encode(texts)`, float32 [N, D], computed once and kept in the store."""
    with store.stage("vectors", vectors_key(encoder, texts)) as stage:
        if stage.summary is None:
            began = time.perf_counter()
            # skills are often the same
            place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            own = list(place)
            vectors = encoder.encode(own, progress=True)
            stage.save("vectors.npy", vectors[[place[text] for text in texts]])
            stage.finish({"seconds": time.perf_counter() - began, "texts": len(texts)}, ("vectors.npy",))
        return np.array(stage.load("vectors.npy"))


class Lesson(NamedTuple):
    """One training: what it depends on, and the function that does it."""

    name: str
    """TST, EPR or CEIL."""
    key: dict[str, Any]
    """The key of its stage."""
    parts: tuple[str, ...]
    """The encoders that it leaves: one, or a query and a context encoder."""
    train: Callable[[Stage], tuple[dict[str, Encoder], Trained]]
    config: EPRConfig | CEILConfig
    queries: int
    """Training queries."""
    seed: int


class Learned(NamedTuple):
    """The result of a lesson."""

    encoders: list[Encoder]
    """One for each of the lesson's parts."""
    history: list[dict[str, float]]
    """One row for each evaluation: the step, the loss and the held-out ranking."""
    cost: Cost
    ending: Ending | None
    """Which weights training ended with; None in a dry run."""


Learn = Callable[[Lesson], Learned]
"""Takes a lesson. A run trains and keeps the weights on disk (`learn_on_disk`); a dry run estimates."""


def learn_on_disk(store: Store, models: Models, start: str, lesson: Lesson) -> Learned:
    """Train unless the weights are in the store, and load them.

    Args:
        store: keeps the weights.
        models: loads them.
        start: the name of the untrained encoder.
        lesson: what to train.
    """
    name = lesson.name
    with store.stage(name.lower(), lesson.key) as stage:
        if stage.summary is None:
            warn_of_older_stages(store.root, name.lower())
            began = time.perf_counter()
            encoders, trained = lesson.train(stage)
            for part, encoder in encoders.items():
                # a process that was killed while it saved has left files that belong to no encoder
                shutil.rmtree(stage.folder / part, ignore_errors=True)
                encoder.save_pretrained(stage.folder / part)
            files = [f for part in encoders for f in sorted((stage.folder / part).rglob("*")) if f.is_file()]
            # with that the checkpoints it was picked from are gone
            found = {"history": trained.history, "ending": trained.ending._asdict()}
            stage.finish(
                {"seconds": time.perf_counter() - began, **found},
                tuple(str(file.relative_to(stage.folder)) for file in files),
            )
        summary = stage.summary
        assert summary is not None
        ending = Ending(**summary["ending"])
        if ending.kept == "start":
            log.warning(
                "training %s: it ranked held-out sets no better than the start, which is kept (more training queries "
                "may help)",
                name,
            )
        loaded = [
            models.trained(stage.folder / part, start, name if i == 0 else f"{name} {part}")
            for i, part in enumerate(lesson.parts)
        ]
        return Learned(loaded, summary["history"], Cost(summary["seconds"]), ending)


class RunModels:
    """The LM and the untrained encoder of one run, and how its texts become vectors.

    Args:
        config: names them.
        models: loads them.
        embed: (encoder, texts) → vectors, float32 [N, D].
    """

    def __init__(self, config: RunConfig, models: Models, embed: Embed) -> None:
        self.config, self.models, self.embed = config, models, embed

    def lm_named(self, spec: str) -> LanguageModel:
        """Return another LM with this run's dtype, device map and endpoint."""
        config = self.config
        return self.models.lm(spec, config.dtype, config.device_map, config.endpoint)

    @cached_property
    def lm(self) -> LanguageModel:
        """The LM that scores and answers."""
        return self.lm_named(self.config.lm)

    @cached_property
    def base(self) -> Encoder:
        """The untrained encoder."""
        return self.models.encoder(self.config.encoder, self.config.endpoint)


class RunPrompts:
    """The prompts of a task for a run's LM."""

    def __init__(self, config: RunConfig, task: Task, models: RunModels) -> None:
        self.config, self.task, self.models = config, task, models

    @cached_property
    def key(self) -> dict[str, Any]:
        """The part of the keys of scores and predictions that is not the examples chosen."""
        return {
            "template": self.task.template,
            "few_shot": list(self.task.few_shot),
            "lm": self.models.lm.name,
            "fit": self.config.fit,
            **({"per_token": True} if self.task.per_token else {}),
        }

    @cached_property
    def bank_digest(self) -> str:
        """The hash of the bank, for the keys of stages."""
        return digest(list(self.task.train))

    def builder(self, queries: Sequence[Example], token_budget: int | None = None) -> PromptBuilder:
        """Return the builder of prompts for these queries, with at most `token_budget` tokens each."""
        lm, template = self.models.lm, self.task.template
        reserve = answer_reserve(lm, template, queries, self.task.max_new_tokens)
        return PromptBuilder(lm, template, reserve, self.task.few_shot, token_budget)

    def limit(self, queries: Sequence[Example], shortlist: np.ndarray) -> PromptBudget | None:
        """Return the token budgets and the costs of the shortlists' examples; None where only the LM's context cuts.

        Args:
            queries: Q queries.
            shortlist: int32 [Q, n], bank positions.
        """
        if self.config.token_budget is None:
            return None
        builder = self.builder(queries, self.config.token_budget)
        remaining = np.array([builder.remaining(query) for query in queries])
        return PromptBudget(self.config.fit, builder.costs(self.task.train, shortlist), remaining)
