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

_PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "azure": ("https://RESOURCE.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together_ai": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks_ai": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "ollama": ("http://localhost:11434/v1", ""),
    "ollama_chat": ("http://localhost:11434/v1", ""),
    "lm_studio": ("http://localhost:1234/v1", ""),
    "hosted_vllm": ("http://localhost:8000/v1", ""),
    "vllm": ("http://localhost:8000/v1", ""),
    "litellm_proxy": ("http://localhost:4000/v1", "LITELLM_API_KEY"),
}
"""The provider in names such as `openai/gpt-4o`, as LiteLLM and DSPy write them → the address of its
OpenAI-compatible interface, and the variable that usually holds its key; "" without one."""
_FAMILIES = {
    "openai": r"gpt-\d.*|chatgpt.*|o\d(-.*)?",
    "anthropic": "claude-.*",
    "gemini": "gemini-.*",
}
"""Provider → the names of its models that are given without it."""


def advice_on(spec: str) -> str:
    """Return the end of a message about a model that was not found: how to write it if its name is
    that of a provider's model; else how a served model is written.

    >>> advice_on("ollama/llama3")
    '; a model of ollama is written http://localhost:11434/v1#llama3'
    >>> advice_on("owner/name")
    '; a model on a server is written http://host:port/v1#model'
    """
    provider, _, model = spec.partition("/" if "/" in spec else ":")
    provider = provider.lower()
    if not model:
        model = spec
        provider = next(
            (name for name, form in _FAMILIES.items() if re.fullmatch(form, spec.lower())), ""
        )
    if provider not in _PROVIDERS:
        return "; a model on a server is written http://host:port/v1#model"
    base, variable = _PROVIDERS[provider]
    written = f"; a model of {provider} is written {base}#{model}"
    if not variable:
        return written
    return f"{written}, and its key is named by --endpoint.api-key-env {variable}"


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
