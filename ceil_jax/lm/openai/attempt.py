"""One attempt at a request: its budget, its key, its deadline, its size, and whether the answer is whole."""

from __future__ import annotations

import asyncio
import random
import threading
import weakref
from contextlib import suppress
from typing import Any

import httpx2

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.cleaning import clean_json, one_line, without_key
from ceil_jax.lm.openai.config import EndpointConfig

LONGEST_WAIT = 60.0
"""The most seconds between two attempts, unless the server asks for more."""
LARGEST = 64 * 2**20
"""The most bytes of an answer, before and after decompression."""
ANSWER, ATTEMPT = "ceil_jax_answer", "ceil_jax_attempt"
"""Extensions of a response: its JSON object, and the number of the attempt, from 1."""

_PAID = ("/completions", "/embeddings")
"""The ends of paths behind which a model works; other requests are not counted."""
_SENT = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
"""The headers that are sent, with the key's. The openai package adds others, some from environment variables that
are meant for another server."""
_KEPT = ("retry-after", "retry-after-ms", "x-should-retry", "location")
"""The headers of an answer that are read."""


class RequestBudget:
    """A running total of requests and tokens, with an optional limit. Any thread may use it.

    Requests that are under way when the tokens run out are still answered, so the total may pass the limit by
    what was in flight.

    Args:
        where: the server's address, for messages.
        max_requests: the most requests, retries counted; None for no limit.
        max_tokens: the tokens after which nothing more is asked; None for no limit.
    """

    def __init__(self, where: str, max_requests: int | None = None, max_tokens: int | None = None) -> None:
        self.requests = self.tokens = 0
        self._where, self._max_requests, self._max_tokens = where, max_requests, max_tokens
        self._lock = threading.Lock()

    def ask(self) -> None:
        """Count one request that is about to be sent.

        Raises:
            UserError: the budget is spent.
        """
        with self._lock:
            for name, used, most in self._counts():
                if most is not None and used >= most:
                    raise UserError(
                        f"{self._where}: the budget of {name} is spent ({self}); finished work is kept: "
                        f"raise --endpoint.max-{name} and run the same command again"
                    )
            self.requests += 1

    def add(self, tokens: int) -> None:
        """Count the tokens that an answer says were read and written."""
        with self._lock:
            self.tokens += tokens

    def __str__(self) -> str:
        limits = (
            f"{used:,}{'' if most is None else f' of {most:,}'} {name}" for name, used, most in self._counts()
        )
        return ", ".join(limits)

    def _counts(self) -> list[tuple[str, int, int | None]]:
        return [("requests", self.requests, self._max_requests), ("tokens", self.tokens, self._max_tokens)]


class AttemptClient(httpx2.Client):
    """The HTTP client of an `openai.OpenAI`, which calls `send` for each attempt and repeats those that fail.

    A time-out, a lost connection and an answer that is not whole JSON raise errors of httpx2, after which another
    attempt follows. The requests themselves run in an event loop of its own, because only there one deadline
    holds for everything: connecting, headers that drip, a body that trickles.

    Args:
        budget: what may be asked.
        config: the deadline, the back-off, the number of connections.
        key: sent as a bearer token; None for none.
    """

    def __init__(self, budget: RequestBudget, config: EndpointConfig, key: str | None) -> None:
        # this half sends nothing, so it needs no certificates
        super().__init__(transport=httpx2.BaseTransport(), trust_env=False)
        self.stopped = threading.Event()
        """While it is set, nothing more is sent."""
        self._endpoint, self._budget, self._key = config, budget, key
        self._connected = False
        limits = httpx2.Limits(max_connections=config.concurrency)
        self._asynchronous = httpx2.AsyncClient(timeout=config.timeout, limits=limits)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self._loop,), name="endpoint loop", daemon=True).start()
        weakref.finalize(self, _finish, self._loop, self._asynchronous)

    def send(self, request: httpx2.Request, *, stream: bool = False, **settings: Any) -> httpx2.Response:
        """Return the whole answer to a request; of a success, with its JSON object as an extension.

        Raises:
            UserError: the budget is spent; nobody listens at the address; the answer is no JSON object or larger
                than `LARGEST`.
            httpx2.RequestError: a failure that another attempt may mend.
        """
        if self.stopped.is_set():
            raise UserError(f"{request.url}: not asked, because another request has failed")
        retries = int(request.headers.get("x-stainless-retry-count", 0))
        for name in {name.lower() for name in request.headers} - _SENT:
            del request.headers[name]
        if self._key is not None:
            request.headers["authorization"] = f"Bearer {self._key}"
        if request.url.path.endswith(_PAID):
            self._budget.ask()
        response = asyncio.run_coroutine_threadsafe(self._whole(request, settings), self._loop).result()
        response.extensions[ATTEMPT] = retries + 1
        if response.is_error and "retry-after" not in response.headers:
            # drawn between half the back-off and all of it, so that clients do not return together
            most = min(self._endpoint.back_off * 2**retries, LONGEST_WAIT)
            response.headers["retry-after-ms"] = str(1000 * most * random.uniform(0.5, 1))
        elif response.is_success:
            response.extensions[ANSWER] = self._json_object(request, response.content)
        return response

    async def _whole(self, request: httpx2.Request, settings: dict[str, Any]) -> httpx2.Response:
        """The response with its body and with the headers that are read, if all arrives before the deadline."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                response = await self._asynchronous.send(request, stream=True, **settings)
                self._connected = True
                try:
                    body = await _body(request, response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx2.ReadTimeout("the deadline has passed", request=request) from None
        except httpx2.ConnectError as error:
            if self._connected:
                raise
            raise UserError(
                f"{request.url}: cannot connect ({error}); is the server running there?"
            ) from None
        kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
        clean = {name: one_line(without_key(value, self._key)) for name, value in kept.items()}
        headers = {name: value.encode("ascii", "replace").decode() for name, value in clean.items()}
        return httpx2.Response(
            response.status_code, headers=headers, content=body, request=request, extensions={}
        )

    def _json_object(self, request: httpx2.Request, body: bytes) -> dict[str, Any]:
        if body.lstrip().startswith(b"<"):
            raise UserError(
                f"{request.url} answers with a web page, not JSON; give the address of the interface, "
                "which often ends in /v1"
            )
        try:
            answer = clean_json(body, self._key)
        except ValueError:
            raise httpx2.RemoteProtocolError(
                f"an answer of {len(body)} bytes that is not whole JSON", request=request
            ) from None
        if not isinstance(answer, dict) or "error" in answer:
            raise UserError(f"{request.url}: expected a JSON object, found {said(body, self._key)}")
        return answer


async def _body(request: httpx2.Request, response: httpx2.Response) -> bytes:
    """The decompressed body, read until it is too large."""
    pieces, size = [], 0
    # the decoders of httpx2 give pieces of at most 1 MiB, however well they were compressed
    async for piece in response.aiter_bytes():
        pieces.append(piece)
        size += len(piece)
        if max(size, response.num_bytes_downloaded) > LARGEST:
            raise UserError(
                f"{request.url}: an answer of more than {LARGEST // 2**20} MiB; "
                "if it is a right one, make --endpoint.batch smaller"
            )
    return b"".join(pieces)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _finish(loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient) -> None:
    """Close the connections and end the loop, which runs in its own thread."""

    async def close() -> None:
        await client.aclose()
        loop.stop()

    asyncio.run_coroutine_threadsafe(close(), loop)


def said(body: bytes, key: str | None) -> str:
    """Return what the body of an error says, in one line of at most 200 characters, without the key."""
    content: Any = None
    with suppress(ValueError):
        content = clean_json(body, key)
    message: Any = None
    if isinstance(content, dict):
        error = content.get("error")
        inner = error.get("message") if isinstance(error, dict) else error
        message = inner or content.get("message") or content.get("detail")
    # cut last: half a key is no key that could be found
    return one_line(without_key(str(message or body.decode("utf-8", "replace")), key)) or "no message"
