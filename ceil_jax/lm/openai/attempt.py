"""One attempt at a request: its budget, its key, its deadline, and whether the answer is whole."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import httpx2

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.budget import RequestBudget
from ceil_jax.lm.openai.config import EndpointConfig

LONGEST_WAIT = 60.0
"""The most seconds between two attempts, unless the server asks for more."""
ANSWER, ATTEMPT = "ceil_jax_answer", "ceil_jax_attempt"
"""Extensions of a response: its JSON object, and the number of the attempt, from 1."""

_PAID = ("/completions", "/embeddings")
"""The ends of paths behind which a model works; other requests are not counted."""
_HEADERS = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
"""The headers that are sent, with the key's. The openai package adds others, some from environment variables that
are meant for another server."""
_OF_THE_BODY = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that are no longer true of a body that has been read."""


class AttemptClient(httpx2.Client):
    """The HTTP client of an `openai.OpenAI`, which calls `send` for each attempt and repeats those that fail.

    A time-out, a lost connection and an answer that is not whole JSON raise errors of httpx2, after which another
    attempt follows.

    Args:
        budget: what may be asked.
        config: the deadline, the back-off, the number of connections.
        key: sent as a bearer token; None for none.
    """

    def __init__(self, budget: RequestBudget, config: EndpointConfig, key: str | None) -> None:
        super().__init__(timeout=config.timeout, limits=httpx2.Limits(max_connections=config.concurrency))
        self.stopped = threading.Event()
        """While it is set, nothing more is sent."""
        self._endpoint, self._budget, self._key = config, budget, key
        self._connected = False

    def send(self, request: httpx2.Request, *, stream: bool = False, **settings: Any) -> httpx2.Response:
        """Return the whole answer to a request; of a success, with its JSON object as an extension.

        Raises:
            UserError: the budget is spent; nobody listens at the address; the answer is no JSON object.
            httpx2.RequestError: a failure that another attempt may mend.
        """
        if self.stopped.is_set():
            raise UserError(f"{request.url}: not asked, because another request has failed")
        retries = int(request.headers.get("x-stainless-retry-count", 0))
        for name in {name.lower() for name in request.headers} - _HEADERS:
            del request.headers[name]
        if self._key is not None:
            request.headers["authorization"] = f"Bearer {self._key}"
        if request.url.path.endswith(_PAID):
            self._budget.ask()
        response = self._whole(request, settings)
        response.extensions[ATTEMPT] = retries + 1
        if response.is_error:
            if "retry-after" not in response.headers:
                response.headers["retry-after-ms"] = str(1000 * self._back_off(retries))
        elif response.is_success:
            response.extensions[ANSWER] = _json_object(request, response)
        return response

    def _whole(self, request: httpx2.Request, settings: dict[str, Any]) -> httpx2.Response:
        """The response with its body, if that arrives before the deadline."""
        deadline = time.monotonic() + self._endpoint.timeout
        pieces = []
        try:
            response = super().send(request, stream=True, **settings)
        except httpx2.ConnectError as error:
            if self._connected:
                raise
            raise UserError(
                f"{request.url}: cannot connect ({error}); is the server running there?"
            ) from None
        self._connected = True
        try:
            # the library's own limit is on each read, which a body that trickles would never reach
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > deadline:
                    raise httpx2.ReadTimeout("the deadline has passed", request=request)
        finally:
            response.close()
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _OF_THE_BODY]
        return httpx2.Response(
            response.status_code, headers=headers, content=b"".join(pieces), request=request
        )

    def _back_off(self, retries: int) -> float:
        """Seconds to wait, drawn between half the back-off and all of it, so that clients do not return together."""
        return min(self._endpoint.back_off * 2**retries, LONGEST_WAIT) * random.uniform(0.5, 1)


def _json_object(request: httpx2.Request, response: httpx2.Response) -> dict[str, Any]:
    text = response.text
    if text.lstrip().startswith("<"):
        raise UserError(
            f"{request.url} answers with a web page, not JSON; give the address of the interface, "
            "which often ends in /v1"
        )
    try:
        answer = json.loads(text)
    except ValueError:
        raise httpx2.RemoteProtocolError(
            f"an answer of {len(text)} characters that is not whole JSON", request=request
        ) from None
    if not isinstance(answer, dict) or "error" in answer:
        raise UserError(f"{request.url}: expected a JSON object, found {said(text)}")
    return answer


def said(text: str) -> str:
    """Return what the body of an error says, in one line of at most 200 characters."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    message: Any = text
    if isinstance(content, dict):
        error = content.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        message = inner or content.get("message") or content.get("detail") or text
    return " ".join(str(message).split())[:200] or "no message"
