"""One attempt at a request: the budget, the key, the deadline, and whether the answer is whole."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx2

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.config import EndpointConfig

PAID = ("/completions", "/embeddings")
"""The ends of paths behind which a model works; other requests are not counted."""
_SENT = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
"""The headers that are sent, with the key's. The openai package adds others, some from environment variables that
are meant for another server."""


class RequestBudget:
    """Running totals of requests and tokens, with optional limits. Any thread may use it.

    Requests that are under way when the tokens run out are still answered, so the total may pass the limit.
    """

    def __init__(self, where: str, config: EndpointConfig) -> None:
        self.requests = self.tokens = 0
        self._where, self._limits = where, {"requests": config.max_requests, "tokens": config.max_tokens}
        self._lock = threading.Lock()

    def ask(self) -> None:
        """Count one request that is about to be sent, or raise `UserError` because the budget is spent."""
        with self._lock:
            for name, most in self._limits.items():
                if most is not None and getattr(self, name) >= most:
                    raise UserError(
                        f"{self._where}: the budget of {name} is spent ({self}); finished work is kept: "
                        f"raise --endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    def add(self, tokens: int) -> None:
        with self._lock:
            self.tokens += tokens

    def __str__(self) -> str:
        return ", ".join(
            f"{getattr(self, name):,}{'' if most is None else f' of {most:,}'} {name}"
            for name, most in self._limits.items()
        )


class Http(httpx2.Client):
    """The HTTP client of an `openai.OpenAI`, which calls `send` for each attempt and repeats those that fail.

    An error of httpx2 is followed by another attempt; a `UserError` is not.
    """

    def __init__(self, budget: RequestBudget, config: EndpointConfig, key: str | None) -> None:
        super().__init__(timeout=config.timeout, limits=httpx2.Limits(max_connections=config.concurrency))
        self.stopped = threading.Event()
        """While it is set, nothing more is sent."""
        self._budget, self._seconds, self._key = budget, config.timeout, key
        self._connected = False

    def send(self, request: httpx2.Request, **settings: Any) -> httpx2.Response:
        """Return the whole response to a request, and the JSON of a success as an extension of it."""
        if self.stopped.is_set():
            raise UserError(f"{request.url}: not asked, because another request has failed")
        for name in {name.lower() for name in request.headers} - _SENT:
            del request.headers[name]
        if self._key is not None:
            request.headers["authorization"] = f"Bearer {self._key}"
        if request.url.path.endswith(PAID):
            self._budget.ask()
        end = time.monotonic() + self._seconds
        try:
            response = super().send(request, **{**settings, "stream": True})
        except httpx2.ConnectError as error:
            if self._connected:
                raise
            raise UserError(
                f"{request.url}: cannot connect ({error}); is the server running there?"
            ) from None
        self._connected = True
        pieces = []
        try:
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout("the deadline has passed", request=request)
        finally:
            response.close()
        names = ("retry-after", "retry-after-ms", "x-should-retry", "location")
        kept = {name: response.headers[name] for name in names if name in response.headers}
        whole = httpx2.Response(response.status_code, headers=kept, content=b"".join(pieces), request=request)
        if whole.is_success:
            whole.extensions["json"] = _json(whole)
        return whole


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        if response.content.lstrip().startswith(b"<"):
            raise UserError(
                f"{response.url} answers with a web page, not JSON; give the address of the interface, "
                "which often ends in /v1"
            ) from None
        size = len(response.content)
        raise httpx2.RemoteProtocolError(
            f"an answer of {size} bytes that is not whole JSON", request=response.request
        ) from None
