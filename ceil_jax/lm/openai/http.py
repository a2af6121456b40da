"""One attempt at a request: a deadline for the whole answer, the proxy, the key, and the answer's
JSON without the key."""

from __future__ import annotations

import ipaddress
import json
import re
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.events import is_stream, whole_answer
from ceil_jax.lm.openai.listing import one_line

try:
    import httpcore2
    import httpx2
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

PAID = ("/completions", "/embeddings")
"""The ends of paths that use a model; other requests are not counted."""
CONNECT_SECONDS = 10.0
"""Seconds that a server may take to accept a connection."""
LONGEST = 2**29
"""The most bytes of an unpacked answer."""
HIDDEN = "***"
"""The text that replaces the key in a server's answer."""
_SENT = {
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-type",
    "content-length",
    "user-agent",
}
"""The headers that are sent, besides those with the key. The openai package adds others, some from
environment variables that are meant for another server."""
_NO_KEY = re.compile(r"api[ _-]?key|authenticat|unauthori[sz]ed", re.IGNORECASE)
TOO_LONG = re.compile(
    r"context (length|window|size)|too long|too many tokens|maximum context|too large to process"
)
"""The refusal of a text that is longer than the model reads."""
FILTERED = re.compile(
    r"\A(?!.*\b(?:account|organi[sz]ation)\b).*(?:content_?filter|content management"
    r"|content policy|usage polic|moderation|flagged|inappropriate|data_?inspection"
    r"|ResponsibleAI|safety (system|filter))",
    re.IGNORECASE,
)
"""The refusal of a single text by a filter of the server or of a gateway; not of an account."""
_PASSING = re.compile(
    r"rate_?limit|too_?many|overloaded|unavailable|server_?error|time_?out", re.IGNORECASE
)
"""The kinds of failures that pass, where gateways write a word in place of a status."""
_NO_MONEY = re.compile(r"insufficient_quota|exceeded your current quota|credit balance")


class FailedAnswer(ValueError):
    """An error in place of an answer, in a response with a status of success."""


class Refused(UserError):
    """A refusal by the server with its HTTP status; or, with status 200, an answer that does not
    follow the interface.

    Args:
        message: the message for the user, in which what the server said may be cut.
        status: the HTTP status.
        said: the server's message in full; by default `message`.
    """

    def __init__(self, message: str, status: int = 200, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said or message


class RequestBudget:
    """Counts requests and tokens, with optional limits. Any thread may use it.

    Requests that are running when the tokens run out are still answered, so the total may exceed
    the limit.
    """

    def __init__(self, where: str, config: EndpointConfig) -> None:
        self.requests = 0
        self.tokens = 0
        self._where = where
        self._limits = {"requests": config.max_requests, "tokens": config.max_tokens}
        self._lock = threading.Lock()
        self._thread = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {n: value for n, value in vars(self).items() if n not in ("_lock", "_thread")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock(), _thread=threading.local())

    def ask(self) -> None:
        """Count a request before it is sent. A `UserError` if the budget is spent."""
        with self._lock:
            for name, most in self._limits.items():
                if most is not None and getattr(self, name) >= most:
                    raise UserError(
                        f"{self._where}: the budget of {name} is spent ({self}); finished work is "
                        f"kept: raise --endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    def add(self, tokens: int) -> None:
        """Count the tokens of an answer that the current thread has received."""
        with self._lock:
            self.tokens += tokens
        self._thread.tokens = self.tokens_of_thread + tokens

    @property
    def tokens_of_thread(self) -> int:
        """The tokens of the answers that the current thread has received."""
        return getattr(self._thread, "tokens", 0)

    def __str__(self) -> str:
        return ", ".join(
            f"{getattr(self, name):,}{'' if most is None else f' of {most:,}'} {name}"
            for name, most in self._limits.items()
        )


class Http(httpx2.Client):
    """The HTTP client of an `openai.OpenAI`, which calls `send` for each attempt and retries
    failures.

    After an error of httpx2 there is another attempt; after a `UserError` there is none.
    """

    def __init__(
        self, base: str, budget: RequestBudget, config: EndpointConfig, key: str | None
    ) -> None:
        proxy = proxy_of(base)
        limits = httpx2.Limits(max_connections=config.concurrency)
        try:
            transport = _DeadlineTransport(proxy, limits)
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            scheme = (proxy or "").partition(":")[0]
            # the message of an address that cannot be read may repeat a password
            reason = "no address" if isinstance(error, httpx2.InvalidURL) else error
            raise UserError(
                f"the environment names a {scheme} proxy for {base} ({reason}); put the host into "
                "NO_PROXY if it is reached without one, or unset ALL_PROXY, HTTP_PROXY and "
                "HTTPS_PROXY"
            ) from None
        connect = min(CONNECT_SECONDS, config.timeout)
        timeout = httpx2.Timeout(config.timeout, connect=connect)
        # `proxy_of` has read the environment
        super().__init__(timeout=timeout, transport=transport, trust_env=False)
        self.stopped = threading.Event()
        self._transport_deadline = transport.deadline
        self._proxied = proxy is not None
        self._budget = budget
        self._seconds = config.timeout
        self._key = key
        self._connected = False

    def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
        """Return the complete response to a request; for a success, its JSON is the extension
        "json"."""
        if self.stopped.is_set():
            raise UserError(f"{request.url}: not asked, because another request has failed")
        request.headers = httpx2.Headers(
            {n: value for n, value in request.headers.items() if n in _SENT}
        )
        if self._key is not None:
            request.headers["authorization"] = f"Bearer {self._key}"
            # Azure's addresses of deployments read the key from this one
            if "api-version" in request.url.params:
                request.headers["api-key"] = self._key
        if request.url.path.endswith(PAID):
            self._budget.ask()
        with self._transport_deadline.within(self._seconds):
            try:
                response = super().send(request, **{**settings, "stream": True})
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if self._connected:
                    raise
                raise UserError(self._unreachable(request, error)) from None
            self._connected = True
            content = _body(response)
        status = response.status_code
        if response.is_success:
            answer = self._answer(request, response, content)
            status = _status_inside(answer) or status
        whole = httpx2.Response(
            status,
            headers=[(n, v) for n, v in response.headers.items() if n != "content-encoding"],
            content=content,
            request=request,
        )
        if whole.is_success:
            whole.extensions["json"] = answer
        elif status == 501 or (status == 429 and _NO_MONEY.search(whole.text)):
            # later attempts would fail too
            whole.headers["x-should-retry"] = "false"
        elif status >= 500 and self._key is None and _NO_KEY.search(whole.text):
            # LiteLLM answers 500 where other servers answer 401
            whole.status_code = 401
        elif status >= 500 and TOO_LONG.search(whole.text):
            # llama.cpp and Ollama answer 500 where other servers answer 400
            whole.status_code = 400
        return whole

    def _answer(self, request: httpx2.Request, response: httpx2.Response, content: bytes) -> Any:
        """The JSON of an answer. If the server repeats the key, it is replaced."""
        text = content.decode(errors="replace").removeprefix("\ufeff")
        try:
            answer = whole_answer(text) if is_stream(text) else json.loads(text)
            return answer if self._key is None else without(answer, self._key)
        except RecursionError:
            raise Refused(f"{request.url}: an answer of JSON that is nested too deeply") from None
        except ValueError:
            kind = response.headers.get("content-type", "")
            if text.lstrip().startswith("<") or kind.startswith("text/html"):
                raise Refused(
                    f"{request.url} answers with a web page, not JSON; give the address of the "
                    "interface, which often ends in /v1"
                ) from None
            beginning = repr(self._shown(text)) if text.strip() else "nothing"
            message = f"an answer of {len(content)} bytes that is not whole JSON: {beginning}"
            raise httpx2.RemoteProtocolError(message, request=request) from None

    def _shown(self, text: str) -> str:
        """The beginning of an answer for a message, without the key."""
        return one_line(text.replace(self._key, HIDDEN) if self._key else text, 60)

    def _unreachable(self, request: httpx2.Request, error: Exception) -> str:
        if self._proxied:
            return (
                f"{request.url}: cannot connect through the proxy of the environment ({error}); "
                "put the host into NO_PROXY if it is reached without one"
            )
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            way = "SSL_CERT_FILE names a file with the certificate of your own authority"
        elif request.url.scheme == "https" and "SSL" in str(error):
            way = "does it answer at http:// instead?"
        else:
            way = "is the server running there?"
        return f"{request.url}: cannot connect ({error}); {way}"


def proxy_of(base: str) -> str | None:
    """Return the environment's proxy for a server; None if it is reached without one. This machine
    is always reached without one."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    proxy = proxy.strip()
    if "://" not in proxy:
        return f"http://{proxy}"
    # as desktop settings write it
    return re.sub(r"^socks://", "socks5://", proxy)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def without(value: Any, secret: str) -> Any:
    """Return a JSON value with a secret in its texts replaced by `***`.

    >>> without({"id": "my-key", "data": ["a my-key"]}, "my-key")
    {'id': '***', 'data': ['a ***']}
    """
    if isinstance(value, str):
        return value.replace(secret, HIDDEN)
    if isinstance(value, list):
        return [without(item, secret) for item in value]
    if isinstance(value, dict):
        return {name.replace(secret, HIDDEN): without(item, secret) for name, item in value.items()}
    return value


def _body(response: httpx2.Response) -> bytes:
    """The unpacked body of a response. A UserError if it is longer than `LONGEST`."""
    pieces = []
    length = 0
    with closing(response):
        for piece in response.iter_bytes():
            pieces.append(piece)
            length += len(piece)
            if length > LONGEST:
                raise UserError(f"{response.url}: an answer of more than {LONGEST:,} bytes")
    return b"".join(pieces)


def _status_inside(answer: Any) -> int | None:
    """The status of a temporary failure inside an answer of status 200, as gateways send it; None
    if there is none."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return None
    kinds = [str(error.get(name) or "") for name in ("code", "status", "type")]
    for kind in kinds:
        if re.fullmatch(r"408|409|429|5\d\d", kind):
            return int(kind)
    return 503 if any(map(_PASSING.search, kinds)) else None


class _Deadline(threading.local):
    """The deadline of the current thread's request."""

    end = float("inf")

    def within(self, seconds: float) -> _Deadline:
        self.end = time.monotonic() + seconds
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.end = float("inf")

    def left(self, timeout: float | None) -> float:
        """Return the seconds that one step of a request may take. Raises a time-out if none are
        left."""
        seconds = min(self.end - time.monotonic(), float("inf") if timeout is None else timeout)
        if seconds <= 0:
            raise httpcore2.ReadTimeout("the deadline has passed")
        return seconds


class _DeadlineTransport(httpx2.HTTPTransport):
    """A transport with a deadline for the whole answer: httpx2's own time-outs start again with
    each byte that arrives."""

    def __init__(self, proxy: str | None, limits: httpx2.Limits) -> None:
        super().__init__(proxy=proxy, limits=limits)
        self.deadline = _Deadline()
        # httpx2 has no argument for the backend of its pool of connections
        self._pool._network_backend = _Backend(self._pool._network_backend, self.deadline)


class _Backend(httpcore2.NetworkBackend):
    """A network backend whose streams end at a deadline."""

    def __init__(self, inner: httpcore2.NetworkBackend, deadline: _Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream, self._deadline)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    """A connection; reading and writing end at a deadline."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: _Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        seconds = self._deadline.left(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, seconds), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
