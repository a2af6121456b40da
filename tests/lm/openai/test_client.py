"""Requests to a server: what is tried again, what is said, what is never said."""

import asyncio
import gzip
import json
import math
import socket
import threading
import time
from dataclasses import replace

import pytest
from lm_server import QUICK, Server, listening

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.client import HINTS, Client
from ceil_jax.lm.openai.served import served_model

KEY = "sk-sesame-0123456789"
BUSY = (503, {}, b'{"error": {"message": "loading"}}')
BODY = {"model": "tiny", "prompt": [" a b a"], "max_tokens": 2, "temperature": 0}

pytestmark = pytest.mark.usefixtures("waits")


def texts(answer):
    return [choice["text"] for choice in answer["choices"]]


def post(client, **changes):
    return client.ask("/completions", BODY | changes, texts)


def message(client, work=post):
    with pytest.raises(UserError) as refusal:
        work(client)
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
        (409, {}, b"{}"),
        "drop",
    ],
    ids=str,
)
def test_what_passes_is_tried_again(server, address, fault):
    server.faults = [fault, fault]
    assert post(Client(address, QUICK)) == [" b a"]
    assert len(server.requests) == 3


def test_a_limit_of_requests_is_waited_for_two_minutes_long(server, address, waits, caplog):
    limit = (429, {}, b'{"error": {"message": "come back in a minute"}}')
    server.faults = [limit, limit, (429, {"retry-after": "7"}, b""), *[limit] * 16]
    assert post(Client(address, QUICK)) == [" b a"]
    # the openai package's waits: 0.5 s doubled up to 8, less up to a quarter
    longest = [0.5, 1, 7, 4, *[8] * 15]
    assert len(waits) == 19
    assert waits[2] == 7
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert sum(waits) > 90
    assert caplog.text.count("HTTP 429; waiting for the limit to pass") == 1
    server.faults = [limit] * 20
    assert message(Client(address, QUICK)).endswith(
        f"HTTP 429: come back in a minute. {HINTS[429]}"
    )


def test_giving_up_says_why_and_what_is_kept(server, address):
    server.faults = [BUSY] * 6
    assert message(Client(address, replace(QUICK, attempts=6))) == (
        f"{address}/completions: HTTP 503: loading. Finished work is kept: run the same command "
        "again once the server answers"
    )
    assert len(server.requests) == 6


@pytest.mark.parametrize("status", [307, 400, 401, 403, 404, 413, 418, 422])
def test_a_refusal_is_the_servers_own_words_and_one_hint(server, address, status):
    server.faults = [(status, {}, b'{"error": {"message": "two\\nlines"}}')]
    said = message(Client(address, QUICK))
    begins = f"{address}/completions: HTTP {status}: two lines. "
    assert said.startswith(begins)
    hints = {307: "The server has moved: give its new address", 418: HINTS[400]}
    assert said.removeprefix(begins) == (HINTS | hints)[status]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no such model", "code": 7}}', "no such model"),
        (b'{"message": "no route"}', "no route"),
        (b'{"errors": ["no quota"]}', '{"errors": ["no quota"]}'),
        (b'[{"error": {"message": "odd"}}]', '[{"error": {"message": "odd"}}]'),
        (b"<html><title>403 Forbidden</title></html>", "<html><title>403 Forbidden</title></html>"),
        (b'{"error": {"message": ""}}', '{"error": {"message": ""}}'),
        (b"", "no message"),
        (b"[" * 900 + b"]" * 900, "[" * 500),
        (b"<html>" + b"<script" * 200_000, ("<html>" + "<script" * 80)[:500]),
    ],
    ids=lambda value: value[:30],
)
def test_what_an_error_says_is_shown_as_it_is(server, address, body, said):
    server.faults = [(400, {}, body)]
    assert message(Client(address, QUICK)) == (
        f"{address}/completions: HTTP 400: {said}. {HINTS[400]}"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<!doctype html><title>Welcome</title>", "not JSON: <!doctype html><title>Welcome"),
        (b'{"choices": [{"index": 0, "te', 'not JSON: {"choices"'),
        (b"", "not JSON: nothing"),
        (b"[" * 200_000, "not JSON: [["),
        (b"[]", "does not follow"),
        (b"null", "does not follow"),
        (b'{"error": "no such engine"}', 'no \'choices\' in the answer, {"error": "no such engine'),
        (b'{"code": 500, "msg": "404 NOT_FOUND"}', "404 NOT_FOUND"),
        (b'{"choices": {"0": 1}}', "does not follow"),
        (b'{"choices": [], "usage": [7]}', "does not follow"),
        (b'{"choices": [], "usage": {"total_tokens": Infinity}}', "does not follow"),
        (b'{"choices": [], "usage": {"total_tokens": 1e300}}', "does not follow"),
        (b'{"choices": [], "usage": {"total_tokens": -1}}', "does not follow"),
        (b'{"choices": [], "usage": {"total_tokens": ' + b"9" * 4000 + b"}}", "does not follow"),
    ],
    ids=lambda value: value[:30],
)
def test_an_answer_of_another_form_is_refused(server, address, body, said):
    server.faults = [(200, {}, body)]
    assert said in message(Client(address, QUICK))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize(
    "error",
    [{"message": KEY}, KEY, [KEY], {"message": "x" * 490 + KEY}, {"detail": [{"x": KEY}]}],
    ids=str,
)
def test_no_message_has_the_key(monkeypatch, server, address, status, error, caplog):
    caplog.set_level(0)
    monkeypatch.setenv("SERVER_KEY", KEY + "\n")
    client = Client(address, replace(QUICK, api_key_env="SERVER_KEY", attempts=1))
    server.faults = [(status, {}, json.dumps({"error": error}).encode())]
    said = message(client)
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    for text in (said, repr(client), caplog.text):
        assert KEY[:10] not in text


def test_an_answer_that_repeats_the_key_is_read_without_it(monkeypatch, server, address):
    monkeypatch.setenv("SERVER_KEY", KEY)
    server.change = lambda path, request, answer: {"choices": [{"text": f"yes, {KEY}"}]}
    settings = replace(QUICK, api_key_env="SERVER_KEY")
    assert post(Client(address, settings)) == ["yes, ***"]
    # a word of the answer is not a key
    monkeypatch.setenv("SERVER_KEY", "yes")
    assert post(Client(address, settings)) == [f"yes, {KEY}"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(monkeypatch, server, address, status):
    monkeypatch.setenv("SERVER_KEY", KEY)
    other = Server()
    with listening(other) as elsewhere:
        server.faults = [(status, {"location": f"{elsewhere}/completions"}, b"moved")] * 2
        settings = replace(QUICK, api_key_env="SERVER_KEY", headers=("api-key=$SERVER_KEY",))
        assert "The server has moved" in message(Client(address, settings))
    assert other.requests == []


def test_what_the_environment_says_of_another_server_is_not_sent(monkeypatch, server, address):
    monkeypatch.setenv("SERVER_KEY", KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "others-secret")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: others-secret\nX-Team: others-secret"
    )
    post(Client(address, QUICK))
    assert "authorization" not in server.headers[-1]
    post(Client(address, replace(QUICK, api_key_env="SERVER_KEY")))
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert "others-secret" not in str(server.headers)


@pytest.mark.parametrize("value", [None, "", "two words", "naïve"])
def test_a_key_that_is_none(monkeypatch, value):
    monkeypatch.delenv("SERVER_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SERVER_KEY", value)
    for settings in ({"api_key_env": "SERVER_KEY"}, {"headers": ("api-key=$SERVER_KEY",)}):
        with pytest.raises(UserError, match="environment variable SERVER_KEY") as refusal:
            Client("http://127.0.0.1:1/v1", replace(QUICK, **settings))
        assert not value or value not in str(refusal.value)


@pytest.mark.parametrize("given", ["sk-abc", "$MY_KEY", "gsk_Ab1xxxxxxxxxxxxxxxxxxxx"])
def test_a_key_in_place_of_its_variable_is_not_repeated(given):
    with pytest.raises(UserError, match="takes the name of an environment variable") as refusal:
        Client("http://127.0.0.1:1/v1", replace(QUICK, api_key_env=given))
    assert given not in str(refusal.value)


def test_headers_and_fields_that_a_server_wants_besides(monkeypatch, server, address):
    monkeypatch.setenv("SERVER_KEY", KEY)
    settings = replace(
        QUICK,
        headers=("X-Team=search=1", "api-key=$SERVER_KEY"),
        fields=("temperature=null", "service_tier=flex", "top_k=5", 'stop=["x", "y"]'),
    )
    assert "sesame" not in repr(settings)
    client = Client(address, settings)
    server.faults = [(400, {}, f"no {KEY}".encode())]
    assert "HTTP 400: no ***." in message(client)
    assert server.headers[-1]["x-team"] == "search=1"
    assert server.headers[-1]["api-key"] == KEY
    expected = BODY | {"service_tier": "flex", "top_k": 5, "stop": ["x", "y"]}
    del expected["temperature"]
    assert server.requests[-1][1] == expected


@pytest.mark.parametrize("flag", ["headers", "fields"])
@pytest.mark.parametrize("given", ["sesame", "=sesame", "a b=sesame", "a=", "a=sesame\n"])
def test_a_pair_without_a_name_or_a_value_is_refused(flag, given):
    with pytest.raises(UserError, match=rf"--endpoint.{flag} takes NAME=VALUE") as refusal:
        replace(QUICK, **{flag: ("ok=1", given)})
    assert "number 2" in str(refusal.value)
    assert "sesame" not in str(refusal.value)


def test_half_a_character_is_not_sent(server, address):
    said = message(Client(address, QUICK), lambda client: post(client, prompt=["a\ud800b"]))
    assert r"a text has '\ud800', one half of a character" in said
    assert server.requests == []


@pytest.mark.parametrize("where", ["headers", "body"])
def test_what_drips_ends_at_the_deadline(where):
    """A byte every 20 ms, each of them within the time of a single read."""
    beginning = b"HTTP/1.1 200 OK\r\n" + (b"" if where == "headers" else b"\r\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(beginning)
                try:
                    for _ in range(500):
                        connection.sendall(b"x")
                        time.sleep(0.02)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        port = listener.getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}/v1", replace(QUICK, timeout=0.2))
        began = time.monotonic()
        assert "no whole answer within 0.4 s; --endpoint.timeout allows more" in message(client)
        assert time.monotonic() - began < 5


def test_a_server_that_is_silent_is_asked_again(server, address):
    silent = threading.Event()

    def change(path, request, answer):
        if len(server.requests) == 1:
            silent.wait(5)
        return answer

    server.change = change
    assert post(Client(address, replace(QUICK, timeout=0.5))) == [" b a"]
    silent.set()
    assert len(server.requests) == 2


def test_a_server_that_stays_silent_is_told(server, address, waits):
    server.change = lambda path, request, answer: time.sleep(0.5) or answer
    said = message(Client(address, replace(QUICK, timeout=0.3, attempts=1)))
    assert "no sign of an answer, at each of 1 attempts (ReadTimeout)" in said


def test_a_server_that_is_not_there_is_told(waits):
    said = message(Client("http://127.0.0.1:1/v1", QUICK), lambda client: served_model(client, "m"))
    assert "http://127.0.0.1:1/v1/models: the connection failed (" in said
    assert "is the server running there, and is it http?" in said
    # an address with a mistake is told soon
    assert len(waits) == 2


def test_https_to_a_server_without_it(address):
    said = message(Client(address.replace("http:", "https:"), replace(QUICK, attempts=1)))
    assert "is the server running there, and is it https?" in said


def test_requests_go_through_the_proxy_of_the_environment(monkeypatch, server, address):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", address.removesuffix("/v1"))
    server.faults = [(200, {}, b'{"choices": []}')]
    assert post(Client("http://llm.invalid/v1", QUICK)) == []
    monkeypatch.setenv("NO_PROXY", "llm.invalid")
    assert "the connection failed" in message(
        Client("http://llm.invalid/v1", replace(QUICK, attempts=1))
    )


@pytest.mark.parametrize(
    "proxy", ["socks4://127.0.0.1:1", "gopher://127.0.0.1:1", "http://me:secret", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_ends_in_one_line(monkeypatch, proxy):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match="put the host into NO_PROXY") as refusal:
        Client("http://llm.invalid/v1", QUICK)
    assert "secret" not in str(refusal.value)


def test_no_more_at_once_than_the_limit(server, address):
    together = threading.Barrier(3)

    def held(path, request, answer):
        together.wait(30)
        return answer

    server.change = held
    client = Client(address, replace(QUICK, concurrency=3))
    asked = [(BODY | {"prompt": [f" {i} {i}"]}, texts) for i in range(12)]
    assert client.ask_all("/completions", asked) == [[f" {i}" * 2] for i in range(12)]
    assert server.most_at_once <= 3


def test_the_first_failure_ends_the_others(server, address):
    client = Client(address, replace(QUICK, concurrency=1))
    server.faults = [None, (400, {}, b"no")]
    with pytest.raises(UserError, match="HTTP 400: no"):
        client.ask_all("/completions", [(BODY, texts)] * 20)
    # the third may have been on its way
    assert len(server.requests) <= 3


def test_the_budget_of_requests_counts_retries(server, address):
    client = Client(address, replace(QUICK, max_requests=3))
    server.faults = [BUSY]
    post(client)
    post(client)
    assert message(client) == (
        f"{address}: the budget of requests is spent (3 requests, 10 tokens); finished work is "
        "kept: raise --endpoint.max-requests and run the same command again"
    )
    server.clear()
    server.faults = [BUSY] * 9
    assert "the budget of requests is spent (3 req" in message(
        Client(address, replace(QUICK, max_requests=3))
    )
    assert len(server.requests) == 3


def test_the_budget_of_tokens_stops_what_has_not_begun(server, address):
    client = Client(address, replace(QUICK, concurrency=1, max_tokens=12))
    # three tokens read and two written a request
    with pytest.raises(UserError, match=r"the budget of tokens is spent \(3 requests, 15 tokens\)"):
        client.ask_all("/completions", [(BODY, texts)] * 50)
    assert len(server.requests) == 3


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"total_tokens": None}}])
def test_tokens_that_are_not_stated_are_estimated_and_that_is_said_once(
    server, address, caplog, usage
):
    server.change = lambda path, request, answer: {"choices": answer["choices"], **usage}
    client = Client(address, QUICK)
    post(client)
    post(client)
    [answered] = {json.dumps(server.answer("/v1/completions", BODY)[1])}
    assert client.tokens == 2 * math.ceil((len(json.dumps(BODY)) + len(answered)) / 4)
    assert caplog.text.count("does not state its usage") == 1


def test_the_usage_is_the_whole_or_its_two_parts(server, address):
    for usage in ({"total_tokens": "12"}, {"prompt_tokens": 7, "completion_tokens": 5}):
        server.change = lambda path, request, answer, usage=usage: answer | {"usage": usage}
        post(client := Client(address, QUICK))
        assert client.tokens == 12


@pytest.mark.parametrize(
    ("models", "length"),
    [
        ({"data": [{"id": "m", "max_model_len": 9}]}, 9),
        ({"data": [{"id": "m", "context_length": 9}], "error": None}, 9),
        ({"data": [{"id": "m", "meta": {"n_ctx": 9, "n_ctx_train": 99}}]}, 9),
        *(
            ({"data": [{"id": "m", "max_model_len": odd}]}, None)
            for odd in ("9", -7, 0, True, 1e30, float("inf"), [], None)
        ),
        ([{"id": "m", "max_model_len": 9}], None),
        ((404, {"detail": "Not Found"}), None),
        ((403, {}), None),
        ({"models": []}, None),
        ({"data": [{"id": 7}, {"id": None}]}, None),
    ],
    ids=str,
)
def test_lists_of_models(server, address, models, length):
    server.change = lambda path, request, answer: models
    served = served_model(Client(address, QUICK), "m")
    assert (served.model, served.context_length) == ("m", length)


def test_without_a_list_of_models_one_is_named(server, address):
    server.change = lambda path, request, answer: (404, {})
    with pytest.raises(UserError, match=r"no models; name one, as in http.*/v1#model-name"):
        served_model(Client(address, QUICK), None)
    server.change = lambda path, request, answer: (401, {})
    with pytest.raises(UserError, match="HTTP 401"):
        served_model(Client(address, QUICK), "m")


def test_work_is_given_as_it_ends_and_nothing_that_was_answered_is_lost():
    client = Client("http://127.0.0.1:1/v1", replace(QUICK, concurrency=3))
    third_ended = threading.Event()

    def work(number):
        if number == 0:
            third_ended.wait(10)
            raise UserError("the server is gone")
        if number == 2:
            third_ended.set()
        return number

    given = []
    with pytest.raises(UserError, match="the server is gone"):
        for number, result in client.each(work, range(50)):
            assert number == result
            given.append(number)
    assert {1, 2} <= set(given)
    assert len(given) < 50


def test_whoever_stops_reading_ends_what_is_asked(server, address):
    client = Client(address, replace(QUICK, concurrency=2))
    held = threading.Event()

    def change(path, request, answer):
        if request["prompt"] == [" held"]:
            held.wait(60)
        return answer

    server.change = change
    results = client.each(lambda text: post(client, prompt=[text]), [" a b a", *[" held"] * 9])
    assert next(results) == (0, [" b a"])
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 30
    held.set()
    assert len(server.requests) < 5


def test_each_worker_sees_the_tokens_of_its_own_work(server, address):
    client = Client(address, replace(QUICK, concurrency=4))

    def tokens_of(repetitions):
        before = client.tokens_read
        for _ in range(repetitions):
            post(client)
        return client.tokens_read - before

    # three tokens read and two written a request
    assert dict(client.each(tokens_of, [1, 2, 3, 4])) == {0: 5, 1: 10, 2: 15, 3: 20}
    assert client.tokens_read == 50


def test_a_caller_may_have_an_event_loop(server, address):
    """As a notebook does."""

    async def cell():
        return post(Client(address, QUICK))

    assert asyncio.run(cell()) == [" b a"]


def test_packed_answers_and_byte_order_marks(server, address):
    body = b'\xef\xbb\xbf{"choices": [{"text": "good"}], "usage": {"total_tokens": 1}}'
    for headers, sent in (({}, body), ({"content-encoding": "gzip"}, gzip.compress(body))):
        server.faults = [(200, {"content-type": "application/json", **headers}, sent)]
        assert post(Client(address, QUICK)) == ["good"]
