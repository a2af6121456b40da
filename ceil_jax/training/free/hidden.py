"""The label head on an LM's hidden states.

Dimensions of hidden states differ in size by orders of magnitude, so that each is centred and scaled
by the bank before a head is fitted. The head that is returned reads the states as they are.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Float

from ceil_jax.store.progress import bar
from ceil_jax.training.free.head import (
    LabelHead,
    enough_rows,
    fit_logistic,
    log_loss,
    with_labels,
)
from ceil_jax.training.free.rows import Observations

REGULARISATION = (0.1, 1.0, 10.0, 100.0)
"""The grid for C, the inverse strength of the L2 penalty: coarser than that of `head`, and
wider."""

_SHOWN_AFTER = 2.0
"""Seconds before fitting shows a progress bar."""


def fit_hidden_head(rows: Observations, like: LabelHead | None = None) -> LabelHead:
    """Fit a label head on the hidden states of the bank. Layer and C have the smallest
    cross-validated log loss.

    Args:
        rows: the bank, with hidden states of two layers.
        like: as for `head.fit_label_head`.
    """
    assert rows.states is not None, "hidden states are read before"
    layers = range(rows.states.shape[1])
    best = partial(fit_layer, layer=layers[-1], c=REGULARISATION[0])
    if enough_rows(rows):
        fits = [
            partial(fit_layer, layer=layer, c=c) for layer, c in product(layers, REGULARISATION)
        ]
        losses = []
        with bar(len(fits), "fitting the head on hidden states", delay=_SHOWN_AFTER) as progress:
            for fit in fits:
                losses.append(log_loss(fit, rows))
                progress.update()
        best = fits[int(np.argmin(losses))]
    head = best(rows)
    return head if like is None else with_labels(head, like.labels)


def fit_layer(rows: Observations, layer: int, c: float) -> LabelHead:
    """Return a head that reads one layer of the hidden states; its weights of the other are 0.

    Args:
        rows: the bank, with hidden states.
        layer: the position of the layer.
        c: C of the fit, on states that are scaled to the length of unit vectors.
    """
    assert rows.states is not None, "hidden states are read before"
    states = rows.states[:, layer].astype(np.float64)
    # standardised, and divided by √s, so that a row has about unit length
    mean = states.mean(axis=0)
    scale = np.maximum(states.std(axis=0), 1e-6) * np.sqrt(states.shape[1])
    head = fit_logistic(rows, c, (states - mean) / scale)
    # weights and bias for states as they are: w · (h − mean) / scale + b
    of_layer: Float[np.ndarray, "s labels"] = head.weights / scale[:, None]
    bias = head.bias - mean @ of_layer
    weights = np.zeros((*rows.states.shape[1:], len(head.labels)), np.float32)
    weights[layer] = of_layer
    return LabelHead(head.labels, weights.reshape(-1, len(head.labels)), bias.astype(np.float32))
