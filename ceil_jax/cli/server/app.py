"""The ASGI application of the server: who may ask, how much, and in what order requests are computed."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
import time
from collections.abc import Callable
from threading import Event

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ceil_jax.cli.server.fields import Body
from ceil_jax.cli.server.service import Left, Service
from ceil_jax.errors import UserError
from ceil_jax.lm.stopping import interrupted_by

LARGEST = 8 * 2**20
"""The most bytes of a request's body."""
WAITING = 32
"""The most requests that are read, wait or are computed at a time."""
SECONDS = 30.0
"""The most seconds until a request's body has arrived."""

Work = Callable[[Body, Event], Body]


class Refused(Exception):
    """A request that is answered with an error: its status, the line that says why, and headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class Queue:
    """Computes one request at a time, in the order of arrival, in threads beside the event loop.

    A request whose client leaves is dropped from the queue; one that is being computed ends at its next batch, or its
    next token.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._here = 0
        self._computing: asyncio.Task[Body] | None = None

    async def answer(self, request: Request, work: Work) -> tuple[Body, Body]:
        """Read a request and compute its answer; both are returned.

        Raises:
            Refused: the queue is full; the body is too large, too slow or no JSON object; the request is wrong;
                the server stops.
            Left: the client has left.
        """
        if self._here >= WAITING:
            raise Refused(429, f"{WAITING} requests wait already; come back later", **{"Retry-After": "1"})
        self._here += 1
        left = Event()
        try:
            body = await _body(request)
            job = asyncio.create_task(self._computed(work, body, left))
            watch = asyncio.create_task(_departure(request))
            try:
                await asyncio.wait({job, watch}, return_when=asyncio.FIRST_COMPLETED)
                if job.done():
                    return body, job.result()
                raise Left
            finally:
                left.set()
                watch.cancel()
                if job is not self._computing:
                    job.cancel()
                # whatever becomes of it, nobody waits for it any more
                job.add_done_callback(lambda done: done.cancelled() or done.exception())
        finally:
            self._here -= 1

    async def _computed(self, work: Work, body: Body, left: Event) -> Body:
        async with self._turn:
            self._computing = asyncio.current_task()
            return await run_in_threadpool(_while_here, work, body, left)


def _while_here(work: Work, body: Body, left: Event) -> Body:
    """Compute an answer; a text that is being written ends when the client leaves."""

    def check() -> None:
        if left.is_set():
            raise Left

    with interrupted_by(check):
        return work(body, left)


async def _departure(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> Body:
    """The JSON object that a request carries."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # a web page may send other types to any address without being asked whether it may
        raise Refused(415, "the request's content type is not application/json")
    too_large = Refused(413, f"the request's body is larger than {LARGEST // 2**20} MiB", Connection="close")
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated[:20]) > LARGEST:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for piece in request.stream():
                content += piece
                if len(content) > LARGEST:
                    raise too_large
        body = from_json(bytes(content))
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {SECONDS:g} s", Connection="close") from None
    except ClientDisconnect:
        raise Left from None
    except ValueError as error:
        raise Refused(400, f"the request's body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused(400, "the request's body is not a JSON object")
    return body


def _check_host(request: Request, host: str) -> None:
    """Refuse a name under which this machine does not go: a web page may let its own name point here."""
    stated = request.headers.get("host", "")
    name = stated.rpartition(":")[0] if stated.rpartition(":")[2].isdecimal() else stated
    name = name.strip("[]").lower().rstrip(".")
    if name in {"localhost", host.lower(), socket.gethostname().lower()}:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        raise Refused(
            403,
            "the request's Host is no name of this server; ask by its address, or start it with --api-key-env",
        ) from None


def create_app(
    service: Service,
    key: str | None = None,
    *,
    host: str = "127.0.0.1",
    log: Callable[[str], None] | None = None,
) -> Starlette:
    """Return the service as an ASGI application.

    A wrong request is answered with status 400 and one line, an unknown address with 404, a body above 8 MiB with
    413, another content type than JSON with 415, and with 429 while 32 requests are here already. /health and
    /v1/models are answered at once, whatever is being computed. With `stream`, the whole answer is one event.

    Args:
        service: answers the requests.
        key: requests must carry it as a bearer token and are answered with 401 otherwise; None for no key. Without
            one, the Host of a request must be an IP address, localhost, this machine's name or `host`.
        host: a further name of this server.
        log: is given one line for each request; None for no log.
    """
    queue = Queue()

    async def answered(request: Request, work: Work) -> Response:
        if key is None:
            _check_host(request, host)
        elif not hmac.compare_digest(
            request.headers.get("authorization", "").encode(), f"Bearer {key}".encode()
        ):
            raise Refused(401, "the key is missing or wrong")
        if request.method != "POST":
            return JSONResponse(work({}, Event()))
        body, answer = await queue.answer(request, work)
        return _event(answer) if body.get("stream") and "choices" in answer else JSONResponse(answer)

    def route(path: str, method: str, work: Work) -> Route:
        async def respond(request: Request) -> Response:
            began = time.monotonic()
            try:
                response = await answered(request, work)
            except Refused as error:
                response = _refusal(error.status, str(error), error.headers)
            except UserError as error:
                response = _refusal(400, str(error), {})
            except Left:
                response = Response(status_code=499)
            except asyncio.CancelledError:
                response = _refusal(503, "the server stops", {"Connection": "close"})
            if log is not None:
                client = request.client.host if request.client else "?"
                seconds = time.monotonic() - began
                log(f"{client} {method} {path} {response.status_code} {seconds:.3f} s")
            return response

        return Route(path, respond, methods=[method])

    return Starlette(
        routes=[
            route("/health", "GET", lambda body, left: {"status": "ok"}),
            route("/v1/models", "GET", service.models),
            route("/v1/completions", "POST", service.completions),
            route("/v1/chat/completions", "POST", service.chat),
            route("/v1/embeddings", "POST", service.embeddings),
            route("/tokenize", "POST", service.tokenize),
        ]
    )


def _refusal(status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "code": status}}, status, headers)


def _event(answer: Body) -> Response:
    """The whole answer as one server-sent event."""
    if answer["object"] == "chat.completion":
        choices = [
            {name: value for name, value in choice.items() if name != "message"}
            | {"delta": choice["message"]}
            for choice in answer["choices"]
        ]
        answer = answer | {"object": "chat.completion.chunk", "choices": choices}
    return Response(f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n", media_type="text/event-stream")
