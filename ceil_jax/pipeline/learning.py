"""Training: heads, encoders, and the data of both."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import LearnsFromOutputs, LearnsFromScores, TrainingJob
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.vectors import text_facts
from ceil_jax.store.folder import SCRATCH, load_arrays, save_arrays, write_json
from ceil_jax.store.kept import Files, Lazy, Noted, Work, kept
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


HeadValue = Lazy["Head | None"]
"""A value of `train_head`."""


def head_encoder(run: Run, head: HeadValue) -> FreeEncoder | None:
    """Return a trained head together with the encoder below it, as an application uses it; None
    without a head."""
    run.get(head)
    if run.notes(head)["taken"] == "cosine":
        return None
    base = run.get(head.rows.vectors.encoders).query
    return FreeEncoder.from_pretrained(run.folder(head), base)


def _save_head(folder: Path, encoder: FreeEncoder | None) -> None:
    if encoder is None:
        write_json(folder / SETTINGS, {"method": ""})
    else:
        # the encoder below the head is not saved in this folder
        encoder.save_head(folder)


def _load_head(run: Run, head: HeadValue, folder: Path) -> Head | None:
    if run.notes(head)["taken"] == "cosine":
        return None
    base = run.get(head.rows.vectors.encoders).query
    return FreeEncoder.from_pretrained(folder, base).head


@kept(
    lambda head: head.method.name,
    files=Files(_save_head, _load_head),
    what=lambda head: f"training {head.method.title}",
    lazily=("rows",),
)
def train_head(
    run: Run, method: LearnsFromOutputs, rows: Lazy[Observations]
) -> Head | Noted | None:
    """Return a head trained on the bank's outputs; None if held-out rows favour the plain cosine.

    Args:
        run: gives the rows.
        method: says which heads may be fitted.
        rows: the bank as inputs of the head.
    """
    title = f"training {method.title}"
    examples = run.get(rows.view)
    observed = run.get(rows)
    fits = with_cosine(method.fits(examples))
    # each is fitted to be judged, and the best one once more on the whole bank
    with bar(len(fits) + 1 if len(fits) > 1 else 1, title, delay=_SHOWN_AFTER) as progress:
        counted = {name: _counted(fit, progress) for name, fit in fits.items()}
        name, agreements = _best(method, rows.parser, counted, observed)
        head = counted[name](observed)
    encoder = None
    if not isinstance(head, Cosine):
        base = run.get(rows.vectors.encoders).query
        pairs = observed.parts is not None
        encoder = FreeEncoder(base, head, None, rows.parser, pairs, marks(examples))
    qualities = {fit: float(values.mean()) for fit, values in agreements.items()}
    return Noted(encoder, {"bank": len(examples), "taken": name, **qualities})


def _best(
    method: LearnsFromOutputs, parser: str, fits: Mapping[str, Fit], rows: Observations
) -> tuple[str, Mapping[str, np.ndarray]]:
    """The name of the head that is best for the bank, and by what it was chosen."""
    name, *others = fits
    if not others:
        if name == "cosine":
            log.info(
                "%s: outputs are neither labels nor programs; the untrained encoder is taken",
                method.title,
            )
        return name, {}
    kind: Literal["label", "structures"] = "label"
    if parser and "head" not in fits:
        kind = "structures"
    agreements = agreement(fits, rows, kind, min(_JUDGED_BY, len(rows.texts) // 2))
    name = best_head(agreements)
    means = ", ".join(f"{fit} {values.mean():.3f}" for fit, values in agreements.items())
    alike = {
        "label": "share of a held-out row's nearest examples that have its label",
        "structures": "overlap (F1) of a held-out row's program with those of its nearest examples",
    }
    log.info("%s: %s: %s; %s is taken", method.title, alike[kind], means, name)
    return name, agreements


def _save_blocks(folder: Path, blocks: np.ndarray | None) -> None:
    if blocks is not None:
        save_arrays(folder / "blocks.npz", blocks=blocks)


def _load_blocks(run: Run, lazy: Lazy[Any], folder: Path) -> np.ndarray | None:
    return load_arrays(folder / "blocks.npz")["blocks"] if run.notes(lazy)["fitted"] else None


@kept(
    "crossfitting",
    files=Files(_save_blocks, _load_blocks),
    what=lambda blocks: f"cross-fitting {blocks.head.method.title}",
    lazily=("head",),
)
def cross_fit(run: Run, head: HeadValue) -> np.ndarray | Noted | None:
    """Return the head's blocks of the bank's rows as queries, cross-fitted: each row's block comes
    from a head that was fitted without that row. None if there is no head."""
    trained = run.get(head)
    if trained is None:
        return Noted(None, {"fitted": False})
    fit = head.method.fits(run.get(head.rows.view))[run.notes(head)["taken"]]
    title = f"cross-fitting {head.method.title}"
    with bar(FOLDS, title, delay=_SHOWN_AFTER) as progress:
        blocks = cross_fitted_blocks(_counted(fit, progress), trained, run.get(head.rows))
    return Noted(blocks, {"fitted": True})


@kept("fixedparts")
def blocks_in_training(
    head: Head | None, queries: np.ndarray | None, bank: np.ndarray | None
) -> FixedBlocks | None:
    """Return a head's blocks of training queries and of the bank, for a network that is trained
    beside the head; None if there is no head."""
    if head is None or queries is None or bank is None:
        return None
    return FixedBlocks(queries, bank, head.cosine_weight)


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
        bank_vectors: the bank's vectors by the start, if the method `reads_bank_vectors`.
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
    """Return the networks that `save_networks` wrote. They share compiled functions with the
    networks that training began with."""
    loaded: dict[str, Encoder] = {}
    for name, side in {"query": start.query, "context": start.bank}.items():
        if (folder / name).is_dir():
            label = title if name == "query" else f"{title} {name}"
            params = load_encoder(folder / name).params
            loaded[name] = require_network(side).with_params(params).renamed(label)
    return EncoderPair(loaded["query"], loaded.get("context", loaded["query"]))
