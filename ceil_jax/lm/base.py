"""The protocol of a language model, the only thing that other rooms know of one: numpy and strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ceil_jax.errors import UserError


@runtime_checkable
class LanguageModel(Protocol):
    """A frozen LM. Results depend on each prompt alone, never on the other prompts of a call."""

    name: str
    """Names the weights and the dtype; results are cached under it."""
    context_length: int
    """The most tokens that the LM reads, prompt and continuation together."""

    @property
    def tokens_read(self) -> int:
        """Tokens that the model has read since it was loaded; a prefix that several texts share counts once.
        Behind an endpoint: the tokens that the server states."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Return int [N], the number of tokens of each text, special tokens not counted."""
        ...

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        """Return float64 [N], Σ log P of each continuation's tokens given its prompt, in nats.

        The text prompt + continuation is tokenized whole; the continuation's tokens are those that end after
        the prompt's last character.
        """
        ...

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> list[np.ndarray]:
        """Return, for each prompt, float64 [C]: the `log_likelihood` of each of its C choices. The prompt is
        read once.

        Args:
            prompts: N prompts.
            choices: at least one choice for each prompt.
            per_token: the mean log-probability of a choice's tokens, not their sum; an empty choice has 0.
        """
        ...

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        """Return int [N], the index of each prompt's most likely choice; the lowest index wins a tie.

        Args:
            prompts: N prompts.
            choices: at least one choice for each prompt.
            per_token: compare the mean log-probability of a choice's tokens, not their sum.
        """
        ...

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
    ) -> list[str]:
        """Return the text that the LM writes after each prompt, cut before the first stop string.

        Args:
            prompts: N prompts.
            max_new_tokens: the most tokens to write for each.
            stop: non-empty strings that end a text.
            temperature: 0 is greedy decoding; above 0, tokens are sampled.
            seed: makes sampling reproducible. One for all prompts, or one for each: a prompt that is given several
                times, with as many seeds, is sampled several times and read once.
        """
        ...


class TokenScores(NamedTuple):
    """The tokens of a text, in order; a server may put special tokens before them."""

    tokens: list[str]
    """The piece of the text that each token stands for. Where several tokens share a character, the last of
    them has it and the others are ""."""
    log_probs: list[float | None]
    """The log-probability of each token given its prefix, in nats; None for a token without a prefix."""


@runtime_checkable
class TokenScorer(LanguageModel, Protocol):
    """An LM that also scores each token of a text: what `ceil-jax serve-lm` needs."""

    def token_log_probs(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the tokens of each text with the same log-probabilities that `log_likelihood` sums."""
        ...


def check_lengths(lm: LanguageModel, lengths: Iterable[int], prompts: Iterable[int]) -> None:
    """Check that texts fit in an LM's context.

    Args:
        lm: its `context_length` is the limit.
        lengths: tokens of each text, prompt and continuation together.
        prompts: for each text, the number of its prompt in the call, which the message names.

    Raises:
        UserError: a text is longer.
    """
    for row, length in zip(prompts, lengths, strict=True):
        if length > lm.context_length:
            raise UserError(
                f"prompt {row} is {length} tokens with its continuation, more than the {lm.context_length} that "
                f"{lm.name} reads; shorten its input or take an LM with a longer context"
            )
