"""Addresses of served models: `http://host:8000/v1#model-name`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ceil_jax.errors import UserError

SERVED = "a model on a server is written http://host:port/v1#model"
"""The end of error messages about models that were not found."""


class Address(NamedTuple):
    """The address of a server with an OpenAI-compatible interface, and a model on it."""

    base: str
    """The address before `/chat/completions`, without a trailing slash: the openai package's
    `base_url`."""
    model: str | None
    """The name of the model; None for the only model of the server."""


def is_address(spec: str) -> bool:
    """Return whether the name of a model is an address.

    >>> [is_address(spec) for spec in ("http://host", "owner/name", "my_lm:load")]
    [True, False, False]
    """
    return spec.strip().lower().startswith(("http://", "https://"))


def parse_address(spec: str) -> Address:
    """Return the server and the model of `http://host:port/v1#model`. Without a path it is /v1.

    >>> parse_address("http://localhost:8000#org/model:7b")
    Address(base='http://localhost:8000/v1', model='org/model:7b')

    Raises:
        UserError: the address has no host or an invalid port; or it contains a password or a query,
            where people put keys. Addresses are shown and stored, and keys must not be; so the
            message repeats neither.
    """
    try:
        parts = urlsplit(spec.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        # Python's message would repeat what stands in the port's place: http://me:password, with
        # the @ forgotten
        host = None
    if not host or not spec.strip().isprintable():
        raise UserError(
            "the address of an endpoint has no host, a port that is not a number below 65536, [ ] "
            "without an IPv6 address, or a control character; expected http://host:port/v1#model-name"
        )
    if parts.username is not None or parts.password is not None or parts.query:
        raise UserError(
            f"the address of the endpoint at {host} holds a user name, a password or a query; "
            "expected http://host:port/v1#model-name, and the key in an environment variable that "
            "--endpoint.api-key-env names"
        )
    path = (parts.path or "/v1").rstrip("/")
    return Address(
        f"{parts.scheme.lower()}://{parts.netloc}{path}", unquote(parts.fragment) or None
    )
