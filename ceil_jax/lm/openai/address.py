"""Where a model is served: `http://host:8000/v1#model-name`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ceil_jax.errors import UserError


class Address(NamedTuple):
    """A server of an OpenAI-compatible interface and one of its models."""

    base: str
    """Without a slash at its end, as in http://localhost:8000/v1."""
    model: str | None
    """None: the only one it serves."""


def is_address(spec: str) -> bool:
    """Whether a model's name is an address."""
    return spec.startswith(("http://", "https://"))


def parse_address(spec: str) -> Address:
    """The parts of `http://host:port/v1#model`; /v1 is added where there is no path.

    Raises:
        UserError: no host or a port that is none; a password or a query, which is where keys would be (an
            address is shown and kept, a key must not be), so neither is repeated.
    """
    try:
        parts = urlsplit(spec)
        host, port = parts.hostname, parts.port
    except ValueError:
        # the error repeats what stands where the port is looked for: http://me:password, the @ forgotten
        raise UserError(
            "the address of an endpoint: its port is no number below 65536, or [ ] do not hold an IPv6 address; "
            "expected http://host:port/v1#model-name"
        ) from None
    if parts.username is not None or parts.password is not None or parts.query:
        raise UserError(
            f"the address of the endpoint at {host} holds a user name, a password or a query; "
            "put the key into an environment variable and name that with --endpoint.api-key-env"
        )
    if not host:
        raise UserError(f"{spec}: no host; expected http://host:port/v1#model-name")
    place = f"[{host}]" if ":" in host else host
    base = (
        f"{parts.scheme}://{place}{f':{port}' if port is not None else ''}{parts.path.rstrip('/') or '/v1'}"
    )
    return Address(base, unquote(parts.fragment) or None)
