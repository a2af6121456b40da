"""A server that means harm: its key echoes, wrong types, huge bodies and headers that drip."""

import gzip
import json
import socket
import threading
import time
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.openai.cleaning import clean_json, without_key
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.schema import Completions, Models, Tokenized

KEY = "sk-ses/ame+0123456789"
BODY = {"model": "tiny", "prompt": [" a b a"], "max_tokens": 2, "temperature": 0}
ONCE = replace(QUICK, attempts=1)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("SERVER_KEY", KEY)


def refused(work):
    with pytest.raises(UserError) as refusal:
        work()
    said = str(refusal.value)
    assert "\n" not in said and len(said) < 500 and KEY not in said
    return said


USAGES = ["many", -5, {"total_tokens": -7}, {"total_tokens": 10**30}, {"total_tokens": "7"}, [1]]


@pytest.mark.parametrize("usage", [*USAGES, {"prompt_tokens": float("nan")}, {"total_tokens": 1.5}], ids=str)
def test_a_usage_that_is_none_is_refused_and_never_lowers_what_was_spent(server, address, usage):
    server.change = lambda path, request, answer: {**answer, "usage": usage}
    client = Client(address, ONCE)
    assert "usage" in refused(lambda: client.post("/completions", BODY, Completions))
    assert client.budget.tokens == 0


@pytest.mark.parametrize("count", [-7, 10**30, "3", True, None, 1.5, [[3]]])
def test_a_count_that_is_none(server, address, count):
    server.change = lambda path, request, answer: {"count": count}
    assert "count is" in refused(lambda: Client(address, ONCE).post("/tokenize", {"prompt": "a"}, Tokenized))


@pytest.mark.parametrize(
    ("logprobs", "said"),
    [
        ({"tokens": [1], "token_logprobs": [-1.0]}, "tokens.0 is '1'"),
        ({"tokens": ["a"], "token_logprobs": ["-1"]}, "token_logprobs.0 is '-1'"),
        ({"tokens": "a", "token_logprobs": [-1.0]}, "tokens is 'a'"),
        ([], "logprobs is"),
    ],
)
def test_tokens_of_other_types(server, address, logprobs, said):
    server.change = lambda path, request, answer: {"choices": [{"index": 0, "logprobs": logprobs}]}
    assert said in refused(lambda: Client(address, ONCE).post("/completions", BODY, Completions))


@pytest.mark.parametrize("body", [b'{"choices": ' + b"[" * 10**5, b'{"a":' * 10**5, b'{"data": "\\ud800"}'])
@pytest.mark.parametrize("status", [200, 400])
def test_nested_json_and_lone_surrogates(server, address, body, status):
    server.faults = [(status, {}, body)]
    refused(lambda: Client(address, ONCE).post("/completions", BODY, Completions))


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_body_is_read_until_it_is_too_large(server, address, encoding):
    body = b" " * (65 * 2**20)
    server.faults = [
        (200, {"content-encoding": encoding}, gzip.compress(body) if encoding == "gzip" else body)
    ]
    assert "more than 64 MiB" in refused(lambda: Client(address, ONCE).get("/models", Models))


def test_headers_that_drip_end_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            connection, _ = listener.accept()
            with connection:
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                    for _ in range(100):
                        connection.sendall(b"x")
                        time.sleep(0.05)
                except OSError:
                    pass

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        began = time.monotonic()
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", replace(ONCE, timeout=0.3))
        assert "no whole answer within 0.3 s" in refused(lambda: client.get("/models", Models))
        assert time.monotonic() - began < 2
        thread.join()


@pytest.mark.parametrize(
    "fault",
    [
        (307, {"location": f"https://elsewhere/v1?key={KEY}"}, b""),
        (307, {"location": "https://elsewhere/v1?key=sk-ses%2Fame%2B0123456789"}, b""),
        (400, {}, b"x" * 190 + KEY.encode() + b"y" * 10**5),
        (429, {"retry-after": KEY}, b""),
        (400, {}, b'{"error": {"message": "\\u0073k-ses\\/ame+0123456789"}}'),
    ],
    ids=["redirect", "percent", "half a key", "retry-after", "escapes"],
)
def test_echoes_of_the_key_are_not_said(server, address, fault):
    server.faults = [fault]
    client = Client(address, replace(ONCE, api_key_env="SERVER_KEY"))
    said = refused(lambda: client.post("/completions", BODY, Completions))
    assert "sk-ses" not in said


def test_echoes_of_the_key_are_in_no_name_and_no_text(server, address, caplog):
    caplog.set_level(0)
    endpoint = replace(ONCE, api_key_env="SERVER_KEY")
    model = {"id": "tiny", "owned_by": KEY + " \n" + "x" * 10**4, "root": KEY, "max_model_len": 9}
    server.change = lambda path, request, answer: {"data": [model]}
    lm = load_lm(f"{address}#tiny", endpoint=endpoint)
    assert KEY not in lm.name and len(lm.name) < 100 and lm.name.isprintable()
    model["id"] = f"a {KEY}"
    assert "cannot be written" in refused(lambda: load_lm(address, endpoint=endpoint))
    refused(lambda: load_lm(f"{address}#other", endpoint=endpoint))
    server.faults = [(200, {"x-echo": KEY}, json.dumps({"choices": [{"text": KEY}]}).encode())]
    answer = Client(address, endpoint).post("/completions", BODY, Completions)
    assert answer.choices[0].text == "***"
    assert KEY not in caplog.text


def test_cleaning_changes_nothing_else():
    numbers = [0.1, -1e-300, 12345678901234567890, None, True, 1 / 3]
    body = json.dumps({"a": numbers, "b": f"é\n\\ {KEY}/"}).encode()
    assert clean_json(body, KEY) == {"a": numbers, "b": "é\n\\ ***/"}
    assert without_key("nothing", None) == "nothing"


def test_a_context_length_that_is_none_is_not_taken(server, address):
    for length in (-7, "9", True, 10**30):
        server.change = lambda path, request, answer, n=length: {"data": [{"id": "tiny", "max_model_len": n}]}
        assert "--endpoint.context-length" in refused(lambda: load_lm(address, endpoint=ONCE))
