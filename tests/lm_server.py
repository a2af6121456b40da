"""A server on loopback that answers correctly, or with the faults that a test asks for."""

import json
import threading
import time
from contextlib import contextmanager

import uvicorn

from ceil_jax.cli.server.app import create_app
from ceil_jax.lm.openai.config import EndpointConfig

QUICK = EndpointConfig(back_off=0.001, timeout=5)


@contextmanager
def listening(app):
    """Serve an ASGI application within the block; gives its address."""
    config = uvicorn.Config(
        app, port=0, log_level="critical", ws="none", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()


class Server:
    """An ASGI application that answers as a service does, except for faults, and records the requests.

    `faults` holds one entry for each request to come: a (status, headers, body) to answer with, "drop" (the
    connection ends inside the body), "slow" (the body trickles and does not end), or None for the service's own
    answer. `change` is given (path, request, answer) of each answer and returns the answer to send.
    """

    def __init__(self, service, key=None):
        self.app = create_app(service, key)
        self.faults = []
        self.requests = []
        self.headers = []
        self.at_once = self.most_at_once = 0
        self.change = lambda path, request, answer: answer

    def clear(self):
        self.faults.clear()
        self.requests.clear()
        self.headers.clear()
        self.most_at_once = 0
        self.change = lambda path, request, answer: answer

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests.append((scope["path"], json.loads(body) if body else {}))
        self.headers.append(dict(scope["headers"]))
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            await self._answer(scope, body, receive, send)
        elif fault == "drop":
            await _respond(send, 200, {"content-length": "1000"}, b'{"choices": [')
        elif fault == "slow":
            await self._trickle(send)
        else:
            await _respond(send, *fault)

    async def _answer(self, scope, body, receive, send):
        sent, read = [], [{"type": "http.request", "body": body}]

        async def receive_again():
            return read.pop() if read else await receive()

        async def keep(message):
            sent.append(message)

        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.app(scope, receive_again, keep)
        # before the answer leaves: its reader may ask again at once
        self.at_once -= 1
        answer = json.loads(b"".join(message.get("body", b"") for message in sent))
        answer = self.change(scope["path"], self.requests[-1][1], answer)
        await _respond(send, sent[0]["status"], {}, json.dumps(answer).encode())

    async def _trickle(self, send):
        import asyncio

        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.02)
        await send({"type": "http.response.body", "body": b"{}"})


async def _respond(send, status, headers, body):
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})
