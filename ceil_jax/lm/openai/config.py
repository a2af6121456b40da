"""Settings, key and headers for a server with an OpenAI-compatible interface."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ceil_jax.errors import Range, UserError, check_ranges

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_BE_KEY = re.compile(r"(?=.*\d)(?=.*[a-z]).{20,}")
"""Pattern of long texts with digits and small letters, which may be keys and are not repeated in error messages."""


@dataclass(frozen=True)
class EndpointConfig:
    """Settings for servers with an OpenAI-compatible interface.

    They are used if `lm` or `encoder` is an address.
    """

    api_key_env: str | None = None
    """The environment variable with the key. The key is taken from there only, and never written;
    without a variable, no key is sent."""
    headers: tuple[str, ...] = field(default=(), repr=False)
    """Further headers of requests, as NAME=VALUE. A VALUE such as $MY_KEY is read from the
    environment, and hidden in messages."""
    fields: tuple[str, ...] = ()
    """Further fields of requests, as NAME=VALUE with JSON or a text as the value. NAME=null leaves
    out a field that the server refuses."""
    concurrency: Annotated[int, Range(1)] = 8
    """Number of simultaneous requests."""
    batch: Annotated[int, Range(1)] = 8
    """Prompts in a request, if the server takes several. Requests for embeddings have eight times
    as many texts."""
    timeout: Annotated[float, Range(above=0)] = 120.0
    """Seconds that a server may be silent before a request is tried again. A whole answer, with all
    attempts and the waits between them, may take twice as long."""
    attempts: Annotated[int, Range(1)] = 20
    """Attempts at a request with a temporary failure: 408, 409, 429, 5xx, time-outs, lost
    connections. The waits grow to 8 seconds, two minutes in all, or are what Retry-After says, up
    to two minutes."""
    max_requests: Annotated[int | None, Range(1)] = None
    """The maximum number of requests to a server in this run, retries included."""
    max_tokens: Annotated[int | None, Range(1)] = None
    """The maximum number of tokens that a server may read and generate in this run."""
    chat: bool = False
    """Use /chat/completions even if the server has /completions; by default it is used only if
    there is nothing else."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer. By default tokens are estimated from the usage
    that the server reports."""
    context_length: Annotated[int | None, Range(1)] = None
    """The context length in tokens; by default what the server says, or 4,096."""

    def __post_init__(self) -> None:
        check_ranges(self, "endpoint.")
        _pairs("headers", self.headers)
        _pairs("fields", self.fields)

    def body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a request with `fields`, without those that are null."""
        merged = {**body, **{name: _json(text) for name, text in _pairs("fields", self.fields)}}
        return {name: value for name, value in merged.items() if value is not None}

    @property
    def shapes_answers(self) -> str:
        """The settings on which a server's answers may depend; "" if none is set.

        Headers that are read from the environment are keys.
        """
        headers = [
            f"{n}={value}" for n, value in _pairs("headers", self.headers) if value[:1] != "$"
        ]
        return " ".join([*sorted(headers), *sorted(self.fields)])


def headers_of(config: EndpointConfig) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the headers of every request, and the texts in them that must not be shown in error
    messages.

    Raises:
        UserError: a variable of the environment is not set, or is not a key.
    """
    headers = {}
    secrets = []
    if config.api_key_env is not None:
        secrets.append(read_variable("api-key-env (api_key_env)", config.api_key_env))
        headers["Authorization"] = f"Bearer {secrets[0]}"
    for name, value in _pairs("headers", config.headers):
        if value.startswith("$"):
            value = read_variable("headers", value[1:])
            secrets.append(value)
        headers[name] = value
    return headers, tuple(secrets)


def read_variable(flag: str, variable: str) -> str:
    """Return the key in an environment variable that a flag names. A missing variable is a UserError."""
    key = os.environ.get(variable, "").strip()
    if not key and (_MAY_BE_KEY.fullmatch(variable) or not _NAME.fullmatch(variable)):
        raise UserError(
            f"--endpoint.{flag} takes the name of an environment variable that holds the key, such "
            "as MY_KEY: not the key itself, and no $"
        )
    if not key:
        raise UserError(
            f"the environment variable {variable} is not set; it should hold the endpoint's key"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has")
    return key


def _pairs(flag: str, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names and values of entries of the form NAME=VALUE. Another form is a UserError,
    which does not repeat the value."""
    pairs = []
    for number, text in enumerate(given, start=1):
        name, mark, value = text.partition("=")
        shown = value.isprintable() and (value.isascii() or flag == "fields")
        if not (mark and re.fullmatch(r"[\w-]+", name, re.ASCII) and value and shown):
            raise UserError(
                f"--endpoint.{flag} takes NAME=VALUE, such as --endpoint.{flag} "
                f"{'X-Team=search' if flag == 'headers' else 'service_tier=flex'}; "
                f"number {number} is not of this form"
            )
        pairs.append((name, value))
    return pairs


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
