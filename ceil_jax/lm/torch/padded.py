"""A causal LM whose attention cannot be set (GPT-Neo, GPT-J, state-space models): padded batches.

Only what rows have in common but for their last token is read once, such as a prompt with options of one
token each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from ceil_jax.lm.tokens import Tokens
from ceil_jax.lm.torch.batching import by_token_budget


class PlainReader:
    """As `torch_reader.Reader`, in batches of `budget` tokens, padding included."""

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget

    def scores(self, rows: Sequence[Tokens]) -> tuple[np.ndarray, int]:
        """float64 [N]: each row's log-likelihood; and how many tokens were read, padding left out."""
        found, read = self.each(rows)
        return np.array([tokens.sum() for tokens in found]), read

    @torch.inference_mode()
    def each(self, rows: Sequence[Tokens]) -> tuple[list[np.ndarray], int]:
        """The log-probabilities of each row's scored tokens; and how many tokens were read."""
        scores = [np.zeros(0)] * len(rows)
        texts: dict[tuple[int, ...], list[int]] = {}
        for row, tokens in enumerate(rows):
            if tokens.scored:
                texts.setdefault(tuple(tokens.ids[:-1]), []).append(row)
        distinct = list(texts)
        for batch in by_token_budget([len(text) for text in distinct], self.budget):
            # pad tokens follow a row's own, where a causal LM cannot see them
            inputs = padded([distinct[place] for place in batch], self.model.device)
            first = min(rows[row].start for place in batch for row in texts[distinct[place]]) - 1
            logits = self.model(
                input_ids=inputs, use_cache=False, logits_to_keep=inputs.shape[1] - first
            ).logits.float()
            logits.sub_(logits.logsumexp(-1, keepdim=True))
            for place, text in enumerate(batch):
                for row in texts[distinct[text]]:
                    start, ids = rows[row].start, rows[row].ids
                    after = torch.arange(start - 1 - first, len(ids) - 1 - first)
                    scores[row] = logits[place, after, ids[start:]].double().cpu().numpy()
        return scores, sum(map(len, distinct))

    def session(self, prompts: Sequence[list[int]], room: int) -> PlainSession:
        """The prompts, read, to be continued."""
        return PlainSession(self.model, prompts)


class PlainSession:
    """As `torch_session.Session`."""

    @torch.inference_mode()
    def __init__(self, model: Any, prompts: Sequence[list[int]]):
        self._model = model
        self._cache = DynamicCache(config=model.config)
        self._mask = padded([[1] * len(prompt) for prompt in prompts], model.device, left=True)
        self.read = 0
        self.predicted = torch.empty(0)
        self._forward(padded(prompts, model.device, left=True), (self._mask.cumsum(1) - 1).clamp(min=0))
        self.read = sum(map(len, prompts))

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> None:
        inputs = torch.tensor(tokens, device=self._mask.device)[:, None]
        self._mask = torch.cat([self._mask, torch.ones_like(inputs)], dim=1)
        self._forward(inputs, self._mask.sum(1, keepdim=True) - 1)
        self.read += len(tokens)

    def keep(self, rows: Sequence[int]) -> None:
        kept = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(kept)
        self._mask, self.predicted = self._mask[kept], self.predicted[kept]

    def _forward(self, inputs: torch.Tensor, positions: torch.Tensor) -> None:
        self.predicted = self._model(
            input_ids=inputs,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]


def padded(rows: Sequence[Sequence[int]], device: torch.device, *, left: bool = False) -> torch.Tensor:
    """int64 [rows, longest]: zeros fill the right, or the left."""
    width = max(map(len, rows))
    filled = np.zeros((len(rows), width), dtype=np.int64)
    for row, values in enumerate(rows):
        start = width - len(values) if left else 0
        filled[row, start : start + len(values)] = values
    return torch.from_numpy(filled).to(device)
