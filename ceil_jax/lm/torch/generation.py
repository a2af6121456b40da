"""Text generation, token by token, greedily or by sampling, until every text has ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from ceil_jax.lm.answers import Answer, Ended, first_stop
from ceil_jax.lm.torch.padded import padded_ids


class Session:
    """A batch of prompts that a model reads together and continues token by token.

    They are padded on the left.

    Each prompt has at least one token. A repeated prompt is read once.
    """

    @torch.inference_mode()
    def __init__(self, model: Any, prompts: Sequence[list[int]]):
        self._model = model
        self._cache = DynamicCache(config=model.config)
        # each distinct prompt → its number
        distinct = {ids: number for number, ids in enumerate(dict.fromkeys(map(tuple, prompts)))}
        self._mask = padded_ids([[1] * len(prompt) for prompt in distinct], model.device, "left")
        self.read = sum(map(len, distinct))
        """The number of tokens that have been read so far."""
        self.predicted = torch.empty(0)
        """Logits of each row's next token, [rows, vocabulary]."""
        ids = padded_ids(list(distinct), model.device, "left")
        # positions count from the first token that is not padding
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        self._forward(ids, positions)
        self.keep([distinct[tuple(prompt)] for prompt in prompts])

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> None:
        """Append a token to each row and predict the next one."""
        inputs = torch.tensor(tokens, device=self._mask.device)[:, None]
        self._mask = torch.cat([self._mask, torch.ones_like(inputs)], dim=1)
        self._forward(inputs, self._mask.sum(1, keepdim=True) - 1)
        self.read += len(tokens)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue only with some rows, in the given order."""
        indices = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(indices)
        self._mask = self._mask[indices]
        self.predicted = self.predicted[indices]

    def _forward(self, inputs: torch.Tensor, positions: torch.Tensor) -> None:
        self.predicted = self._model(
            input_ids=inputs,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]


class Writer:
    """The generated text of one prompt.

    It takes tokens up to its limit, the model's end of text or a stop string.

    Args:
        tokenizer: a tokenizer of transformers, to turn token ids into text.
        prompt: the prompt's token ids.
        limit: the most tokens to generate.
        draw: the random numbers of sampling.
        stop: strings that end the text.
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt: list[int],
        limit: int,
        draw: np.random.Generator,
        stop: Sequence[str],
    ):
        self.draw = draw
        self.ended: Ended | None = None
        """Why the text has ended; None while it continues."""
        self._tokenizer = tokenizer
        self._limit = limit
        self._stop = stop
        self._written: list[int] = []
        # decoded after a few tokens of the prompt, because some tokenizers drop a text's first
        # space
        self._before = prompt[-4:]
        self._skip = len(self._decode(self._before))

    def write(self, token: int, *, end: bool) -> None:
        """Add the next token. `end`: whether it is a token that ends the text."""
        if not end:
            self._written.append(token)
        if end or first_stop(self.text(), self._stop) is not None:
            self.ended = "stop"
        elif len(self._written) >= self._limit:
            self.ended = "length"

    def text(self) -> str:
        """Return the text so far."""
        return self._decode(self._before + self._written)[self._skip :]

    def answer(self) -> Answer:
        """Return the text, and why it ended."""
        return Answer(self.text(), self.ended or "length")

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def write_all(
    session: Session, writers: Sequence[Writer], ends: Collection[int], temperature: float
) -> None:
    """Continue a session until every text has ended; finished texts leave the session.

    Args:
        session: has a row for each writer, with its prompt read.
        writers: receive the tokens.
        ends: token ids that end a text.
        temperature: divides the logits before a token is sampled; with 0, the most probable token
            is taken.
    """
    alive = list(writers)
    while True:
        if temperature:
            uniform = [writer.draw.random() for writer in alive]
            chosen = _sampled(session.predicted / temperature, uniform).tolist()
        else:
            chosen = session.predicted.argmax(-1).tolist()
        for writer, token in zip(alive, chosen, strict=True):
            writer.write(token, end=token in ends)
        going = [row for row, writer in enumerate(alive) if writer.ended is None]
        if not going:
            return
        if len(going) < len(alive):
            session.keep(going)
            alive = [alive[row] for row in going]
            chosen = [chosen[row] for row in going]
        session.step(chosen)


def _sampled(logits: torch.Tensor, uniform: Sequence[float]) -> torch.Tensor:
    """A sampled token for each row, int [rows].

    The one at which its cumulative probability passes its uniform number.
    """
    cumulative = logits.double().softmax(-1).cumsum(-1)
    uniform_numbers = torch.tensor(uniform, device=logits.device, dtype=torch.float64)
    # by rounding, the last cumulative probability may differ from 1
    levels = uniform_numbers[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, levels, right=True)[:, 0]
    return tokens.clamp(max=logits.shape[-1] - 1)
