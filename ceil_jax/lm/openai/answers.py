"""The fields of a server's answers, with their types and ranges. Other fields are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

from ceil_jax.errors import UserError

try:
    from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None


class Refused(UserError):
    """A refusal of the server with its HTTP status, or (status 200) an answer that is not of the interface."""

    status = 200


class TokenScores(NamedTuple):
    """The tokens of a text, in order; a server may put special tokens before them."""

    tokens: list[str]
    """The spelling of each token."""
    log_probs: list[float | None]
    """The log-probability of each token given its prefix, in nats; None for a token without a prefix."""


class Answer(BaseModel):
    """Checked fields of an answer."""

    model_config = ConfigDict(allow_inf_nan=False, extra="ignore", hide_input_in_errors=True)


class LogProbs(Answer):
    """The tokens of a text and their log-probabilities; rounding may lift one a little above 0."""

    tokens: list[str] | None = None
    token_logprobs: list[Annotated[float, Field(le=1e-3)] | None] | None = None


class Choice(Answer):
    """A completion."""

    index: int | None = None
    text: str | None = None
    logprobs: LogProbs | None = None

    def scores(self, sent: str, where: str) -> TokenScores:
        """Return the log-probabilities of the tokens of a text that was sent with `echo`; empty if there are none."""
        found = self.logprobs or LogProbs()
        tokens, log_probs = found.tokens or [], found.token_logprobs or []
        if len(tokens) != len(log_probs):
            raise Refused(f"{where}: {len(tokens)} tokens with {len(log_probs)} log-probabilities")
        # a server may write a token although it was asked for none
        if self.text not in (sent, "", None) and len(tokens) > 1:
            tokens, log_probs = tokens[:-1], log_probs[:-1]
        return TokenScores(tokens, log_probs)


class Completions(Answer):
    """The answer of /completions."""

    choices: list[Choice] | None = None


class Chat(Answer):
    """The answer of /chat/completions; `chat` reads its choices."""

    choices: list[Any] | None


class Vector(Answer):
    """An embedding."""

    index: int | None = None
    embedding: list[float]


class Embeddings(Answer):
    """The answer of /embeddings."""

    data: list[Vector] | None = None


class Model(Answer):
    """A model that a server lists, by the names that servers give to its fields."""

    id: str = Field(min_length=1, validation_alias=AliasChoices("id", "name", "model"))
    owned_by: Any = None
    root: Any = None
    max_model_len: Any = Field(
        None, validation_alias=AliasChoices("max_model_len", "context_length", "context_window")
    )


class Models(Answer):
    """The answer of /models."""

    data: list[Model] = Field([], validation_alias=AliasChoices("data", "models"))


class Tokenized(Answer):
    """The answer of /tokenize."""

    count: Annotated[int, Field(ge=0)]


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)
AnyEntry = TypeVar("AnyEntry", Choice, Vector)


def checked(kind: type[AnyAnswer], answer: Any, where: str) -> AnyAnswer:
    """Return the checked fields of the JSON that the address `where` sent.

    Raises:
        Refused: a field is missing, or of another type or range; the message names the first such field.
    """
    if kind is Models and isinstance(answer, list):
        answer = {"data": [{"id": entry} if isinstance(entry, str) else entry for entry in answer]}
    if not isinstance(answer, dict):
        raise Refused(f"{where}: expected a JSON object, found {one_line(answer)}")
    try:
        return kind.model_validate(answer)
    except ValidationError as problems:
        first = problems.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        found = "missing" if first["type"] == "missing" else repr(one_line(first["input"], 40))
        raise Refused(
            f"{where}: {place} is {found}; {first['msg'].lower()}; the server does not keep to the interface"
        ) from None


def in_order(entries: Sequence[AnyEntry] | None, field: str, count: int, where: str) -> list[AnyEntry]:
    """Return the `count` entries of an answer's field in the order of their indices.

    Raises:
        Refused: there is another number of entries, or an index is there twice or too high.
    """
    found = entries or ()
    places = [place if entry.index is None else entry.index for place, entry in enumerate(found)]
    if sorted(places) != list(range(count)):
        raise Refused(
            f"{where}: {len(found)} {field} with indices {str(places[:20])[:60]} for {count} that were asked for; "
            "the server does not keep to the interface"
        )
    return [entry for _, entry in sorted(zip(places, found, strict=True), key=lambda pair: pair[0])]


def tokens_stated(answer: Any) -> int:
    """Return the number of tokens that a server says it read and wrote; 0 where it says nothing usable."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    names = "total_tokens", "prompt_tokens", "completion_tokens"
    found = [usage.get(name) if isinstance(usage, dict) else None for name in names]
    total, read, written = (n if isinstance(n, int) and n > 0 else 0 for n in found)
    return max(total, read + written)


def one_line(value: Any, limit: int = 200) -> str:
    """Return a value of a server's as one printable line of at most `limit` characters."""
    text = " ".join(str(value).split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
