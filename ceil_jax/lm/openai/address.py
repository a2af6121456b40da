"""Addresses of served models: `http://host:8000/v1#model-name`, and other forms that people
paste."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ceil_jax.errors import UserError

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d+([/?#].*)?")
_LOCAL = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])([/?#].*)?")
_DOTTED = re.compile(r"[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}/((v\d|api\b|openai\b).*|[^#]*#.+)")
"""A host name with a typical path of such an interface, or with a model after it."""
_PASTED = re.compile(
    r"/(chat/completions|completions|embeddings|models|responses|tokenize)/?$", re.IGNORECASE
)
"""The ends of addresses that providers' pages show for single requests."""
_OLLAMA = re.compile(r"/api(/(chat|generate|tags|embed|embeddings))?/?$")
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)")
_HUB = re.compile(r"(www\.)?(huggingface\.co|hf\.co)")
_QUERY = "api-version"
"""The only allowed field of a query; others may be keys."""


class Address(NamedTuple):
    """A server with an OpenAI-compatible interface, and a model of it."""

    base: str
    """The part of the address before `/completions` and `/models`, without a trailing slash."""
    model: str | None
    """The name of the model; None for the only model of the server."""
    api_version: str | None = None
    """The value of `?api-version=` in Azure's addresses of deployments; None elsewhere."""


def is_address(spec: str) -> bool:
    """Return whether the name of a model is an address, possibly without a scheme, as in
    `localhost:8000`.

    >>> [is_address(spec) for spec in ("http://host", "localhost:8000/v1#m", "owner/name", "my_lm:load")]
    [True, True, False, False]
    """
    spec = spec.strip()
    return _SCHEME.match(spec) is not None or any(
        pattern.fullmatch(spec) for pattern in (_HOST_AND_PORT, _LOCAL, _DOTTED)
    )


def parse_address(spec: str) -> Address:
    """Return the server and the model of `http://host:port/v1#model`.

    - Without a scheme, http is used for a host with a port and for this machine, else https.
    - /v1 is added if there is no path.
    - An end such as /chat/completions is removed; Ollama's /api becomes /v1.
    - `?api-version=…` is returned separately; the model in an Azure deployment's address is the
      deployment's name.

    Raises:
        UserError: the address has no host or an invalid port; or it contains a password or a query,
            where people put keys. Addresses are shown and stored, and keys must not be; so the
            message repeats neither. Or it is a page of the Hugging Face hub.
    """
    parts = _split(spec.strip())
    if _HUB.fullmatch(parts.hostname or ""):
        id = "/".join(parts.path.strip("/").split("/")[:2])
        raise UserError(
            f"{parts.scheme}://{parts.netloc}{parts.path} is a page of the Hugging Face hub, not a "
            f"server of a model; give the id {id or 'owner/name'} to fetch the model"
        )
    fields = parse_qsl(parts.query, keep_blank_values=True)
    present = {name: value for name, value in fields if value}
    version = present.pop(_QUERY, None)
    if parts.username is not None or parts.password is not None or present:
        raise UserError(
            f"the address of the endpoint at {parts.hostname} holds a user name, a password or a "
            "query; put the key into an environment variable and name that with "
            "--endpoint.api-key-env"
        )
    path = _PASTED.sub("", parts.path.rstrip("/"))
    if parts.port == 11434:  # Ollama's
        path = _OLLAMA.sub("/v1", path)
    model = unquote(parts.fragment) or None
    if model is None and (deployment := _DEPLOYMENT.search(path)):
        model = unquote(deployment[1])
    base = f"{parts.scheme}://{parts.netloc}{path.rstrip('/') or '/v1'}"
    return Address(base, model, version)


def _split(spec: str) -> SplitResult:
    if _SCHEME.match(spec):
        address = spec
    else:
        local = _HOST_AND_PORT.fullmatch(spec) or _LOCAL.fullmatch(spec)
        address = f"{'http' if local else 'https'}://{spec}"
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        # Python's message would repeat what stands in the port's place: http://me:password, with
        # the @ forgotten
        host = None
    if not host:
        raise UserError(
            "the address of an endpoint has no host, a port that is no number below 65536, or [ ] "
            "without an IPv6 address; expected http://host:port/v1#model-name"
        )
    return parts
