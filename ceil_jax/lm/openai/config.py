"""Settings and the key for a server with an OpenAI-compatible interface."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, UserError, check_ranges


@dataclass(frozen=True)
class EndpointConfig:
    """Settings for servers with an OpenAI-compatible interface, where `lm` or `encoder` is an
    address."""

    api_key_env: str | None = None
    """The environment variable that holds the key; it is read from nowhere else and written
    nowhere."""
    concurrency: Annotated[int, Range(1)] = 8
    """Requests under way at a time."""
    batch: Annotated[int, Range(1)] = 8
    """Prompts a request, where the server takes several; texts to embed are sent eight times as
    many at a time."""
    timeout: Annotated[float, Range(above=0)] = 120.0
    """Seconds until a request must be answered in full."""
    attempts: Annotated[int, Range(1)] = 6
    """Attempts at a request that fails in passing: 408, 409, 429, 5xx, time-outs, lost connections,
    torn answers."""
    max_requests: Annotated[int | None, Range(1)] = None
    """Stop before a server of this run is asked more often, retries counted."""
    max_tokens: Annotated[int | None, Range(1)] = None
    """Stop once a server of this run has read and written so many tokens."""
    chat: bool = False
    """Ask /chat/completions also where the server has /completions; by default chat is asked where
    there is nothing else."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer; without it tokens are counted by the server's
    /tokenize, or estimated from the usage that it states."""
    context_length: Annotated[int | None, Range(1)] = None
    """Tokens that the model reads; by default what the server says, or 4,096 where it says
    nothing."""

    def __post_init__(self) -> None:
        check_ranges(self, "endpoint.")


def read_key(variable: str | None) -> str | None:
    """Return the key in an environment variable; None without one."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(
            f"the environment variable {variable} is not set; it should hold the endpoint's key"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has")
    return key
