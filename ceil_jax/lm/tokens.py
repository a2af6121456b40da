"""Token ids of a text, and which of them belong to the continuation of a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.openai.address import SERVED


@dataclass(frozen=True)
class PairTokens:
    """The token ids of a prompt and its continuation, tokenized as one text."""

    ids: list[int]
    start: int
    """The position of the continuation's first token; at least 1, so that every scored token has a
    prefix."""

    @property
    def scored(self) -> int:
        """The number of tokens of the continuation."""
        return len(self.ids) - self.start


class PairTokenizer:
    """A fast Hugging Face tokenizer that separates a continuation's tokens from its prompt's.

    Special tokens before a text are kept; those after a text are dropped, because the text
    continues.

    The boundary is found by character offsets: a token belongs to the continuation if it ends after
    the prompt's last character, even if it begins before. The released CEIL code tokenizes the
    answer alone and masks as many tokens from the right, which is off by one for templates that end
    in a space.

    Raises:
        UserError: the tokenizer, of transformers, is not a fast one, or has no vocabulary.
    """

    def __init__(self, tokenizer: Any):
        if not tokenizer.is_fast:
            raise UserError(
                f"{tokenizer.name_or_path} has no fast tokenizer (tokenizer.json), which the "
                "boundary of prompt and continuation needs; save one with "
                "AutoTokenizer.from_pretrained(…, use_fast=True)"
            )
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        # transformers makes one of the model's type where the files are missing
        if not self._backend.get_vocab_size(with_added_tokens=False):
            raise UserError(
                f"{tokenizer.name_or_path} has no tokenizer; put the model's tokenizer files into "
                "the folder of its weights: "
                "AutoTokenizer.from_pretrained(…).save_pretrained(folder)"
            )
        self._backend.no_truncation()
        self._backend.no_padding()
        # byte-level tokenizers may leave white space out of a token's offsets: ";\n" would seem to
        # end before "\n"
        processor = self._backend.post_processor
        for part in processor if type(processor).__name__ == "Sequence" else [processor]:
            if hasattr(part, "trim_offsets"):
                part.trim_offsets = False
        self._first = (
            tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        )

    def chat(self, messages: Messages) -> str:
        """Return the messages of a chat as a text, up to where the answer begins.

        The model's chat template is used. A start-of-text that `pairs` adds is left out.

        Raises:
            UserError: the tokenizer has no chat template, or the template refuses the messages.
        """
        name = self._tokenizer.name_or_path
        if not self._tokenizer.chat_template:
            raise UserError(f"{name} has no chat template, which --form turns needs; leave it out")
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # jinja2's, and what Python raises inside a template
            raise UserError(f"the chat template of {name} refuses a prompt: {error}") from None
        first = self._tokenizer.bos_token
        if first and self._backend.encode("a").tokens[0] == first:
            text = text.removeprefix(first)
        return text

    @cached_property
    def takes_system(self) -> bool:
        """True if the chat template shows a system message; some refuse or drop it."""
        told, asked = ({"role": role, "content": role * 2} for role in ("system", "user"))
        try:
            return told["content"] in self.chat(Messages([told, asked]))
        except UserError:
            return False

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of tokens of each text, int [N], without special tokens."""
        encodings = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return np.array([len(encoding) for encoding in encodings], dtype=np.int64)

    def pairs(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[PairTokens]:
        """Return the ids of each prompt + continuation, tokenized as one text.

        A continuation without a prefix gets BOS, or else EOS, before it, as in EleutherAI's
        evaluation harness.
        """
        texts = [
            prompt + continuation
            for prompt, continuation in zip(prompts, continuations, strict=True)
        ]
        tokens = []
        for prompt, encoding in zip(prompts, self._backend.encode_batch(texts), strict=True):
            # without the special tokens after the text
            end = len(encoding)
            special = encoding.special_tokens_mask
            while end > 0 and special[end - 1]:
                end -= 1
            # the continuation's tokens are those that end behind the prompt
            start = end
            while start > 0:
                characters = encoding.token_to_chars(start - 1)
                # special tokens before the text have no characters
                if characters is None or characters[1] <= len(prompt):
                    break
                start -= 1
            if start > 0:
                tokens.append(PairTokens(encoding.ids[:end], start))
            elif self._first is not None:
                tokens.append(PairTokens([self._first, *encoding.ids[:end]], 1))
            else:
                raise UserError(
                    "an empty prompt needs a BOS or EOS token before it and this LM's tokenizer "
                    "has neither; give every prompt at least one character"
                )
        return tokens


@cache
def pair_tokenizer(source: str) -> PairTokenizer:
    """Return the tokenizer of a folder or hub id."""
    from transformers import AutoTokenizer

    with loading_errors("the tokenizer of", source):
        return PairTokenizer(AutoTokenizer.from_pretrained(source, trust_remote_code=False))


_NOT_CAUSAL = re.compile(r"Unrecognized configuration class <class '[\w.]*?\.(\w+?)(?:Config)?'>")


@contextmanager
def loading_errors(what: str, source: str) -> Iterator[None]:
    """Turn the errors of transformers for an unusable model into a UserError.

    The model is missing, unreadable or damaged. An ImportError names a package that a quantised
    model needs.

    Args:
        what: the words before the source in the message.
        source: the folder or hub id.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, SafetensorError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # without the advice to read pickles
        reason = lines[0].partition(" and thus cannot be loaded with `safetensors`")[0].rstrip(".")
        if other := _NOT_CAUSAL.match(reason):
            reason = f"a model of the kind {other[1]} is not a causal language model"
        advice = "" if Path(source).is_dir() else f"; {SERVED}"
        raise UserError(
            f"cannot load {what} {source}: {reason}; give the folder or hub id of a model, or for "
            f"--lm a packaged one, such as SmolLM2-135M-Instruct{advice}"
        ) from None
