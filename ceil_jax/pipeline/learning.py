"""The training of networks from scores, and their files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import LearnsFromScores, TrainingJob
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.vectors import text_facts
from ceil_jax.store.folder import SCRATCH
from ceil_jax.store.kept import Files, Lazy, Noted, Work, kept
from ceil_jax.store.locking import disk_errors
from ceil_jax.tasks.example import Example
from ceil_jax.training.candidates import ScoredSets, TrainingData
from ceil_jax.training.fixed_blocks import FixedBlocks
from ceil_jax.training.held_out import held_out_count
from ceil_jax.training.loop import step_count

log = logging.getLogger(__name__)


def work_of_training(run: Run, encoders: Lazy[EncoderPair]) -> Work:
    """Return the work of training encoders."""
    effort = encoders.method.effort()
    if effort is None:
        return Work()
    facts = text_facts(encoders.start, encoders.queries, 0.75, training=True)
    instances = facts.texts - held_out_count(facts.texts)
    texts = effort.texts * instances * effort.epochs
    return Work(
        trained=texts * facts.tokens * facts.parameters,
        steps=step_count(instances, effort.epochs, effort.batch_size),
    )


@kept(
    lambda encoders: encoders.method.name,
    files=Files(
        lambda folder, trained: save_networks(folder, *trained),
        lambda run, lazy, folder: load_networks(folder, run.get(lazy.start), lazy.method.title),
    ),
    what=lambda encoders: f"training {encoders.method.title}",
    work=work_of_training,
)
def train_encoders(
    folder: Path,
    method: LearnsFromScores,
    scored: ScoredSets,
    queries: Sequence[Example],
    bank: Sequence[Example],
    start: EncoderPair,
    seed: int,
    fixed: FixedBlocks | None = None,
    trade_off: float | None = None,
    bank_vectors: np.ndarray | None = None,
    learnt: np.ndarray | None = None,
) -> EncoderPair | Noted:
    """Return encoders trained to rank candidate sets.

    Args:
        folder: has room for checkpoints.
        method: trains.
        scored: the candidate sets with their scores.
        queries: the training queries' texts.
        bank: the bank, with the texts that trained encoders read.
        start: the encoders to start from.
        seed: see `TrainingJob`.
        fixed: the blocks of the head beside which the networks are trained.
        trade_off: λ, for a method that learns sets.
        bank_vectors: the bank's vectors by the start, for a training with frozen examples.
        learnt: bool [Q]: training queries that the start was trained on, which are not held out.
    """
    networks = {"query": require_network(start.query), "context": require_network(start.bank)}
    job = TrainingJob(
        folder=folder / SCRATCH,
        query=networks["query"],
        bank=networks["context"],
        data=TrainingData(queries, bank, scored.candidates, scored.scores, learnt, fixed),
        seed=seed,
        trade_off=trade_off,
        bank_vectors=bank_vectors,
    )
    trained = method.fit(job)
    if trained.ending.kept == "start":
        log.warning(
            "training %s: it ranked held-out sets no better than the start, which is kept "
            "(more training queries may help)",
            method.title,
        )
    notes = {"history": trained.history, "ending": trained.ending._asdict()}
    return Noted((networks, trained.params), notes)


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
    """Return the networks that `save_networks` wrote.

    They share compiled functions with the networks that training began with.
    """
    loaded: dict[str, Encoder] = {}
    for name, side in {"query": start.query, "context": start.bank}.items():
        if (folder / name).is_dir():
            label = title if name == "query" else f"{title} {name}"
            params = load_encoder(folder / name).params
            loaded[name] = require_network(side).with_params(params).renamed(label)
    return EncoderPair(loaded["query"], loaded.get("context", loaded["query"]))
