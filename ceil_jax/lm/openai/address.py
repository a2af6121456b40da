"""Addresses of served models: `http://host:8000/v1#model-name`."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from ceil_jax.errors import UserError


def is_address(spec: str) -> bool:
    """Return whether the name of a model is an address."""
    return spec.startswith(("http://", "https://"))


def parse_address(spec: str) -> tuple[str, str | None]:
    """Return the server of `http://host:port/v1#model`, without a slash at its end, and the model's
    name.

    /v1 is added where there is no path. Without a name it is None: the only model that is served.

    Raises:
        UserError: the address has no host, or a port that is no port; it holds a password or a
            query, where people put keys. An address is shown and stored and a key must not be, so
            the message repeats neither.
    """
    try:
        parts = urlsplit(spec)
        host, _ = parts.hostname, parts.port
    except ValueError:
        # Python's message would repeat what stands in the port's place: http://me:password, with
        # the @ forgotten
        host = None
    if not host:
        raise UserError(
            "the address of an endpoint has no host, a port that is no number below 65536, or [ ] "
            "without an IPv6 address; expected http://host:port/v1#model-name"
        )
    if parts.username is not None or parts.password is not None or parts.query:
        raise UserError(
            f"the address of the endpoint at {host} holds a user name, a password or a query; "
            "put the key into an environment variable and name that with --endpoint.api-key-env"
        )
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"
    return base, unquote(parts.fragment) or None
