"""Workloads for language models: real prompts of film reviews, and the two ways to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.harness import OURS, Disagreement, Settings
from benchmarks.peers.padded_lm import PaddedLM
from ceil_jax.lm import load_lm
from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.prompts import Prompt, PromptBuilder
from ceil_jax.lm.torch.gguf import converted
from ceil_jax.tasks.load import load_task

MODELS = (
    ("SmolLM2-135M-Instruct", "float32"),
    ("SmolLM2-135M-Instruct", "bfloat16"),
    ("gemma-3-270m", "bfloat16"),
)
SMALL_MODELS = MODELS[:1]
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}
"""The largest difference of an answer's log-probability, in nats. In bfloat16 both are rounded, in different ways."""


def models(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return the names and dtypes of the models."""
    return SMALL_MODELS if settings.small else MODELS


def pair(name: str, dtype: str, settings: Settings) -> tuple[LanguageModel, PaddedLM]:
    """Return our LM and the peer, with the same weights in the same dtype on the same device."""
    device = "cuda" if settings.device == "gpu" else "cpu"
    peer = PaddedLM(str(converted(name)), getattr(torch, dtype), device)
    return load_lm(name, dtype=dtype, device_map=device), peer


def reviews(lm: LanguageModel) -> tuple[Any, PromptBuilder]:
    """Return the task of film reviews and the builder of its prompts."""
    task = load_task("movie_reviews")
    return task, PromptBuilder(lm, Prompt(task.template), reserve=8)


def same_scores(dtype: str, results: Mapping[str, np.ndarray]) -> str:
    """Check that every peer's log-likelihoods equal ours, within TOLERANCE."""
    worst = max(float(np.abs(scores - results[OURS]).max()) for scores in results.values())
    if not worst <= TOLERANCE[dtype]:
        raise Disagreement(f"log P differ by {worst:.2g} nats in {dtype}")
    return f"log P equal to {worst:.1g} nats"


def operations(peer: PaddedLM, read: int) -> float:
    """Return the FLOP of reading a number of tokens: two for every weight of the layers.
    (Attention's own products are a twelfth of that at 450 tokens and are left out, as are the few
    logits.)"""
    layers = sum(weights.numel() for weights in peer.model.parameters())
    embedding = peer.model.get_input_embeddings().weight.numel()
    return 2.0 * (layers - embedding) * read
