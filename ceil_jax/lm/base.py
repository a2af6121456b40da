"""A language model: what other rooms know of one, and what follows from a few methods of its
own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ceil_jax.errors import UserError

In = TypeVar("In")
Out = TypeVar("Out")


class Continuations(NamedTuple):
    """The choices of several prompts: for each choice the number of its prompt, the prompt, and the
    choice."""

    numbers: list[int]
    prompts: list[str]
    texts: list[str]

    def distinct_prompts(self) -> list[str]:
        """Return each prompt once, however many choices it has."""
        return list(dict(zip(self.numbers, self.prompts, strict=True)).values())


class LanguageModel:
    """A frozen LM. Results depend on each prompt alone, never on the other prompts of a call.

    A subclass has `name`, `context_length` and `tokens_read`, and gives `count_tokens`, `scores`
    and `write`.
    """

    name: str
    """Names the weights and the dtype; results are cached under it."""
    context_length: int
    """The most tokens that the LM reads, prompt and continuation together."""
    can_score = True
    """Whether the LM gives log-probabilities; one that does not can only generate."""
    at_once: Mapping[str, int] = {"score": 64, "write": 32}
    """Prompts that it is given together, to score and to continue: the most that a kill loses."""

    @property
    def key(self) -> str:
        """Stands for the LM and for what shapes its prompts; stages are kept under it."""
        return self.name

    in_flight = 1
    """Groups of prompts that are read at a time (`each`)."""

    def each(self, work: Callable[[In], Out], groups: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """Yield the number and `work` of each group of prompts as they end: one after the other
        here, several at a time where a server is asked."""
        return enumerate(map(work, groups))

    @property
    def tokens_read(self) -> int:
        """Tokens that the model has read since it was loaded; a prefix that several texts share
        counts once. Behind an endpoint: the tokens that the server states; within `each`, those of
        the current thread's work alone."""
        raise NotImplementedError

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Return int [N], the number of tokens of each text, special tokens not counted."""
        raise NotImplementedError

    def scores(self, asked: Continuations) -> tuple[Sequence[float] | np.ndarray, Sequence[int]]:
        """Return the log-likelihood of each continuation in nats, and the number of its tokens.

        The text prompt + continuation is tokenized whole; the continuation's tokens are those that
        end after the prompt's last character.
        """
        raise NotImplementedError

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[str]:
        """Return what `generate` does, of checked arguments, at least one token and a seed for each
        prompt.

        Texts may go on behind their first stop string."""
        raise NotImplementedError

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        """Return float64 [N], Σ log P of each continuation's tokens given its prompt, in nats; see
        `scores`."""
        scores = self.choice_log_likelihood(prompts, [[text] for text in continuations])
        return np.array([score[0] for score in scores], dtype=np.float64)

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> list[np.ndarray]:
        """Return, for each prompt, float64 [C]: the `log_likelihood` of each of its C choices. A
        prompt is read once.

        With `per_token`: the mean log-probability of a choice's tokens, not their sum; an empty
        choice has 0.

        Raises:
            UserError: a prompt has no choices, or one string in place of a list of them.
        """
        check_choices(choices)
        asked = Continuations([], [], [])
        for row, (prompt, options) in enumerate(zip(prompts, choices, strict=True)):
            asked.numbers.extend([row] * len(options))
            asked.prompts.extend([prompt] * len(options))
            asked.texts.extend(options)
        found = self.scores(asked)
        if not isinstance(found, tuple) or len(found) != 2:
            raise UserError(
                f"{self.name}: scores returned {found!r:.80}; expected (log-likelihoods, lengths)"
            )
        scores, lengths = found
        flat = np.asarray(scores, np.float64)
        if not len(flat) == len(lengths) == len(asked.texts) or np.isnan(flat).any():
            raise UserError(
                f"{self.name} gave {len(flat)} scores and {len(lengths)} lengths of "
                f"{len(asked.texts)} texts, {np.isnan(flat).sum()} of them no numbers; expected a "
                "number for each"
            )
        if per_token:
            flat = flat / np.maximum(lengths, 1)
        return (
            np.split(flat, np.cumsum([len(options) for options in choices])[:-1]) if choices else []
        )

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        """Return int [N], the index of the highest `choice_log_likelihood` of each prompt; the
        lowest wins a tie."""
        scores = self.choice_log_likelihood(prompts, choices, per_token=per_token)
        return np.array([np.argmax(score) for score in scores], dtype=np.int64)

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
            stop: strings that end a text.
            temperature: 0 is greedy decoding; above 0, tokens are sampled.
            seed: makes sampling reproducible. One for all prompts, or one for each: a prompt that
                is given several times, with as many seeds, is sampled several times and read once.

        Raises:
            UserError: the temperature is negative; `stop` is a bare string, which would be taken
                for its letters, or holds an empty one, which would stop at once.
        """
        if temperature < 0:
            raise UserError(f"temperature is {temperature}; it must be 0 (greedy) or more")
        if isinstance(stop, str) or "" in stop:
            raise UserError(
                f"stop is {stop!r}; it must be a list of non-empty strings, such as ['\\n']"
            )
        if max_new_tokens < 1:
            return [""] * len(prompts)
        seeds = [seed] * len(prompts) if isinstance(seed, int) else list(seed)
        written = self.write(prompts, max_new_tokens, stop, temperature, seeds)
        if len(written) != len(prompts) or not all(isinstance(text, str) for text in written):
            kinds = ", ".join(sorted({type(text).__name__ for text in written}))
            raise UserError(
                f"{self.name} wrote {len(written)} answers ({kinds}) to {len(prompts)} prompts"
            )
        # a token limit may cut a character of two halves, which no file can hold
        whole = (
            text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in written
        )
        # the released CEIL code calls .strip("<|endoftext|>"), which makes "ind /home -type" of
        # "find /home -type f"
        return [text[: first_stop(text, stop)] for text in whole]


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Return where the earliest stop string begins in `text`; None if there is none."""
    starts = [start for string in stop if (start := text.find(string)) >= 0]
    return min(starts, default=None)


def check_choices(choices: Sequence[Sequence[str]]) -> None:
    """Raise a UserError if a prompt has no choices, or one string in place of a list of them."""
    for row, options in enumerate(choices):
        if isinstance(options, str) or not options:
            raise UserError(
                f"prompt {row} has choices {options!r}; give a list of at least one string"
            )


def check_lengths(lm: LanguageModel, lengths: Iterable[int], prompts: Iterable[int]) -> None:
    """Raise a UserError if a text is longer than an LM's context; `prompts` are the numbers that it
    names them by."""
    for row, length in zip(prompts, lengths, strict=True):
        if length > lm.context_length:
            raise UserError(
                f"prompt {row} is {length} tokens with its continuation, more than the "
                f"{lm.context_length} that {lm.name} reads; shorten its input or take an LM with a "
                "longer context"
            )
