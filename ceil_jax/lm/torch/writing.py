"""One prompt's continuation as it grows, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ceil_jax.lm.stopping import cut, first_stop


class Writer:
    """Takes tokens until the limit, the model's end of text or a stop string."""

    def __init__(self, tokenizer: Any, prompt: list[int], limit: int, stop: Sequence[str]):
        self.prompt = prompt
        self.done = limit <= 0
        self._tokenizer = tokenizer
        self.limit = limit
        self._stop = stop
        self._written: list[int] = []
        # decoded behind a few tokens of the prompt, because some tokenizers drop a text's first space
        self._before = prompt[-4:]
        self._skip = len(self._decode(self._before))

    def write(self, token: int, *, end: bool) -> None:
        """The next token, `end` if it ends the text; once done, nothing more is taken."""
        if self.done:
            return
        if not end:
            self._written.append(token)
        self.done = (
            end or len(self._written) >= self.limit or first_stop(self._text(), self._stop) is not None
        )

    def text(self) -> str:
        """What was written, before the first stop string."""
        return cut(self._text(), self._stop)

    def _text(self) -> str:
        return self._decode(self._before + self._written)[self._skip :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
