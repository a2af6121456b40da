"""How a server with an OpenAI-compatible interface is asked: settings and the key."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ceil_jax.errors import UserError


@dataclass(frozen=True)
class EndpointConfig:
    """Settings for servers with an OpenAI-compatible interface, where `lm` or `encoder` is an address."""

    api_key_env: str | None = None
    """The environment variable that holds the key; it is read from nowhere else and written nowhere."""
    concurrency: int = 8
    """Requests under way at a time."""
    batch: int = 8
    """Prompts a request; texts to embed are sent eight times as many at a time."""
    timeout: float = 120.0
    """Seconds until a request must be answered in full."""
    attempts: int = 6
    """Attempts at a request that fails in passing: 408, 409, 429, 5xx, time-outs, lost connections, torn answers."""
    back_off: float = 0.5
    """Seconds before the second attempt, doubled before each later one, 60 at most; a server's Retry-After goes
    first. After time-outs and lost connections, the openai package's own: 0.5 doubled, 8 at most."""
    max_requests: int | None = None
    """Stop before a server of this run is asked more often, retries counted."""
    max_tokens: int | None = None
    """Stop once a server of this run has read and written so many tokens."""
    chat: bool = False
    """Generate through /chat/completions, each prompt a user's message; scoring needs /completions."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer, for counting tokens where the server has no /tokenize."""
    context_length: int | None = None
    """Tokens that the model reads, where the server does not say."""


def read_key(variable: str | None) -> str | None:
    """Return the key in an environment variable.

    Args:
        variable: the variable's name; None for no key.

    Raises:
        UserError: the variable is not set, or holds characters that cannot stand in a header.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"the environment variable {variable} is not set; it should hold the endpoint's key")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has")
    return key
