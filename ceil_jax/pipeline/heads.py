"""Heads, which are trained on the bank's outputs without an LM, and their vectors.

A head adds blocks to an encoder's vectors of queries and examples (`training.free`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.methods.base import LearnsFromOutputs
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.vectors import Side, text_vectors
from ceil_jax.pipeline.views import Texts, parts, source
from ceil_jax.store.folder import load_arrays, save_arrays, write_json
from ceil_jax.store.kept import Files, Lazy, Noted, kept
from ceil_jax.store.progress import bar
from ceil_jax.tasks.bank import BankQueries, Examples
from ceil_jax.tasks.example import Example
from ceil_jax.training.fixed_blocks import FixedBlocks
from ceil_jax.training.free.choice import (
    FOLDS,
    Fit,
    agreement,
    best_head,
    cross_fitted_blocks,
    with_cosine,
)
from ceil_jax.training.free.encoder import SETTINGS, FreeEncoder, marks, observations
from ceil_jax.training.free.rows import Cosine, Head, Observations, beside

log = logging.getLogger(__name__)

_JUDGED_BY = 4
"""Number of nearest examples of a held-out row by which heads are compared."""


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
"""The lazy value of a call of `train_head`."""


def head_encoder(run: Run, head: HeadValue) -> FreeEncoder | None:
    """Return a trained head together with the encoder below it, as an application uses it.

    None without a head.
    """
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
    """Return the name of the head that is best for the bank, and the measure by which it was chosen."""
    name, *others = fits
    if not others:
        if name == "cosine":
            log.info(
                "%s: outputs are neither labels nor programs; the untrained encoder is used",
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
    log.info("%s: %s: %s; %s is used", method.title, alike[kind], means, name)
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
    """Return the head's blocks of the bank's rows as queries, cross-fitted.

    Each row's block comes from a head that was fitted without that row. None if there is no head.
    """
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
    """Return a head's blocks of training queries and of the bank; None without a head.

    They are for a network that is trained together with the head.
    """
    if head is None or queries is None or bank is None:
        return None
    return FixedBlocks(queries, bank, head.cosine_weight)


@kept("headinputs")
def head_inputs(
    view: Sequence[Example],
    vectors: np.ndarray,
    parts: np.ndarray | None,
    parser: str,
    outputs: bool,
) -> Observations:
    """Return examples as inputs of a head.

    Args:
        view: the examples.
        vectors: the untrained encoder's vectors of their inputs.
        parts: the vectors of the two texts of each input; None if inputs are single texts.
        parser: the name of the parser for outputs that are programs; "" if they are not.
        outputs: whether the head may see the outputs: true for the bank, false for queries.
    """
    return observations(view, vectors, parts, parser=parser if outputs else "", outputs=outputs)


@kept("headblocks")
def head_blocks(head: Head | None, rows: Observations, side: Side) -> np.ndarray | None:
    """Return a head's blocks of queries or examples, float32 [N, w]; None if there is no head."""
    if head is None:
        return None
    return head.query_block(rows) if side == "query" else head.example_block(rows)


@kept("queryblocks")
def blocks_of_bank_queries(blocks: np.ndarray | None, positions: np.ndarray) -> np.ndarray | None:
    """Return a head's blocks for queries that are bank rows, taken from those of the whole bank."""
    return None if blocks is None else blocks[positions]


@kept("headvectors")
def head_vectors(head: Head | None, blocks: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
    """Return vectors with a head.

    Its blocks concatenated with the encoder's vectors, unit rows, float32 [N, w + D].
    """
    cosines = unit_rows(vectors)
    if head is None or blocks is None:
        return cosines
    return unit_rows(beside(blocks, cosines, head.cosine_weight))


# the lazy values of a head's inputs and blocks


def bank_blocks(head: HeadValue, view: Texts) -> Lazy[np.ndarray | None]:
    """Return the vectors that a trained head adds to those of the bank's examples."""
    trained_on_them = source(head.rows.view) is source(view)
    inputs = head.rows if trained_on_them else head_rows_like(head, view, outputs=True)
    return head_blocks(head, inputs, "bank")


def query_blocks(head: HeadValue, view: Texts, queries: Examples) -> Lazy[np.ndarray | None]:
    """Return a head's blocks of queries.

    If the head was trained on these queries, their blocks are cross-fitted, so that none depends on
    the query's own output.
    """
    if isinstance(queries, BankQueries) and queries.bank is source(head.rows.view):
        return blocks_of_bank_queries(cross_fit(head), queries.positions)
    return head_blocks(head, head_rows_like(head, view, outputs=False), "query")


def head_rows_like(head: HeadValue, view: Texts, *, outputs: bool) -> Lazy[Observations]:
    """Return examples as inputs of a head, in the same form as the bank that it was trained on."""
    of_bank = head.rows
    return head_rows(
        of_bank.vectors.encoders,
        view,
        pairs=of_bank.parts is not None,
        parser=of_bank.parser,
        outputs=outputs,
    )


def head_rows(
    encoders: Lazy[EncoderPair],
    view: Texts,
    *,
    pairs: bool,
    parser: str,
    outputs: bool,
) -> Lazy[Observations]:
    """Return examples as inputs of a head.

    Args:
        encoders: the untrained encoder.
        view: the examples' texts.
        pairs: whether every input is joined from two texts, which are then also encoded separately.
        parser: the name of the parser for outputs that are programs; "" if they are not.
        outputs: whether the head may see the outputs; false for queries.
    """
    of_parts = text_vectors(encoders, parts(view)) if pairs else None
    return head_inputs(view, text_vectors(encoders, view), of_parts, parser, outputs)
