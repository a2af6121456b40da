"""How servers of an OpenAI-compatible interface are asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EndpointConfig:
    """Servers of an OpenAI-compatible interface, where `lm` or `encoder` is an address."""

    api_key_env: str | None = None
    """The environment variable that holds the key; it is read from nowhere else and written nowhere."""
    concurrency: int = 8
    """Requests under way at a time."""
    batch: int = 8
    """Prompts a request; vectors are asked for eight times as many at a time."""
    timeout: float = 120.0
    """Seconds until a request must be answered in full."""
    attempts: int = 6
    """Of a request that fails in passing: 408, 429, 5xx, time-outs, dropped connections, torn answers."""
    back_off: float = 0.5
    """Seconds before the second attempt, doubled before each one after it; a server's Retry-After goes first."""
    max_requests: int | None = None
    """Stop before a server of this run is asked more often, retries counted."""
    max_tokens: int | None = None
    """Stop once a server of this run has read and written so many tokens."""
    chat: bool = False
    """Generate through /chat/completions, each prompt a user's message; scoring needs /completions."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer, for counting tokens where the server has no /tokenize."""
    context_length: int | None = None
    """Tokens the model reads, where the server does not say."""
