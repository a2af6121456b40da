"""Scoring in batches of padded rows, on a GPU and for causal LMs whose attention cannot be set
(GPT-Neo).

Texts that differ only in their last token, such as a prompt with options of one token each, are
read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ceil_jax.lm.tokens import PairTokens
from ceil_jax.lm.torch.layers import two_layers

_LOGITS = 2**14
"""The most logits of a pass for each token of its budget: 1 GiB in bfloat16 with a GPU's budget."""


class PaddedReader:
    """Scores rows of tokens in padded batches of at most `budget` tokens, padding included; see
    `scoring.TreeReader` for the alternative."""

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget

    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens, and the number of tokens
        read."""
        scores = [np.zeros(0)] * len(rows)
        texts: dict[tuple[int, ...], list[int]] = {}
        for row, tokens in enumerate(rows):
            if tokens.scored:
                texts.setdefault(tuple(tokens.ids[:-1]), []).append(row)
        lengths = [len(text) for text in texts]
        owners = list(texts.values())
        for batch in by_token_budget(lengths, self.budget):
            count = max(
                lengths[text] + 1 - rows[row].start for text in batch for row in owners[text]
            )
            most = max(
                1,
                self.budget
                * _LOGITS
                // (count * self.model.get_output_embeddings().weight.shape[0]),
            )
            for start in range(0, len(batch), most):
                rows_of_texts = [owners[text] for text in batch[start : start + most]]
                log_probs_of_rows = self._read(
                    [[rows[row] for row in numbers] for numbers in rows_of_texts]
                )
                for row, log_probs in zip(
                    chain.from_iterable(rows_of_texts), log_probs_of_rows, strict=True
                ):
                    scores[row] = log_probs
        return scores, sum(lengths)

    @torch.inference_mode()
    def states(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the hidden states of each row's last token, float32 [2, D], in the layers of
        `two_layers`, and the number of tokens read."""
        lengths = [len(row.ids) for row in rows]
        states = [np.zeros(0)] * len(rows)
        for batch in by_token_budget(lengths, self.budget):
            # padding stands after a row's tokens, where a causal LM does not see it
            inputs = padded_ids([rows[row].ids for row in batch], self.model.device)
            last = torch.tensor([lengths[row] - 1 for row in batch], device=inputs.device)
            each = torch.arange(len(batch), device=inputs.device)
            layers = two_layers(self.model, {"input_ids": inputs})
            read = torch.stack([layer[each, last].float() for layer in layers], dim=1)
            for row, of_row in zip(batch, read.cpu().numpy(), strict=True):
                states[row] = of_row
        return states, sum(lengths)

    @torch.inference_mode()
    def _read(self, texts: Sequence[Sequence[PairTokens]]) -> list[np.ndarray]:
        """The log-probabilities of each row's scored tokens, text by text."""
        # padding stands after a row's tokens, where a causal LM does not see it
        inputs = padded_ids([of_text[0].ids[:-1] for of_text in texts], self.model.device)
        rows = [(number, row) for number, of_text in enumerate(texts) for row in of_text]
        begin = min(row.start for _, row in rows) - 1
        count = inputs.shape[1] - begin
        logits = self.model(input_ids=inputs, use_cache=False, logits_to_keep=count).logits
        # for each scored token: its text, the position before it, the token
        at = [
            (number, i - 1 - begin, row.ids[i])
            for number, row in rows
            for i in range(row.start, len(row.ids))
        ]
        number, before, token = torch.tensor(at, device=logits.device).T
        predicted = logits[number, before].float()
        log_probs = predicted.gather(1, token[:, None])[:, 0] - predicted.logsumexp(-1)
        return [
            part.numpy() for part in log_probs.double().cpu().split([row.scored for _, row in rows])
        ]


def by_token_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return batches of rows of similar lengths, as numbers of rows.

    The longest rows come first, so that running out of memory shows at once and not after an hour.
    A batch has at most `budget` tokens (rows × longest row), or is a single row.
    """
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > budget:
            batches.append([])
            longest = max(lengths[row], 1)
        batches[-1].append(row)
    return batches


def padded_ids(
    rows: Sequence[Sequence[int]], device: torch.device, side: str = "right"
) -> torch.Tensor:
    """Return int64 [rows, longest row], with zeros on the right or left side."""
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_side=side
    ).to(device)
