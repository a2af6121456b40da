"""The fields of answers that are read, with their types and ranges: the one check of what a server sends.

Other fields are ignored. Absent and null are the same where a default is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.openai.cleaning import one_line

Count = Annotated[int, Field(ge=0, lt=2**31)]
"""A number of tokens, or a place in a list."""
LogProb = Annotated[float, Field(le=1e-3)]
"""A log-probability in nats; rounding may lift it a little above 0."""


class Answer(BaseModel):
    """Fields have exactly the types below: no text for a number, neither NaN nor infinity."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore", hide_input_in_errors=True)


class Usage(Answer):
    """The tokens that a server says it read and wrote."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None

    def tokens(self) -> int:
        """Return the number of tokens read and written."""
        return max(self.total_tokens or 0, (self.prompt_tokens or 0) + (self.completion_tokens or 0))


class Paid(Answer):
    """An answer for which a model worked."""

    usage: Usage | None = None


class Entry(Answer):
    """An entry of an answer's list, which may state its place."""

    index: Count | None = None


class LogProbs(Answer):
    """The tokens of a text and their log-probabilities."""

    tokens: list[str] | None = None
    token_logprobs: list[LogProb | None] | None = None


class Choice(Entry):
    """A completion."""

    text: str | None = None
    logprobs: LogProbs | None = None

    def scores(self, sent: str, where: str) -> TokenScores:
        """Return the log-probabilities of the tokens of a text that was sent with `echo`; empty if there are none.

        Raises:
            UserError: there are more or fewer log-probabilities than tokens.
        """
        found = self.logprobs or LogProbs()
        tokens, log_probs = found.tokens or [], found.token_logprobs or []
        if len(tokens) != len(log_probs):
            raise UserError(f"{where}: {len(tokens)} tokens with {len(log_probs)} log-probabilities")
        # a server may write a token although it was asked for none
        if self.text not in (sent, "", None) and len(tokens) > 1:
            tokens, log_probs = tokens[:-1], log_probs[:-1]
        return TokenScores(list(tokens), list(log_probs))


class Completions(Paid):
    """The answer of /completions."""

    choices: list[Choice] | None = None


class Message(Answer):
    """A message of a chat."""

    content: str


class ChatChoice(Entry):
    """A completion of a chat."""

    message: Message


class Chat(Paid):
    """The answer of /chat/completions."""

    choices: list[ChatChoice] | None = None


class Vector(Entry):
    """An embedding."""

    embedding: list[float]


class Embeddings(Paid):
    """The answer of /embeddings."""

    data: list[Vector] | None = None


class Model(Answer):
    """A model that a server lists; servers differ in what they say of it."""

    id: Annotated[str, Field(min_length=1)]
    owned_by: Any = None
    root: Any = None
    max_model_len: Any = None


class Models(Answer):
    """The answer of /models."""

    data: list[Model] | None = None


class Tokenized(Answer):
    """The answer of /tokenize."""

    count: Count


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)
AnyEntry = TypeVar("AnyEntry", bound=Entry)


def checked(kind: type[AnyAnswer], answer: dict[str, Any], where: str) -> AnyAnswer:
    """Return the fields of an answer.

    Args:
        kind: which answer it should be.
        answer: the JSON object that the server sent, without the key.
        where: the address, for messages.

    Raises:
        UserError: a field is missing, or of another type or range; the message names the first such field.
    """
    try:
        return kind.model_validate(answer)
    except ValidationError as problems:
        first = problems.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        found = "missing" if first["type"] == "missing" else repr(one_line(first["input"], 40))
        raise UserError(
            f"{where}: {place} is {found}; {first['msg'].lower()}; the server does not keep to the interface"
        ) from None


def in_order(entries: Sequence[AnyEntry] | None, field: str, count: int, where: str) -> list[AnyEntry]:
    """Return the entries of an answer in the order of their indices.

    Args:
        entries: the entries; None for none.
        field: the field that holds them, for messages.
        count: how many entries were asked for.
        where: the address, for messages.

    Raises:
        UserError: the number of entries is another one, or an index is there twice or too high.
    """
    entries = entries or ()
    places = [place if entry.index is None else entry.index for place, entry in enumerate(entries)]
    if sorted(places) != list(range(count)):
        raise UserError(
            f"{where}: {len(entries)} {field} with indices {str(places[:20])[:60]} for {count} that were asked for; "
            "the server does not keep to the interface"
        )
    by_place = dict(zip(places, entries, strict=True))
    return [by_place[place] for place in range(count)]
