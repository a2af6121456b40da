"""LM scoring on a Ray cluster: each actor of a pool has an LM of its own and takes the next chunk when it is free."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Fit, PromptBuilder
from ceil_jax.store.rows import Chunk, Engine, timed_chunk
from ceil_jax.tasks.example import Example, Template
from ceil_jax.training.candidates import CandidateSets
from ceil_jax.training.scoring import set_scorer


@dataclass(frozen=True)
class ScoringJob:
    """The input of an actor that scores chunks. It is small enough to send: the LM is loaded where it is used."""

    load: Callable[[], LanguageModel]
    lm: str
    """The name that the loaded LM must have; it identifies weights and dtype."""
    queries: Sequence[Example]
    bank: Sequence[Example]
    candidates: CandidateSets
    template: Template
    reserve: int
    few_shot: Sequence[Example]
    fit: Fit
    per_token: bool = False

    def line(self, lm: LanguageModel, start: int, stop: int) -> Chunk:
        """Score a chunk and return its line for the journal."""
        builder = PromptBuilder(lm, self.template, self.reserve, self.few_shot)
        work = set_scorer(self.queries, self.bank, self.candidates, lm, builder, self.fit, self.per_token)
        return timed_chunk(work, start, stop, lambda: lm.tokens_read)


class _Actor:
    """One LM of the pool; it lives as long as the pool does."""

    def __init__(self, job: ScoringJob) -> None:
        self.job, self.lm = job, job.load()
        if self.lm.name != job.lm:
            raise UserError(
                f"the LM is {self.lm.name} on {platform.node()} and {job.lm} where the run was started; "
                "give --dtype, and the same weights on all machines"
            )

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        spans = zip(batch["start"].tolist(), batch["stop"].tolist(), strict=True)
        # as text, because Arrow would pad lists of unequal length to one shape
        return {"line": [json.dumps(self.job.line(self.lm, start, stop)) for start, stop in spans]}


def actor_pool(job: ScoringJob, actors: int) -> Engine:
    """Return an engine for `Stage.rows` that scores `actors` chunks at a time with Ray Data.

    Only this process writes the journal, so every chunk is in it once, however often it was scored. An actor or a
    machine that dies is replaced and its chunk is scored again; a stopped run continues with the chunks that are not
    in the journal. The cluster is the one that `RAY_ADDRESS` names, or one that is started on this machine.

    Args:
        job: what to score.
        actors: actors, each of which takes a GPU, or a CPU core where the cluster has no GPU.

    Raises:
        UserError: ray is not installed; fewer than one actor.
    """
    if actors < 1:
        raise UserError(f"--actors {actors}: expected at least 1")
    try:
        import ray
        import ray.data
    except ModuleNotFoundError:
        raise UserError("ray is not installed; pip install 'ceil-jax[ray]'") from None

    def engine(spans: Sequence[tuple[int, int]]) -> Iterator[Chunk]:
        started = not ray.is_initialized()
        if started:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
        try:
            resources = ray.cluster_resources()
            what = "GPU" if resources.get("GPU") else "CPU"
            if actors > resources[what]:
                raise UserError(
                    f"--actors {actors}: the cluster has {resources[what]:.0f} {what}s; an actor takes one"
                )
            ray.data.DataContext.get_current().enable_progress_bars = False
            items = [{"start": start, "stop": stop} for start, stop in spans]
            # one block a chunk: an actor that dies loses no more than its current chunk; Ray Data restarts lost
            # actors and their chunks
            chunks = ray.data.from_items(items, override_num_blocks=len(items))
            lines = chunks.map_batches(
                _Actor,
                fn_constructor_args=(job,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(actors, len(items))),
                num_gpus=1 if what == "GPU" else None,
                num_cpus=1 if what == "CPU" else None,
            )
            for row in lines.iter_rows():
                yield json.loads(row["line"])
        finally:
            if started:
                ray.shutdown()

    return engine
