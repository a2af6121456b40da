"""A hostile endpoint by a small grammar: an LM and an encoder behind it give numbers, or one line.

Each answer of a right server is changed somewhere: a value by another, a key by none, an echo of the key, bytes
harmed, other statuses and headers. Nothing but `UserError` may come out, no line may hold the key or be long, and
no answer may lower what the budget counts.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from lm_server import QUICK, Server, listening

from ceil_jax.cli.server.service import Service
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM, load_lm

SHARE = 0.1
KEY = "sk-chaos-0123456789+/"
VARIABLE = "CEIL_JAX_CHAOS_KEY"
VALUES = [
    None,
    True,
    0,
    1,
    -7,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    -1e300,
    "",
    "7",
    KEY,
    f"x {KEY}\n" * 50,
    "\ud800",
    "\x00\u202e",
    [],
    {},
    [[[[[]]]]],
    {"a": {"a": KEY}},
    ["x"] * 1000,
]


def places(content: object, path: tuple = ()) -> list[tuple]:
    """The paths of all values inside some JSON."""
    if isinstance(content, dict):
        inner = list(content.items())
    elif isinstance(content, list):
        inner = list(enumerate(content))
    else:
        inner = []
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def changed(content: object, path: tuple, new: object) -> object:
    """The same JSON with another value at a path."""
    if not path:
        return new
    if isinstance(content, dict):
        return {**content, path[0]: changed(content[path[0]], path[1:], new)}
    return [changed(one, path[1:], new) if i == path[0] else one for i, one in enumerate(content)]


def fault(draw: random.Random) -> tuple[int, dict[str, str], bytes]:
    """Draw a whole answer that has nothing to do with the question."""
    body = draw.choice(
        [
            b"",
            b"<html>",
            b"[" * 10**5,
            b'{"a":' * 10**5,
            KEY.encode(),
            b'"' + KEY.encode() * 100 + b'"',
            b"\xff",
            *(json.dumps({"error": value}).encode() for value in VALUES[:12]),
        ]
    )
    headers = draw.choice(
        [
            {},
            {"retry-after": KEY},
            {"retry-after": "-1"},
            {"retry-after": "nan"},
            {"retry-after": "9" * 400},
            {"location": f"http://x/?{KEY}"},
            {"content-type": f"text/{KEY}"},
            {"x-should-retry": "true"},
        ]
    )
    if draw.random() < 0.2:
        headers, body = {**headers, "content-encoding": "gzip"}, gzip.compress(body)
    if draw.random() < 0.1:
        headers = {**headers, "content-encoding": draw.choice(["gzip", "br", KEY[:8]])}
    return draw.choice([200, 200, 204, 301, 307, 400, 401, 404, 418, 429, 500, 503]), headers, body


class Hostile:
    """A server on loopback that changes its answers, started at the first case."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing
        self._server: Server | None = None
        self._address = ""

    def case(self, draw: random.Random) -> tuple[str, str]:
        """Ask for scores, texts, counts or vectors; (outcome, failure or "")."""
        if self._server is None:
            self._server = Server(Service(TinyLM(), "tiny", load_encoder("tiny"), "tiny-encoder"))
            self._address = self._closing.enter_context(listening(self._server))
        self._server.clear()
        turn, harm = draw.randrange(4), draw.random() < 0.3
        asked: list[str] = []

        def change(path: str, request: dict, answer: object) -> object:
            asked.append(path)
            if len(asked) <= turn:
                return answer
            for _ in range(draw.randrange(1, 4)):
                answer = changed(answer, draw.choice(places(answer)), draw.choice(VALUES))
            return answer

        if harm:
            self._server.faults = [None] * turn + [fault(draw) for _ in range(3)]
        else:
            self._server.change = change
        os.environ[VARIABLE] = KEY
        config = replace(QUICK, attempts=1, api_key_env=VARIABLE, context_length=draw.choice([None, 512]))
        try:
            self._asked(draw, config)
        except UserError as error:
            said = str(error)
            if KEY in said or "\n" in said or len(said) > 600:
                return "failed", f"the line holds the key, is several or is long: {said[:300]!r}"
            return "refused in one line", ""
        except Exception as error:
            return "failed", f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            del os.environ[VARIABLE]
        return "answered", ""

    def _asked(self, draw: random.Random, config) -> None:
        what = draw.choice(["scores", "texts", "chat", "counts", "vectors"])
        if what == "vectors":
            encoder = load_encoder(f"{self._address}#tiny-encoder", endpoint=config)
            _check(KEY not in encoder.name and len(encoder.name) < 300, "the name")
            _check(bool(np.isfinite(encoder.encode(["a", "b"])).all()), "vectors that are not finite")
            return
        lm = load_lm(f"{self._address}#tiny", endpoint=replace(config, chat=what == "chat"))
        _check(KEY not in lm.name and len(lm.name) < 300, "the name")
        before = lm.tokens_read
        if what == "scores":
            found = lm.log_likelihood(["a b", " a"], [" a", " b"])
            _check(all(math.isfinite(score) and score < 0.01 for score in found), "scores")
        elif what == "counts":
            _check(all(0 <= count < 2**31 for count in lm.count_tokens(["a b", "c"])), "counts")
        else:
            _check(KEY not in "".join(lm.generate(["a b", " a"], 3)), "a text with the key")
        _check(lm.tokens_read >= before, "fewer tokens than before")


def _check(right: bool, what: str) -> None:
    if not right:
        raise AssertionError(f"{what} should have been refused")


def kinds(folder: Path, closing: ExitStack) -> dict[str, tuple[float, object]]:
    """Return the kind "endpoint", its share of the time and its case."""
    return {"endpoint": (SHARE, Hostile(closing).case)}
