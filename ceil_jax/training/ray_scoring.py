"""LM scoring on a Ray cluster: a pool of actors, each with an LM of its own, takes chunks as it gets free."""

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
from ceil_jax.training.candidates import Proposal
from ceil_jax.training.scoring import scorer


@dataclass(frozen=True)
class Scorer:
    """All that an actor needs to score chunks, small enough to be sent: the LM is loaded where it is used."""

    load: Callable[[], LanguageModel]
    lm: str
    """The name that the LM must have there, which says its weights and dtype."""
    queries: Sequence[Example]
    bank: Sequence[Example]
    proposal: Proposal
    template: Template
    reserve: int
    few_shot: Sequence[Example]
    fit: Fit

    def line(self, lm: LanguageModel, start: int, stop: int) -> Chunk:
        """A chunk's line for the journal."""
        builder = PromptBuilder(lm, self.template, self.reserve, self.few_shot)
        work = scorer(self.queries, self.bank, self.proposal, lm, builder, self.fit)
        return timed_chunk(work, start, stop, lambda: lm.tokens_read)


class _Actor:
    """Lives as long as the pool."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.lm = scorer, scorer.load()
        if self.lm.name != scorer.lm:
            raise UserError(
                f"the LM is {self.lm.name} on {platform.node()} and {scorer.lm} where the run was started; "
                "give --dtype, and the same weights to all machines"
            )

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        spans = zip(batch["start"].tolist(), batch["stop"].tolist(), strict=True)
        # as text: Arrow would pad lists of unequal length to one shape
        return {"line": [json.dumps(self.scorer.line(self.lm, start, stop)) for start, stop in spans]}


def actor_pool(scorer: Scorer, actors: int) -> Engine:
    """An engine for `Stage.rows`: Ray Data over the chunks, `actors` of them at a time.

    Only this process writes the journal, so every chunk stands in it once however often it was made; an actor
    or a machine that dies is replaced and its chunk made again; a run that was killed goes on with the chunks
    that are not in the journal. Uses the cluster that `RAY_ADDRESS` names, or starts one on this machine.

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
            # a block a chunk: no more is lost with an actor than the chunk that it was at; Ray Data starts lost
            # actors again, and their chunks
            chunks = ray.data.from_items(items, override_num_blocks=len(items))
            lines = chunks.map_batches(
                _Actor,
                fn_constructor_args=(scorer,),
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
