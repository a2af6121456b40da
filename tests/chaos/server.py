"""A seeded fuzzer for `serve-lm`: whatever is sent, the server answers with a status that is meant, and goes on.

500 is never meant. After each case the server must answer a good request as before.
"""

from __future__ import annotations

import json
import random
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx2
from lm_server import listening

from ceil_jax.cli.server.app import create_app
from ceil_jax.cli.server.service import Service
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.lm import TinyLM
from chaos.damage import HARMS

SHARE = 0.1
SECONDS = 20.0
"""A case that takes longer hangs."""
MEANT = {200, 400, 403, 404, 405, 413, 415}
GOOD = {"prompt": " a b a", "max_tokens": 2, "temperature": 0}
PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/v1/models", "/nowhere")
FIELDS = [
    "prompt",
    "messages",
    "input",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "seed",
    "stop",
    "echo",
    "logprobs",
    "stream",
    "n",
]
SCALARS = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    1.5,
    1e308,
    5e-324,
    2**63,
    -(10**30),
    10**400,
    float("nan"),
    float("inf"),
    "",
    "a b",
    " a b a b",
    "tiny",
    "é😀",
    "\ud800",
    "\x00",
    "\u2028",
    "x" * 3000,
]


def value(draw: random.Random, depth: int = 0) -> object:
    """Draw any JSON."""
    kind = draw.random()
    if depth > 3 or kind < 0.6:
        return draw.choice(SCALARS)
    if kind < 0.8:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    keys = ["role", "content", "x", ""]
    return {draw.choice(keys): value(draw, depth + 1) for _ in range(draw.randrange(4))}


def content(draw: random.Random) -> bytes:
    """Draw a body: mostly right with some fields drawn, then sometimes harmed."""
    body: dict[str, object] = {
        "prompt": draw.choice([" a b a", ["a", " b b"]]),
        "input": ["a", "b"],
        "messages": [{"role": "user", "content": "a b a"}],
        "max_tokens": draw.randrange(5),
    }
    for field in draw.sample(FIELDS, draw.randrange(4)):
        body[field] = value(draw)
    text = json.dumps(body if draw.random() < 0.9 else value(draw)).encode()
    if draw.random() < 0.05:
        depth = draw.choice([150, 300, 10**5])
        return b'{"prompt": ' + b"[" * depth + b"]" * depth + b"}"
    return draw.choice(list(HARMS.values()))(text, draw) if draw.random() < 0.3 else text


def request(draw: random.Random) -> bytes:
    """Draw the bytes of a request."""
    body = content(draw)
    method = draw.choice(["POST"] * 8 + ["GET", "OPTIONS", "BREW"])
    host = draw.choice(["127.0.0.1"] * 8 + ["localhost", "evil.example", "", "[::1", "a" * 500])
    kind = draw.choice(["application/json"] * 8 + ["text/plain", "", "application/json; charset=utf-16"])
    length = draw.choice([str(len(body))] * 12 + ["0", "-1", "x", "9" * 30, str(len(body) + 7)])
    head = f"{method} {draw.choice(PATHS)} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n"
    whole = f"{head}Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + body
    return draw.choice(list(HARMS.values()))(whole, draw) if draw.random() < 0.1 else whole


class Fuzzed:
    """A server on loopback, started at the first case."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing
        self._base = ""

    def case(self, draw: random.Random) -> tuple[str, str]:
        """Send one request; (outcome, failure or "")."""
        if not self._base:
            app = create_app(Service(TinyLM(), "tiny", load_encoder("tiny"), "tiny-encoder"))
            self._base = self._closing.enter_context(listening(app)).removesuffix("/v1")
        sent = request(draw)
        try:
            status = self._status(sent, leaves=draw.random() < 0.1)
        except TimeoutError:
            return "failed", f"no answer within {SECONDS:g} s to {sent[:300]!r}"
        if status is not None and status not in MEANT:
            return "failed", f"status {status} for {sent[:300]!r}"
        good = httpx2.post(f"{self._base}/v1/completions", json=GOOD, timeout=SECONDS)
        if good.status_code != 200 or good.json()["choices"][0]["text"] != " b a":
            return "failed", f"a good request is answered with {good.status_code} after {sent[:300]!r}"
        return ("left" if status is None else str(status)), ""

    def _status(self, sent: bytes, leaves: bool) -> int | None:
        """The status of the answer; None where there is none because the client left, or half a request came."""
        host, port = self._base.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            try:
                connection.sendall(sent)
                if leaves:
                    return None
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(12)
            except TimeoutError:
                raise
            except OSError:  # the server has closed the connection
                return None
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None


def kinds(folder: Path, closing: ExitStack) -> dict[str, tuple[float, object]]:
    """Return the kind "server", its share of the time and its case."""
    return {"server": (SHARE, Fuzzed(closing).case)}
