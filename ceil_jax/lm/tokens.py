"""Text to token ids, and which of them belong to the continuation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ceil_jax.errors import UserError


@dataclass(frozen=True)
class Tokens:
    """A prompt and its continuation, tokenised whole."""

    ids: list[int]
    start: int
    """Where the continuation's tokens begin; at least 1 in a whole text, so that each has a context."""

    @property
    def scored(self) -> int:
        """How many tokens the continuation has."""
        return len(self.ids) - self.start


class Tokeniser:
    """A fast tokenizer with its own defaults for plain text: what it puts before a text stays, what it puts
    after (an end of text) is dropped, because the text goes on.

    The boundary is found by character offsets. The released CEIL code tokenises the answer alone and masks
    that many positions from the right, which is off by one for templates that end in a space; we take the
    tokens of the whole that end after the prompt's last character. So a token that holds the prompt's last
    characters and the continuation's first ones is the continuation's.
    """

    def __init__(self, tokenizer: Any):
        if not tokenizer.is_fast:
            raise UserError(
                f"{tokenizer.name_or_path} has no fast tokenizer (tokenizer.json), which the boundary of "
                "prompt and continuation needs; save one with AutoTokenizer.from_pretrained(…, use_fast=True)"
            )
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        _keep_white_space_in_offsets(self._backend)
        self._first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special ones not counted."""
        return [len(e) for e in self._backend.encode_batch(list(texts), add_special_tokens=False)]

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids to continue from, never none (see `_with_context`)."""
        return [
            self._with_context(encoding.ids[: _end(encoding)], _end(encoding)).ids
            for encoding in self._backend.encode_batch(list(texts))
        ]

    def pairs(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[Tokens]:
        """Each prompt + continuation, tokenised whole."""
        texts = [prompt + continuation for prompt, continuation in zip(prompts, continuations, strict=True)]
        tokens = []
        for prompt, encoding in zip(prompts, self._backend.encode_batch(texts), strict=True):
            start = end = _end(encoding)
            while start > 0 and _ends_after(encoding, start - 1, len(prompt)):
                start -= 1
            tokens.append(self._with_context(encoding.ids[:end], start))
        return tokens

    def whole(self, texts: Sequence[str]) -> list[tuple[Tokens, list[str]]]:
        """Each text's tokens, scored as far as any stands before them, and the piece of the text that each of
        the text's own stands for.

        The pieces joined are the text. Of a character that several tokens share, the last has it.
        """
        found = []
        for text, encoding in zip(texts, self._backend.encode_batch(list(texts)), strict=True):
            end = _end(encoding)
            places = [place for place in range(end) if _ends_after(encoding, place, 0)]
            spans = [encoding.token_to_chars(place) for place in places]
            cuts = [min(span[1], after[0]) for span, after in pairwise(spans)]
            bounds = [0, *np.maximum.accumulate(np.array(cuts, int)).tolist(), len(text)] if spans else []
            pieces = [text[a:b] for a, b in pairwise(bounds)]
            start = places[0] if places else end
            found.append((Tokens(encoding.ids[:end], min(max(start, 1), end)), pieces))
        return found

    def _with_context(self, ids: list[int], start: int) -> Tokens:
        """The first token of all has nothing to be predicted from. Where the continuation begins with it (an
        empty prompt and a tokenizer that adds no BOS), the BOS token, else the EOS token, is put before, as
        EleutherAI's evaluation harness does."""
        if start > 0:
            return Tokens(ids, start)
        if self._first is None:
            raise UserError(
                "an empty prompt needs a BOS or EOS token before it and this LM's tokenizer has neither; "
                "give every prompt at least one character"
            )
        return Tokens([self._first, *ids], 1)


def _end(encoding: Any) -> int:
    """Length without the special tokens at the end."""
    end = len(encoding)
    special = encoding.special_tokens_mask
    while end > 0 and special[end - 1]:
        end -= 1
    return end


def _ends_after(encoding: Any, place: int, characters: int) -> bool:
    span = encoding.token_to_chars(place)
    return span is not None and span[1] > characters


def _keep_white_space_in_offsets(backend: Any) -> None:
    """Byte-level tokenizers may trim white space from offsets; then ";\\n" would seem to end before "\\n"."""
    processor = backend.post_processor
    parts = processor if type(processor).__name__ == "Sequence" else [processor]
    for part in parts:
        if hasattr(part, "trim_offsets"):
            part.trim_offsets = False
