"""Batches of padded rows, and scoring in them, on a GPU and for a causal LM whose attention cannot be set (GPT-Neo).

Texts that are equal but for their last token are read once, such as a prompt with options of one token each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ceil_jax.lm.tokens import PairTokens


class PaddedReader:
    """Reads texts in batches of at most `budget` tokens, padding included, as `scoring.TreeReader` does in passes."""

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget

    @torch.inference_mode()
    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens, and the number of tokens read."""
        scores = [np.zeros(0)] * len(rows)
        texts: dict[tuple[int, ...], list[int]] = {}
        for row, tokens in enumerate(rows):
            if tokens.scored:
                texts.setdefault(tuple(tokens.ids[:-1]), []).append(row)
        distinct = list(texts)
        for batch in by_token_budget([len(text) for text in distinct], self.budget):
            # padding stands after a row's own tokens, where a causal LM cannot see it
            inputs = padded_ids([distinct[place] for place in batch], self.model.device)
            asked = [(place, rows[row], row) for place, text in enumerate(batch) for row in texts[distinct[text]]]
            first = min(tokens.start for _, tokens, _ in asked) - 1
            wanted = inputs.shape[1] - first
            logits = self.model(input_ids=inputs, use_cache=False, logits_to_keep=wanted).logits
            # of each scored token: its text in the batch, the place before it, the token
            at = [
                (place, t - 1 - first, row.ids[t]) for place, row, _ in asked for t in range(row.start, len(row.ids))
            ]
            place, before, token = torch.tensor(at, device=logits.device).T
            predicted = logits[place, before].float()
            found = predicted.gather(1, token[:, None])[:, 0] - predicted.logsumexp(-1)
            parts = found.double().cpu().split([row.scored for _, row, _ in asked])
            for (_, _, row), log_probs in zip(asked, parts, strict=True):
                scores[row] = log_probs.numpy()
        return scores, sum(map(len, distinct))


def by_token_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return batches of rows of near equal lengths, by the rows' numbers.

    The longest rows come first, so that a batch that does not fit in memory fails at once and not after an hour. A
    batch has at most `budget` tokens (rows × longest row), or is one row.
    """
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > budget:
            batches.append([])
            longest = max(lengths[row], 1)
        batches[-1].append(row)
    return batches


def padded_ids(rows: Sequence[Sequence[int]], device: torch.device, side: str = "right") -> torch.Tensor:
    """Return int64 [rows, longest row], with zeros on the right or left side."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_side=side).to(device)
