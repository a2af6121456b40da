"""Scoring in batches of padded rows.

It is used on a GPU, and for causal LMs whose attention cannot be set (GPT-Neo).

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

_LOGITS = 2**14
"""The maximum number of logits of a pass for each token of its budget: 1 GiB in bfloat16 with a GPU's budget."""


class PaddedReader:
    """A scorer of rows of tokens in padded batches of at most `budget` tokens.

    Padding is included. The alternative is `scoring.TreeReader`.
    """

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget

    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens.

        The number of tokens read is returned too.
        """
        scores = [np.zeros(0)] * len(rows)
        # a row's last token is scored but not read: rows that differ only in it share one text
        rows_by_text: dict[tuple[int, ...], list[int]] = {}
        for number, row in enumerate(rows):
            if row.scored:
                rows_by_text.setdefault(tuple(row.ids[:-1]), []).append(number)
        lengths = [len(text) for text in rows_by_text]
        rows_of_text = list(rows_by_text.values())
        vocabulary = self.model.get_output_embeddings().weight.shape[0]
        for batch in by_token_budget(lengths, self.budget):
            # every text of a pass has logits at as many positions as the one that needs most
            positions = max(
                lengths[text] + 1 - rows[number].start
                for text in batch
                for number in rows_of_text[text]
            )
            texts_at_once = max(1, self.budget * _LOGITS // (positions * vocabulary))
            for start in range(0, len(batch), texts_at_once):
                numbers = [rows_of_text[text] for text in batch[start : start + texts_at_once]]
                log_probs_of_rows = self._read(
                    [[rows[number] for number in numbers_of_text] for numbers_of_text in numbers]
                )
                for number, log_probs in zip(
                    chain.from_iterable(numbers), log_probs_of_rows, strict=True
                ):
                    scores[number] = log_probs
        return scores, sum(lengths)

    @torch.inference_mode()
    def _read(self, texts: Sequence[Sequence[PairTokens]]) -> list[np.ndarray]:
        """The log-probabilities of each row's scored tokens, text by text."""
        # padding stands after a row's tokens, where a causal LM does not see it
        inputs = padded_ids([of_text[0].ids[:-1] for of_text in texts], self.model.device)
        rows = [(text, row) for text, rows_of_text in enumerate(texts) for row in rows_of_text]
        # logits at a position are of the token after it; they are kept from `begin` on
        begin = min(row.start for _, row in rows) - 1
        kept = inputs.shape[1] - begin
        logits = self.model(input_ids=inputs, use_cache=False, logits_to_keep=kept).logits
        # for each scored token: its text, the position before it among the kept ones, its id
        scored = [
            (text, position - 1 - begin, row.ids[position])
            for text, row in rows
            for position in range(row.start, len(row.ids))
        ]
        text_numbers, before, ids = torch.tensor(scored, device=logits.device).T
        predicted = logits[text_numbers, before].float()  # [scored tokens, vocabulary]
        log_probs = predicted.gather(1, ids[:, None])[:, 0] - predicted.logsumexp(-1)
        counts = [row.scored for _, row in rows]
        return [of_row.numpy() for of_row in log_probs.double().cpu().split(counts)]


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
