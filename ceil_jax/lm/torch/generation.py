"""Generation: the next token of each text, greedy or sampled, until every text has ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from ceil_jax.lm.answers import Answer, Ended, first_stop
from ceil_jax.lm.torch.padded import padded_ids


class Session:
    """Prompts that a model has read together, padded on the left, and continues, one token a row at
    a time.

    Each has at least one token. A prompt that is there several times is read once.
    """

    @torch.inference_mode()
    def __init__(self, model: Any, prompts: Sequence[list[int]]):
        self._model = model
        self._cache = DynamicCache(config=model.config)
        distinct = {ids: number for number, ids in enumerate(dict.fromkeys(map(tuple, prompts)))}
        self._mask = padded_ids([[1] * len(prompt) for prompt in distinct], model.device, "left")
        self.read = sum(map(len, distinct))  # tokens so far
        self.predicted = torch.empty(0)
        """[rows, vocabulary]: unnormalised log-probabilities of each row's next token."""
        ids = padded_ids(list(distinct), model.device, "left")
        self._forward(ids, (self._mask.cumsum(1) - 1).clamp(min=0))
        self.keep([distinct[tuple(prompt)] for prompt in prompts])

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> None:
        """Append one token to each row and predict the next one."""
        inputs = torch.tensor(tokens, device=self._mask.device)[:, None]
        self._mask = torch.cat([self._mask, torch.ones_like(inputs)], dim=1)
        self._forward(inputs, self._mask.sum(1, keepdim=True) - 1)
        self.read += len(tokens)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, in this order."""
        kept = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(kept)
        self._mask = self._mask[kept]
        self.predicted = self.predicted[kept]

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
    """One prompt's continuation, which takes tokens until its limit, the model's end of text or a
    stop string.

    Args:
        tokenizer: of transformers; turns token ids into text.
        prompt: the prompt's token ids.
        limit: the largest number of tokens to write.
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
        """Why the text has ended; None while it goes on."""
        self._tokenizer = tokenizer
        self._limit = limit
        self._stop = stop
        self._written: list[int] = []
        # decoded behind a few tokens of the prompt, because some tokenizers drop a text's first
        # space
        self._before = prompt[-4:]
        self._skip = len(self._decode(self._before))

    def write(self, token: int, *, end: bool) -> None:
        """Take the next token; `end` says that it ends the text."""
        if not end:
            self._written.append(token)
        if end or first_stop(self.text(), self._stop) is not None:
            self.ended = "stop"
        elif len(self._written) >= self._limit:
            self.ended = "length"

    def text(self) -> str:
        """Return what has been written."""
        return self._decode(self._before + self._written)[self._skip :]

    def answer(self) -> Answer:
        """Return what has been written, and why it ended."""
        return Answer(self.text(), self.ended or "length")

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def write_all(
    session: Session, writers: Sequence[Writer], ends: Collection[int], temperature: float
) -> None:
    """Continue a session until each text is done and has left the session.

    Args:
        session: has a row for each writer, read up to the end of its prompt.
        writers: take the tokens.
        ends: token ids that end a text.
        temperature: divides the logits before a token is drawn; 0 takes the most probable one.
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
    """int [rows]: the token at which each row's cumulative probability passes its uniform
    number."""
    cumulative = logits.double().softmax(-1).cumsum(-1)
    level = (
        torch.tensor(uniform, device=logits.device, dtype=torch.float64)[:, None]
        * cumulative[:, -1:]
    )
    return torch.searchsorted(cumulative, level, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
