"""`serve-lm` withstands large bodies, queues, clients that leave, web pages, and SIGTERM while it computes."""

import json
import socket
import subprocess
import sys
import threading
import time

import httpx2
import pytest
from lm_server import listening

from ceil_jax.cli.server.app import LARGEST, WAITING, create_app
from ceil_jax.cli.server.service import Service
from ceil_jax.lm import TinyLM
from ceil_jax.lm.stopping import check_interrupted

JSON = {"content-type": "application/json"}


class HeldLM(TinyLM):
    """Counts the batches that it generates for, and waits in each until it is let go."""

    def __init__(self):
        super().__init__()
        self.batches, self.go = 0, threading.Event()

    def generate(self, prompts, *arguments, **settings):
        self.batches += 1
        assert self.go.wait(20)
        return super().generate(prompts, *arguments, **settings)


@pytest.fixture
def lm():
    lm = HeldLM()
    yield lm
    lm.go.set()


@pytest.fixture
def lines():
    return []


@pytest.fixture
def base(lm, lines):
    with listening(create_app(Service(lm, "tiny"), log=lines.append)) as address:
        yield address.removesuffix("/v1")
        lm.go.set()


def wait_until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def send(base, body, path="/v1/completions"):
    """Send a request and do not wait for the answer; its connection."""
    host, port = base.removeprefix("http://").split(":")
    content = json.dumps(body).encode()
    connection = socket.create_connection((host, int(port)))
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def test_a_long_request_blocks_neither_models_nor_health_and_the_queue_is_bounded(base, lm, lines):
    held = [send(base, {"prompt": "a b"}) for _ in range(WAITING)]
    wait_until(lambda: lm.batches == 1)
    assert httpx2.get(f"{base}/health", timeout=5).json() == {"status": "ok"}
    assert httpx2.get(f"{base}/v1/models", timeout=5).json()["data"][0]["id"] == "tiny"
    wait_until(lambda: httpx2.post(f"{base}/v1/completions", json={"prompt": 5}).status_code == 429)
    answer = httpx2.post(f"{base}/v1/completions", json={"prompt": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    for connection in held[1:]:
        connection.close()
    # those that left make room at once
    wait_until(lambda: httpx2.post(f"{base}/v1/completions", content=b"{", headers=JSON).status_code == 400)
    lm.go.set()
    assert httpx2.post(f"{base}/v1/completions", json={"prompt": "a"}).status_code == 200
    assert lm.batches == 2
    held[0].close()
    assert any(line.startswith("127.0.0.1 GET /health 200 ") for line in lines)


def test_a_request_whose_client_left_ends_at_the_next_batch(base, lm):
    connection = send(base, {"prompt": ["a b"] * 80})
    wait_until(lambda: lm.batches == 1)
    connection.close()
    # the server reads the end of the connection before it answers this
    wait_until(lambda: httpx2.get(f"{base}/health").status_code == 200)
    time.sleep(0.2)
    lm.go.set()
    assert httpx2.post(f"{base}/v1/completions", json={"prompt": "a"}).status_code == 200
    assert lm.batches == 2


class EndlessLM(TinyLM):
    """Writes tokens until it is interrupted."""

    def __init__(self):
        super().__init__()
        self.written, self.ended = 0, threading.Event()

    def generate(self, prompts, *arguments, **settings):
        if prompts == ["a"]:
            return super().generate(prompts, *arguments, **settings)
        try:
            while True:
                check_interrupted()
                self.written += 1
                time.sleep(0.01)
        finally:
            self.ended.set()


def test_a_text_whose_client_left_ends_at_the_next_token():
    lm = EndlessLM()
    with listening(create_app(Service(lm, "tiny"), log=lambda line: None)) as address:
        base = address.removesuffix("/v1")
        connection = send(base, {"prompt": "an endless story"})
        wait_until(lambda: lm.written > 2)
        connection.close()
        assert lm.ended.wait(5)
        assert httpx2.post(f"{base}/v1/completions", json={"prompt": "a"}).status_code == 200


def test_a_body_that_is_too_large(base):
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {LARGEST + 1}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")

    def pieces():
        for _ in range(9):
            yield b" " * 2**20

    try:
        answer = httpx2.post(f"{base}/v1/completions", content=pieces(), headers=JSON)
    except httpx2.WriteError:  # the server closes the connection while the rest is sent
        return
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/completions", b'{"prompt": ' + b"[" * 10**5),
        ("/v1/completions", b'{"prompt": "\\ud800"}'),
        ("/tokenize", b'{"prompt": ["a", "b"]}'),
        ("/v1/completions", b"\xff"),
        ("/v1/chat/completions", b'{"messages": [{"role": 5, "content": "a"}]}'),
    ],
)
def test_bodies_that_were_answered_with_500(base, lm, path, content):
    lm.go.set()
    answer = httpx2.post(base + path, content=content, headers=JSON)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]["message"]


def test_a_web_page_cannot_ask(base, lm):
    lm.go.set()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"content-type": kind, "origin": "https://evil.example"}
        answer = httpx2.post(f"{base}/v1/completions", content=b'{"prompt": "a"}', headers=headers)
        assert answer.status_code == 415
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"):
        answer = httpx2.post(f"{base}/v1/completions", json={"prompt": "a"}, headers={"host": host})
        assert answer.status_code == 403
    for host in ("localhost", "LOCALHOST:8000", "[::1]:8000", "127.0.0.1"):
        answer = httpx2.post(f"{base}/v1/completions", json={"prompt": "a"}, headers={"host": host})
        assert answer.status_code == 200


def test_behind_a_key_any_host_is_right():
    with listening(create_app(Service(TinyLM(), "tiny"), "sesame")) as address:
        headers = {"host": "llm.example", "authorization": "Bearer sesame"}
        assert httpx2.get(f"{address}/models", headers=headers).status_code == 200


def test_a_stream_is_one_event_and_a_chat_has_its_own_limit(base, lm):
    lm.go.set()
    body = {"messages": [{"role": "user", "content": "a b a b a"}], "temperature": 0, "stream": True}
    answer = httpx2.post(f"{base}/v1/chat/completions", json={**body, "max_completion_tokens": 2})
    assert answer.headers["content-type"].startswith("text/event-stream")
    event, end, rest = answer.text.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    chunk = json.loads(event.removeprefix("data: "))
    assert chunk["object"] == "chat.completion.chunk"
    assert chunk["choices"][0]["delta"]["content"] == " b a"


SLOW = """
import sys, time
from ceil_jax.lm.tiny import TinyLM
def generate(self, prompts, *arguments, **settings):
    print("computing", flush=True)
    time.sleep(60)
TinyLM.generate = generate
from ceil_jax.cli.main import main
sys.exit(main(["serve-lm", "--lm", "tiny", "--port", "0"]))
"""


def test_sigterm_ends_the_command_within_5_seconds_while_it_computes():
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            base = server.stdout.readline().partition("at ")[2].partition("/v1#")[0]
            with send(base, {"prompt": "a"}):
                assert server.stdout.readline() == "computing\n"
                server.terminate()
                began = time.monotonic()
                server.wait(10)
                assert time.monotonic() - began < 5
            assert "Traceback" not in server.stderr.read()
        finally:
            server.kill()
