"""Stages of training: heads, trained encoders, and the data of both."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, TrainingJob
from ceil_jax.pipeline.stage import Run, Stage, Work
from ceil_jax.pipeline.vectors import HeadInputs, text_facts
from ceil_jax.pipeline.views import RetrievalTexts
from ceil_jax.store.folder import SCRATCH, load_arrays, save_arrays, write_json
from ceil_jax.store.locking import disk_errors
from ceil_jax.store.progress import bar
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import ScoredSets, TrainingData
from ceil_jax.training.fixed_blocks import FixedBlocks
from ceil_jax.training.free.choice import (
    FOLDS,
    Fit,
    agreement,
    best_head,
    cross_fitted_blocks,
    with_cosine,
)
from ceil_jax.training.free.encoder import SETTINGS, FreeEncoder, marks
from ceil_jax.training.free.rows import Cosine, Head, Observations
from ceil_jax.training.held_out import held_out_count
from ceil_jax.training.loop import step_count

log = logging.getLogger(__name__)

_JUDGED_BY = 4
"""Number of nearest examples of a held-out row by which a head is judged."""


_SHOWN_AFTER = 2.0
"""Seconds before fitting a head shows a progress bar; on a small bank it is done by then."""


def _counted(fit: Fit, progress: Any) -> Fit:
    """Wrap a fit so that a progress bar advances by a step each time it is done."""

    def fitted(*rows: Any, **settings: Any) -> Head:
        head = fit(*rows, **settings)
        progress.update()
        return head

    return fitted


@dataclass(frozen=True)
class TrainedHead(Stage["Head | None"]):
    """A head trained on the bank's outputs; None if held-out rows favour the plain cosine."""

    method: LearnsFromOutputs
    rows: HeadInputs
    """The bank as inputs of the head."""

    @property
    def kind(self) -> str:
        return self.method.name

    @property
    def what(self) -> str:
        return f"training {self.method.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        examples = run.get(self.rows.view)
        rows = run.get(self.rows)
        fits = with_cosine(self.method.fits(examples))
        # each is fitted to be judged, and the best one once more on the whole bank
        with bar(len(fits) + 1 if len(fits) > 1 else 1, self.what, delay=_SHOWN_AFTER) as progress:
            counted = {name: _counted(fit, progress) for name, fit in fits.items()}
            return self._fitted(run, folder, examples, rows, counted)

    def _fitted(
        self,
        run: Run,
        folder: Path,
        examples: Sequence[Example],
        rows: Observations,
        fits: Mapping[str, Fit],
    ) -> Mapping[str, Any]:
        """Fit the best head for the bank, and write it."""
        name, *others = fits
        agreements: Mapping[str, np.ndarray] = {}
        if others:
            nearest = min(_JUDGED_BY, len(examples) // 2)
            kind: Literal["label", "structures"] = "label"
            if self.rows.parser and "head" not in fits:
                kind = "structures"
            agreements = agreement(fits, rows, kind, nearest)
            name = best_head(agreements)
            means = ", ".join(f"{fit} {values.mean():.3f}" for fit, values in agreements.items())
            alike = {
                "label": "share of a held-out row's nearest examples that have its label",
                "structures": "overlap (F1) of a held-out row's program with those of its nearest "
                "examples",
            }
            log.info("%s: %s: %s; %s is taken", self.method.title, alike[kind], means, name)
        elif name == "cosine":
            log.info(
                "%s: outputs are neither labels nor programs; the untrained encoder is taken",
                self.method.title,
            )
        head = fits[name](rows)
        if isinstance(head, Cosine):
            write_json(folder / SETTINGS, {"method": ""})
        else:
            # the encoder below the head is not saved in this folder
            base = run.get(self.rows.vectors.encoders).query
            pairs = rows.parts is not None
            learnt = marks(examples)
            FreeEncoder(base, head, None, self.rows.parser, pairs, learnt).save_head(folder)
        qualities = {fit: float(values.mean()) for fit, values in agreements.items()}
        return {"bank": len(examples), "taken": name, **qualities}

    def load(self, run: Run, folder: Path) -> Head | None:
        encoder = self.encoder(run)
        return None if encoder is None else encoder.head

    def encoder(self, run: Run) -> FreeEncoder | None:
        """Return the head together with the encoder below it, as an application uses it; None
        without a head."""
        if run.summary(self)["taken"] == "cosine":
            return None
        base = run.get(self.rows.vectors.encoders).query
        return FreeEncoder.from_pretrained(run.folder(self), base)


@dataclass(frozen=True)
class CrossFitting(Stage["np.ndarray | None"]):
    """The head's blocks of the bank's rows as queries, cross-fitted: each row's block comes from a
    head that was fitted without that row. None if there is no head."""

    head: TrainedHead

    @property
    def what(self) -> str:
        return f"cross-fitting {self.head.method.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        head = run.get(self.head)
        if head is not None:
            fits = self.head.method.fits(run.get(self.head.rows.view))
            fit = fits[run.summary(self.head)["taken"]]
            rows = run.get(self.head.rows)
            with bar(FOLDS, self.what, delay=_SHOWN_AFTER) as progress:
                blocks = cross_fitted_blocks(_counted(fit, progress), head, rows)
            save_arrays(folder / "blocks.npz", blocks=blocks)
        return {"fitted": head is not None}

    def load(self, run: Run, folder: Path) -> np.ndarray | None:
        if not run.summary(self)["fitted"]:
            return None
        return load_arrays(folder / "blocks.npz")["blocks"]


@dataclass(frozen=True)
class BlocksInTraining(Stage["FixedBlocks | None"]):
    """A head's blocks of training queries and of the bank, for a network that is trained beside the
    head; None if there is no head."""

    kind = "fixedparts"
    in_memory = True
    head: Stage[Head | None]
    queries: Stage[np.ndarray | None]
    bank: Stage[np.ndarray | None]

    def load(self, run: Run, folder: Path) -> FixedBlocks | None:
        head = run.get(self.head)
        queries = run.get(self.queries)
        bank = run.get(self.bank)
        if head is None or queries is None or bank is None:
            return None
        return FixedBlocks(queries, bank, head.cosine_weight)


@dataclass(frozen=True)
class TrainedEncoders(Stage[EncoderPair]):
    """Encoders trained to rank candidate sets."""

    method: LearnsFromScores
    scored: Stage[ScoredSets]
    queries: RetrievalTexts
    bank: RetrievalTexts
    """The bank, with the texts that trained encoders read."""
    start: Stage[EncoderPair]
    seed: int
    fixed: Stage[FixedBlocks | None] | None = None
    """The blocks of the head beside which the networks are trained."""
    trade_off: float | Stage[float] | None = None
    bank_vectors: Stage[np.ndarray] | None = None
    """The bank's vectors by the start, if the method `reads_bank_vectors`."""
    learnt: np.ndarray | None = field(default=None, repr=False)
    """bool [Q]: training queries that the start was trained on, which are not held out."""

    @property
    def kind(self) -> str:
        return self.method.name

    @property
    def what(self) -> str:
        return f"training {self.method.title}"

    def compute(self, run: Run, folder: Path) -> Mapping[str, Any]:
        candidates, scores = run.get(self.scored)
        data = TrainingData(
            run.get(self.queries),
            run.get(self.bank),
            candidates,
            scores,
            self.learnt,
            None if self.fixed is None else run.get(self.fixed),
        )
        start = run.get(self.start)
        query = require_network(start.query)
        job = TrainingJob(
            folder=folder / SCRATCH,
            query=query,
            bank=require_network(start.bank),
            data=data,
            seed=self.seed,
            trade_off=run.value(self.trade_off),
            bank_vectors=None if self.bank_vectors is None else run.get(self.bank_vectors),
        )
        trained = self.method.fit(job)
        save_networks(folder, {"query": job.query, "context": job.bank}, trained.params)
        if trained.ending.kept == "start":
            log.warning(
                "training %s: it ranked held-out sets no better than the start, which is kept "
                "(more training queries may help)",
                self.method.title,
            )
        return {"history": trained.history, "ending": trained.ending._asdict()}

    def load(self, run: Run, folder: Path) -> EncoderPair:
        return load_networks(folder, run.get(self.start), self.method.title)

    def estimate(self, run: Run) -> Work:
        effort = self.method.effort()
        if effort is None:
            return Work()
        facts = text_facts(self.start, self.queries, 0.75, training=True)
        instances = facts.texts - held_out_count(facts.texts)
        texts = effort.texts * instances * effort.epochs
        return Work(
            trained=texts * facts.tokens * facts.parameters,
            steps=step_count(instances, effort.epochs, effort.batch_size),
        )


def save_networks(folder: Path, networks: Mapping[str, Encoder], params: Mapping[str, Any]) -> None:
    """Write trained networks.

    Args:
        folder: receives a folder for each network.
        networks: the networks that training began with, by "query" and "context".
        params: trained weights: {"query": …} for one network, {"query": …, "context": …} for two.
    """
    with disk_errors(folder):
        for name, weights in params.items():
            # a process killed while saving may have left files of an incomplete encoder
            shutil.rmtree(folder / name, ignore_errors=True)
            networks[name].with_params(weights).save_pretrained(folder / name)


def load_networks(folder: Path, start: EncoderPair, title: str) -> EncoderPair:
    """Return the networks that `save_networks` wrote. They share compiled functions with the
    networks that training began with."""
    loaded: dict[str, Encoder] = {}
    for name, side in {"query": start.query, "context": start.bank}.items():
        if (folder / name).is_dir():
            label = title if name == "query" else f"{title} {name}"
            params = load_encoder(folder / name).params
            loaded[name] = require_network(side).with_params(params).renamed(label)
    return EncoderPair(loaded["query"], loaded.get("context", loaded["query"]))
