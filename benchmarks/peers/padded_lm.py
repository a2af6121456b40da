"""Scoring as in CEIL's released scorer: padded batches in the given order, one whole text in each
row, logits for every position, and a mask for the answer's log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ceil_jax.lm.tokens import PairTokenizer

BATCH = 8


class PaddedLM:
    """The model of a folder, with the attention that transformers gives it."""

    def __init__(self, folder: str, dtype: torch.dtype, device: str):
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self.model = model.to(device).eval()
        self.tokens = PairTokenizer(AutoTokenizer.from_pretrained(folder))

    @torch.inference_mode()
    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        """Return Σ log P of each continuation's tokens, float64 [N]; these are the tokens that our LM scores."""
        rows = self.tokens.pairs(prompts, continuations)
        return np.concatenate(
            [self._batch(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]
        )

    def _batch(self, rows: Sequence) -> np.ndarray:
        longest = max(len(row.ids) for row in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.int64)
        real = torch.zeros_like(ids)
        scored = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = torch.tensor(row.ids)
            real[place, : len(row.ids)] = 1
            scored[place, row.start : len(row.ids)] = 1
        ids, real, scored = (part.to(self.model.device) for part in (ids, real, scored))
        logits = self.model(input_ids=ids, attention_mask=real, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        ).reshape(len(rows), -1)
        return -(loss * scored[:, 1:]).sum(1).double().cpu().numpy()

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        """Return the log-likelihood of each option of each prompt, with one whole pass for each."""
        return [
            self.log_likelihood([prompt] * len(options), options)
            for prompt, options in zip(prompts, choices, strict=True)
        ]
