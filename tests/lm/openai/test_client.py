"""A server that fails in every way we know of: what is tried again, what is said, what is never said."""

import json
import socket
import threading
from dataclasses import replace

import pytest
from lm_server import QUICK, Server, listening

from ceil_jax.cli.serve_lm import Service
from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.lm.openai.client import Client

KEY = "sk-sesame-0123456789"
BUSY = (503, {}, b'{"error": {"message": "loading"}}')
BODY = {"model": "tiny", "prompt": [" a b a"], "max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def server():
    return Server(Service(TinyLM(), "tiny"))


@pytest.fixture(scope="module")
def address(server):
    with listening(server) as address:
        yield address


@pytest.fixture(autouse=True)
def well(server):
    server.clear()


class Waits(list):
    """What a client waited, instead of waiting."""

    def __call__(self, seconds):
        self.append(seconds)


def message(client, path="/completions"):
    with pytest.raises(UserError) as refusal:
        client.post(path, BODY)
    text = str(refusal.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "fault",
    [
        BUSY,
        (500, {}, b"<html>broken</html>"),
        (502, {}, b""),
        (429, {"retry-after": "0.01"}, b'{"error": {"message": "slow down"}}'),
        (408, {}, b"{}"),
        (200, {}, b'{"choices": [{"index": 0, "te'),
        (200, {}, b""),
        "drop",
    ],
    ids=str,
)
def test_what_passes_is_tried_again(server, address, fault):
    server.faults = [fault, fault]
    answer = Client(address, QUICK).post("/completions", BODY)
    assert answer["choices"][0]["text"] == " b a"
    assert len(server.requests) == 3


def test_a_slow_body_ends_at_the_deadline(server, address):
    server.faults = ["slow"]
    client = Client(address, replace(QUICK, timeout=0.2))
    assert client.post("/completions", BODY)["choices"][0]["text"] == " b a"
    server.faults = ["slow"]
    assert "no whole answer within 0.2 s; given up after 1 attempts" in message(
        Client(address, replace(QUICK, timeout=0.2, attempts=1))
    )


def test_waits_double_with_jitter_and_retry_after_goes_first(server, address):
    server.faults = [BUSY, BUSY, BUSY, (429, {"retry-after": "7"}, b""), BUSY]
    waits = Waits()
    Client(address, replace(QUICK, back_off=1.0), wait=waits).post("/completions", BODY)
    longest = [1, 2, 4, 8, 16]
    assert len(waits) == 5
    assert all(most / 2 <= wait <= most for wait, most in zip(waits[:3], longest[:3], strict=True))
    assert 7 <= waits[3] <= 8
    assert waits[:3] != longest[:3]


def test_a_date_in_retry_after_that_has_passed_does_not_wait(server, address):
    server.faults = [(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"")]
    waits = Waits()
    Client(address, QUICK, wait=waits).post("/completions", BODY)
    assert waits == [pytest.approx(0.00075, abs=0.0003)]


def test_giving_up_says_why_and_what_is_kept(server, address):
    server.faults = [BUSY] * 6
    assert message(Client(address, QUICK)) == (
        f"{address}/completions: HTTP 503: loading; given up after 6 attempts. Finished work is kept: run the "
        "same command again once the server answers"
    )
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ((400, {}, b'{"error": {"message": "prompt too long"}}'), "HTTP 400: prompt too long"),
        ((401, {}, b'{"message": "who are you?"}'), "HTTP 401: who are you?"),
        ((404, {}, b'{"detail": "Not Found"}'), "HTTP 404: Not Found"),
        ((422, {}, b"two\nlines"), "HTTP 422: two lines"),
        ((307, {"location": "https://elsewhere/v1"}, b""), "redirects to https://elsewhere/v1"),
        ((200, {}, b"<!doctype html><title>Welcome</title>"), "a web page, not JSON"),
        ((200, {}, b"[]"), "expected a JSON object"),
        ((200, {}, b'{"error": "no such engine"}'), "no such engine"),
        ((429, {"retry-after": "86400"}, b""), "asks to come back after 86,400 s"),
    ],
    ids=str,
)
def test_what_does_not_pass_is_said_at_once(server, address, fault, said):
    server.faults = [fault]
    assert said in message(Client(address, QUICK))
    assert len(server.requests) == 1


def test_connections_dropped_before_an_answer():
    """The first three are closed unread; the fourth is answered."""
    answer = json.dumps({"choices": [], "usage": {"total_tokens": 3}}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for turn in range(5):
                connection, _ = listener.accept()
                with connection:
                    if turn in (0, 4):
                        connection.recv(2**16)
                        head = (
                            f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
                        )
                        connection.sendall(head.encode() + answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", QUICK)
        client.get("/models")
        assert client.post("/completions", {})["choices"] == []
        thread.join()


def test_nobody_there_is_said_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    waits = Waits()
    assert "is the server running there?" in message(Client(f"http://127.0.0.1:{port}/v1", QUICK, wait=waits))
    assert waits == []


def test_no_more_at_once_than_the_limit(server, address):
    client = Client(address, replace(QUICK, concurrency=3))
    answers = client.map(
        lambda i: client.post("/completions", BODY | {"prompt": f" {i} {i}"}), range(20), "x"
    )
    assert [answer["choices"][0]["text"] for answer in answers] == [f" {i}" * 2 for i in range(20)]
    assert server.most_at_once <= 3


def test_budget_of_requests_counts_retries(server, address):
    client = Client(address, replace(QUICK, max_requests=3))
    server.faults = [BUSY]
    client.post("/completions", BODY)
    client.post("/completions", BODY)
    assert "the budget of requests is spent (3 of 3 requests, 10 tokens)" in message(client)
    assert "--endpoint.max-requests" in message(client)
    assert len(server.requests) == 3


def test_budget_of_tokens_stops_what_has_not_begun(server, address):
    client = Client(address, replace(QUICK, concurrency=1, max_tokens=12))
    # three tokens read and two written a request
    with pytest.raises(UserError, match=r"the budget of tokens is spent \(3 requests, 15 of 12 tokens\)"):
        client.map(lambda _: client.post("/completions", BODY), range(50), "x")
    assert len(server.requests) == 3


def test_a_budget_of_tokens_needs_their_count(server, address):
    server.change = lambda path, request, answer: {k: v for k, v in answer.items() if k != "usage"}
    assert "does not state its usage" in message(Client(address, replace(QUICK, max_tokens=10)))
    Client(address, QUICK).post("/completions", BODY)


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch, server, address, caplog):
    caplog.set_level(0)
    monkeypatch.setenv("SERVER_KEY", KEY + "\n")
    client = Client(address, replace(QUICK, api_key_env="SERVER_KEY"))
    said = [repr(client), str(vars(client).get("_config"))]
    server.faults = [(401, {}, f"bad key {KEY}".encode())]
    said.append(message(client))
    server.faults = [(500, {}, f"bad key {KEY}".encode())] * 6
    said.append(message(client))
    assert "bad key ***" in said[-1]
    assert server.headers[-1][b"authorization"] == f"Bearer {KEY}".encode()
    assert not [text for text in [*said, caplog.text] if KEY in text]


@pytest.mark.parametrize("value", [None, "", "two words", "naïve"])
def test_a_key_that_is_none(monkeypatch, value):
    monkeypatch.delenv("SERVER_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SERVER_KEY", value)
    with pytest.raises(UserError, match="environment variable SERVER_KEY") as refusal:
        Client("http://127.0.0.1:1/v1", replace(QUICK, api_key_env="SERVER_KEY"))
    assert not value or value not in str(refusal.value)
