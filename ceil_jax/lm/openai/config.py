"""Settings and the key for a server with an OpenAI-compatible interface."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Annotated

from ceil_jax.errors import Range, UserError, check_ranges

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_BE_KEY = re.compile(r"(?=.*\d)(?=.*[a-z]).{20,}")
"""A long text with digits and small letters, which is not repeated in messages."""


@dataclass(frozen=True)
class EndpointConfig:
    """Settings for servers with an OpenAI-compatible interface, if `lm` or `encoder` is an
    address."""

    api_key_env: str | None = None
    """The environment variable with the key. The key is read from nowhere else, and written
    nowhere."""
    concurrency: Annotated[int, Range(1)] = 8
    """Number of simultaneous requests."""
    batch: Annotated[int, Range(1)] = 8
    """Prompts in a request, if the server takes several. Requests for embeddings have eight times
    as many texts."""
    timeout: Annotated[float, Range(above=0)] = 120.0
    """Seconds within which the whole answer to a request must arrive."""
    attempts: Annotated[int, Range(1)] = 6
    """Attempts at a request with a temporary failure: 408, 409, 429, 5xx, time-outs, lost
    connections, incomplete answers."""
    max_requests: Annotated[int | None, Range(1)] = None
    """The most requests to a server in this run, retries included."""
    max_tokens: Annotated[int | None, Range(1)] = None
    """Stop once a server has read and generated this many tokens in this run."""
    chat: bool = False
    """Use /chat/completions even if the server has /completions; by default it is used only if
    there is nothing else."""
    tokenizer: str | None = None
    """A folder or hub id with the model's tokenizer. By default tokens are counted by the server's
    /tokenize, or estimated from the usage that it reports."""
    context_length: Annotated[int | None, Range(1)] = None
    """The context length in tokens; by default what the server says, or 4,096."""

    def __post_init__(self) -> None:
        check_ranges(self, "endpoint.")


def read_key(variable: str | None) -> str | None:
    """Return the key in an environment variable; None without one."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key and (_MAY_BE_KEY.fullmatch(variable) or not _NAME.fullmatch(variable)):
        raise UserError(
            "--endpoint.api-key-env (api_key_env) takes the name of an environment variable that holds "
            "the key, such as MY_KEY: not the key itself, and no $"
        )
    if not key:
        raise UserError(
            f"the environment variable {variable} is not set; it should hold the endpoint's key"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(f"the environment variable {variable} holds characters that no key has")
    return key
