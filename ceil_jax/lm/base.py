"""The base class of language models.

Its public methods are built on a few that a subclass defines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ceil_jax.errors import UserError
from ceil_jax.lm.answers import Answer, answers_to, note_on
from ceil_jax.lm.messages import Messages, Rendered, text_of

log = logging.getLogger(__name__)

In = TypeVar("In")
Out = TypeVar("Out")


class Continuations(NamedTuple):
    """The choices of several prompts, as three lists.

    For each choice the number of its prompt, the prompt, and the choice.
    """

    numbers: list[int]
    prompts: list[str]
    texts: list[str]

    def distinct_prompts(self) -> list[str]:
        """Return each prompt once, however many choices it has."""
        return list(dict(zip(self.numbers, self.prompts, strict=True)).values())


class LanguageModel:
    """A frozen LM. The result for a prompt never depends on the other prompts of a call.

    A subclass defines `name`, `context_length`, `tokens_read`, `count_tokens`, `scores` and
    `write`. Others call `log_likelihood`, `choice_log_likelihood`, `choose`, `generate` and
    `answers`, which check what the subclass returns.

    Examples:
        >>> class Shouting(LanguageModel):
        ...     name = "shouting"
        ...     context_length = 100
        ...     tokens_read = 0
        ...     can_score = False
        ...     def count_tokens(self, texts):
        ...         return np.array([len(text.split()) for text in texts])
        ...     def write(self, prompts, limit, stop, temperature, seeds):
        ...         return [prompt.split()[-1].upper() for prompt in prompts]
        >>> Shouting().generate(["say hello"], max_new_tokens=5)
        ['HELLO']
    """

    name: str
    """Identifies the weights and the dtype; results are cached under it."""
    context_length: int
    """The maximum number of tokens of a prompt and its continuation together."""
    can_score = True
    """Whether the LM gives log-probabilities; otherwise it can only generate."""
    ends_itself = False
    """Whether its answers end by themselves, as in a chat; other LMs continue until a stop string
    or the token limit."""
    can_label = False
    """Whether its answers can be constrained to some labels (`write_labels`)."""
    can_weigh = False
    """Whether an LM that cannot score still gives log P of each label as the whole answer. The
    choices given to `choice_log_likelihood` must then be all labels, and labels that it
    `tells_apart`."""
    reads_messages = False
    """Whether it takes the messages of a chat; prompts may then be `Messages`."""
    takes_system = True
    """Whether the messages of a chat may begin with a system message."""
    at_once: Mapping[str, int] = {"score": 64, "write": 32}
    """Number of prompts that are scored or generated together: at most as many are lost if the process is killed."""
    in_flight = 1
    """Number of groups of prompts that are read at the same time by `each`."""
    _noted = False
    """Whether a note on its answers has been logged."""

    @property
    def key(self) -> str:
        """The identity of the LM and of the format of its prompts, for the keys of stages."""
        return self.name

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the model has read since it was loaded.

        A shared prefix of several texts counts once. For a server: the tokens that it reports;
        inside `each`, only those of the current thread.
        """
        raise NotImplementedError

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of tokens of each text, int [N], without special tokens."""
        raise NotImplementedError

    def chat(self, messages: Messages) -> Rendered:
        """Return the messages of a chat as a prompt of this LM.

        A text by its chat template, up to where its answer begins; the messages themselves if it
        reads them.

        Raises:
            UserError: the LM has no chat template.
        """
        if self.reads_messages:
            return messages
        raise UserError(f"{self.name} has no chat template, which --form turns needs; leave it out")

    def scores(
        self, continuations: Continuations
    ) -> tuple[Sequence[float] | np.ndarray, Sequence[int]]:
        """Return the log-likelihood of each continuation, in nats, and its number of tokens.

        The text prompt + continuation is tokenized whole; the continuation's tokens are those that
        end after the prompt's last character.
        """
        raise NotImplementedError

    def write(
        self,
        prompts: Sequence[Any],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> Sequence[str | Answer]:
        """Return the generated text for each prompt. The arguments have been checked.

        Texts may continue after their first stop string. An `Answer` also says why the text ended;
        a plain text is taken to have ended by itself.

        Args:
            prompts: texts; if the LM `reads_messages`, also `Messages`.
            limit: the most new tokens of a text, at least 1.
            stop: strings at which a text ends.
            temperature: 0 for the most probable tokens, above 0 to sample.
            seeds: the seed of each prompt, for sampling.
        """
        raise NotImplementedError

    def write_labels(
        self, prompts: Sequence[Rendered], labels: Sequence[Sequence[str]], limit: int
    ) -> list[Answer]:
        """Return the label that is generated for each prompt, if the LM `can_label`.

        The text is not a label if the answer was refused or is longer than `limit` tokens.

        Args:
            prompts: N prompts.
            labels: the labels that each answer may be.
            limit: the most new tokens of a label, or of reasoning and the label.
        """
        raise NotImplementedError

    def tells_apart(self, labels: Sequence[str]) -> bool:
        """Return whether the LM, if it `can_weigh`, gives log P of each of these labels.

        It gives that of single letters in any case.
        """
        return True

    def each(self, work: Callable[[In], Out], groups: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """Yield the number and the result of `work` for each group of prompts as it finishes.

        Groups are read one after the other, or several at a time by a server.
        """
        return enumerate(map(work, groups))

    def log_likelihood(
        self, prompts: Sequence[Rendered], continuations: Sequence[str]
    ) -> np.ndarray:
        """Return Σ log P of each continuation's tokens given its prompt, in nats, float64 [N].

        See `scores`.
        """
        scores = self.choice_log_likelihood(prompts, [[text] for text in continuations])
        return np.array([score[0] for score in scores], dtype=np.float64)

    def choice_log_likelihood(
        self,
        prompts: Sequence[Rendered],
        choices: Sequence[Sequence[str]],
        *,
        per_token: bool = False,
    ) -> list[np.ndarray]:
        """Return for each prompt the `log_likelihood` of each of its C choices, float64 [C].

        A prompt is read once.

        With `per_token`, it is the mean log-probability of a choice's tokens, not the sum; 0 for an
        empty choice.

        Raises:
            UserError: a prompt has no choices, or a string in place of a list.
        """
        check_choices(choices)
        continuations = Continuations([], [], [])
        for row, (prompt, options) in enumerate(zip(prompts, choices, strict=True)):
            continuations.numbers.extend([row] * len(options))
            continuations.prompts.extend([text_of(prompt)] * len(options))
            continuations.texts.extend(options)
        scores_and_lengths = self.scores(continuations)
        if not isinstance(scores_and_lengths, tuple) or len(scores_and_lengths) != 2:
            raise UserError(
                f"{self.name}: scores returned {scores_and_lengths!r:.80}; expected (log-likelihoods, lengths)"
            )
        scores, lengths = scores_and_lengths
        flat = np.asarray(scores, np.float64)
        if not len(flat) == len(lengths) == len(continuations.texts) or np.isnan(flat).any():
            raise UserError(
                f"{self.name} gave {len(flat)} scores and {len(lengths)} lengths of "
                f"{len(continuations.texts)} texts, {np.isnan(flat).sum()} of them no numbers; expected a "
                "number for each"
            )
        if per_token:
            flat = flat / np.maximum(lengths, 1)
        if not choices:
            return []
        ends = np.cumsum([len(options) for options in choices])
        return np.split(flat, ends[:-1])

    def choose(
        self,
        prompts: Sequence[Rendered],
        choices: Sequence[Sequence[str]],
        *,
        per_token: bool = False,
    ) -> np.ndarray:
        """Return the index of each prompt's most likely choice, int [N].

        It is the choice with the highest `choice_log_likelihood`; in a tie, the lowest index.
        """
        scores = self.choice_log_likelihood(prompts, choices, per_token=per_token)
        return np.array([np.argmax(score) for score in scores], dtype=np.int64)

    def generate(
        self,
        prompts: Sequence[Rendered],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
    ) -> list[str]:
        """Return the LM's answer to each prompt as a text.

        The arguments are those of `answers`.
        """
        answers = self.answers(prompts, max_new_tokens, stop, temperature=temperature, seed=seed)
        return [answer.text for answer in answers]

    def answers(
        self,
        prompts: Sequence[Rendered],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
    ) -> list[Answer]:
        """Return the LM's answer to each prompt, up to its first stop string, and why it ended.

        A JSON value with which an answer begins is kept whole, and so is code in a fence; the fence
        is removed (`lm.answers`). A note on removed parts and on answers that are hardly right is
        logged the first time.

        Args:
            prompts: N prompts.
            max_new_tokens: the most tokens to generate for each.
            stop: strings that end a text.
            temperature: 0 is greedy decoding; above 0, tokens are sampled.
            seed: makes sampling reproducible: one for all prompts, or one for each. A prompt that
                is repeated with different seeds is sampled several times but read once.

        Raises:
            UserError: the temperature is negative; `stop` is a string and not a list of strings, or
                contains an empty string.
        """
        if temperature < 0:
            raise UserError(f"temperature is {temperature}; it must be 0 (greedy) or more")
        if isinstance(stop, str) or "" in stop:
            raise UserError(
                f"stop is {stop!r}; it must be a list of non-empty strings, such as ['\\n']"
            )
        if max_new_tokens < 1:
            return [Answer("")] * len(prompts)
        seeds = [seed] * len(prompts) if isinstance(seed, int) else list(seed)

        def write(
            rows: Sequence[int], texts: Sequence[Rendered], ends: Sequence[str]
        ) -> list[Answer]:
            seeds_of_rows = [seeds[row] for row in rows]
            return self.written(texts, max_new_tokens, ends, temperature, seeds_of_rows)

        answers = answers_to(prompts, stop, write)
        note = note_on(answers, max_new_tokens)
        if note and not self._noted:
            self._noted = True
            log.warning("%s: %s", self.name, note)
        return answers

    def written(
        self,
        prompts: Sequence[Rendered],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        """Return the checked results of `write` as answers.

        The arguments are those of `write`.

        Raises:
            UserError: `write` returned a wrong number of texts, or values that are not texts.
        """
        texts = list(self.write(prompts, limit, stop, temperature, seeds))
        if len(texts) != len(prompts) or not all(isinstance(text, str | Answer) for text in texts):
            kinds = ", ".join(sorted({type(text).__name__ for text in texts}))
            raise UserError(
                f"{self.name} wrote {len(texts)} answers ({kinds}) to {len(prompts)} prompts"
            )
        answers = [Answer(text) if isinstance(text, str) else text for text in texts]
        # a token limit may cut a character in half, and half a character cannot be written to a
        # file
        return [
            answer._replace(
                text=answer.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            )
            for answer in answers
        ]


def check_choices(choices: Sequence[Sequence[str]]) -> None:
    """Raise a UserError if a prompt has no choices, or a string in place of a list."""
    for row, options in enumerate(choices):
        if isinstance(options, str) or not options:
            raise UserError(
                f"prompt {row} has choices {options!r}; give a list of at least one string"
            )


def check_lengths(lm: LanguageModel, lengths: Iterable[int], prompts: Iterable[int]) -> None:
    """Raise a UserError if a text is longer than an LM's context.

    `prompts` are the numbers of the prompts in the message.
    """
    for row, length in zip(prompts, lengths, strict=True):
        if length > lm.context_length:
            raise UserError(
                f"prompt {row} is {length} tokens with its continuation, more than the "
                f"{lm.context_length} that {lm.name} reads; shorten its input or take an LM with a "
                "longer context"
            )
