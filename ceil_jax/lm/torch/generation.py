"""Generation: the next token of each text, greedy or sampled, until every text has ended."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch

from ceil_jax.lm.stopping import cut, first_stop
from ceil_jax.lm.torch.padded import PaddedSession
from ceil_jax.lm.torch.session import TreeSession

Session = TreeSession | PaddedSession
"""Prompts that a model has read together and continues, one token a row at a time."""


class Writer:
    """One prompt's continuation, which takes tokens until its limit, the model's end of text or a stop string.

    Args:
        tokenizer: decodes tokens.
        prompt: token ids, at least one.
        limit: the most tokens to take.
        draw: the random generator for sampled tokens.
        stop: strings that end the text.
    """

    def __init__(
        self, tokenizer: Any, prompt: list[int], limit: int, draw: np.random.Generator, stop: Sequence[str]
    ):
        self.prompt = prompt
        self.limit = limit
        self.draw = draw
        self.done = limit <= 0
        self._tokenizer = tokenizer
        self._stop = stop
        self._written: list[int] = []
        # decoded behind a few tokens of the prompt, because some tokenizers drop a text's first space
        self._before = prompt[-4:]
        self._skip = len(self._decode(self._before))

    def write(self, token: int, *, end: bool) -> None:
        """Take the next token; `end` says that it ends the text. A text that is done takes nothing."""
        if self.done:
            return
        if not end:
            self._written.append(token)
        self.done = (
            end or len(self._written) >= self.limit or first_stop(self._decoded(), self._stop) is not None
        )

    def text(self) -> str:
        """Return the text before the first stop string."""
        return cut(self._decoded(), self._stop)

    def _decoded(self) -> str:
        return self._decode(self._before + self._written)[self._skip :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def write_all(
    session: Session,
    writers: Sequence[Writer],
    ends: Collection[int],
    temperature: float,
) -> None:
    """Continue a session until each of its texts is done. A text that is done leaves the session at once.

    Args:
        session: a row for each writer, with its prompt read.
        writers: none of them done.
        ends: the tokens that end a text.
        temperature: 0 takes the most likely token; above 0, tokens are sampled.
    """
    alive = list(range(len(writers)))
    while True:
        if temperature:
            uniform = [writers[row].draw.random() for row in alive]
            chosen = _sampled(session.predicted / temperature, uniform).tolist()
        else:
            chosen = session.predicted.argmax(-1).tolist()
        for row, token in zip(alive, chosen, strict=True):
            writers[row].write(token, end=token in ends)
        going = _front([not writers[row].done for row in alive])
        if not going:
            return
        if len(going) < len(alive):
            session.keep(going)
            alive, chosen = [alive[place] for place in going], [chosen[place] for place in going]
        session.step(chosen)


def prompt_generator(prompt: str, seed: int) -> np.random.Generator:
    """Return a prompt's own random generator, which depends on its text and the seed alone."""
    digest = hashlib.blake2b(prompt.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])


def _front(going: Sequence[bool]) -> list[int]:
    """The places that go on. Those from the end move into the gaps, so that few rows move."""
    kept = [place for place, on in enumerate(going) if on]
    behind = [place for place in kept if place >= len(kept)]
    return [place if going[place] else behind.pop() for place in range(len(kept))]


def _sampled(logits: torch.Tensor, uniform: Sequence[float]) -> torch.Tensor:
    """int [rows]: the token at which each row's cumulative probability passes its uniform number."""
    cumulative = logits.double().softmax(-1).cumsum(-1)
    level = torch.tensor(uniform, device=logits.device, dtype=torch.float64)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
