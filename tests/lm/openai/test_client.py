"""A server that fails in every way we know of: what is tried again, what is said, what is never
said."""

import doctest
import gzip
import json
import socket
import threading
import time
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm.openai import client as client_module
from ceil_jax.lm.openai import events, http
from ceil_jax.lm.openai.address import parse_address
from ceil_jax.lm.openai.client import Client

KEY = "sk-sesame-0123456789"
BUSY = (503, {}, b'{"error": {"message": "loading"}}')
BODY = {"model": "tiny", "prompt": [" a b a"], "max_tokens": 2, "temperature": 0}


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that clients would have waited between attempts; nobody waits."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def client_of(address, config=QUICK):
    return Client(parse_address(address), config)


def post(client, **changes):
    """The texts of an answer."""
    return client.post(
        "/completions",
        BODY | changes,
        lambda answer: [choice["text"] for choice in answer["choices"]],
    )


def message(client):
    with pytest.raises(UserError) as refusal:
        post(client)
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
        (200, {}, b'{"choices": [{"index": 0, "te'),
        (200, {}, b""),
        "drop",
    ],
    ids=str,
)
def test_what_passes_is_tried_again(server, address, fault):
    server.faults = [fault, fault]
    assert post(client_of(address, QUICK)) == [" b a"]
    assert len(server.requests) == 3


def test_a_slow_body_ends_at_the_deadline(server, address):
    server.faults = ["slow"]
    client = client_of(address, replace(QUICK, timeout=0.2))
    assert post(client) == [" b a"]
    server.faults = ["slow"]
    once = client_of(address, replace(QUICK, timeout=0.2, attempts=1))
    assert "no whole answer within 0.2 s. Given up" in message(once)


def test_waits_grow_and_retry_after_goes_first(server, address, waits):
    server.faults = [BUSY, BUSY, (429, {"retry-after": "7"}, b""), "drop"]
    post(client_of(address, QUICK))
    # the openai package's: 0.5 s doubled, less up to a quarter of it
    longest = [0.5, 1, 7, 4]
    assert len(waits) == 4
    assert waits[2] == 7
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, longest, strict=True))


def test_giving_up_says_why_and_what_is_kept(server, address):
    server.faults = [BUSY] * 6
    assert message(client_of(address, QUICK)) == (
        f"{address}/completions: HTTP 503: loading. Given up; finished work is kept: run the same "
        "command again once the server answers"
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
        ((200, {}, b"[]"), "does not keep to the interface"),
        ((200, {}, b'{"error": "no such engine"}'), "no such engine"),
        ((429, {"retry-after": "86400"}, b""), "it asks to come back after 86400"),
        ((503, {"retry-after": "Wed, 21 Oct 2065 07:28:00 GMT"}, b""), "come back after Wed"),
    ],
    ids=str,
)
def test_what_does_not_pass_is_said_at_once(server, address, fault, said):
    server.faults = [fault]
    assert said in message(client_of(address, QUICK))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"errors": [{"code": 7003, "message": "No route"}], "messages": []}', "No route (7003)"),
        ('{"errors": ["no quota", "no model"]}', "no quota; no model"),
        ('{"fault": {"faultstring": "Spike arrest", "detail": {"errorcode": "p.Spike"}}}',
         "Spike arrest"),
        ('{"detail": [{"loc": ["body", "n"], "msg": "Field required", "type": "missing"}]}',
         "Field required (body.n)"),
        ('{"error": "invalid_request", "error_description": "no such app"}', "no such app"),
        ('{"status": 404, "error": "Not Found", "message": "", "path": "/v1"}', "Not Found"),
        ('{"error": "Not Found", "message": "No static resource v1."}', "No static resource v1."),
        ('{"error": {"code": "unsupported_country"}}', '"code": "unsupported_country"'),
        ('{"error": {"message": "Provider returned error", "code": 400, "metadata": '
         '{"raw": "{\\"detail\\": \\"prompt is odd\\"}"}}}',
         "Provider returned error: prompt is odd (400)"),
        ('[{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID"}}]',
         "API key not valid. (400)"),
        ('{"Message": "no access"}', "no access"),
        ('{"error": {"message": "", "inner": {"why": "odd"}}}', '"why": "odd"'),
        ("<html><head><title>403 Forbidden</title></head><body><h1>no</h1></body></html>",
         "a web page, 403 Forbidden"),
        ("<?xml version='1.0'?><Error><Code>Denied</Code></Error>", "a web page, Denied"),
        ('"plain"', "plain"),
        ("", "no message"),
        ("{}", "no message"),
        ("null", "no message"),
    ],
)  # fmt: skip
def test_what_an_error_says_is_said_whatever_its_form(server, address, body, said):
    server.faults = [(400, {}, body.encode())]
    url = f"{address}/completions: HTTP 400: "
    whole = message(client_of(address, QUICK))
    assert whole.startswith(url)
    assert said in whole
    assert whole.endswith(said) or "{" in whole


@pytest.mark.parametrize(
    "body",
    [
        {"code": 500, "msg": "404 NOT_FOUND", "success": False},
        {"detail": "404 NOT_FOUND"},
        {"errors": [{"message": "404 NOT_FOUND"}]},
    ],
)
def test_an_error_with_a_status_of_success_is_shown(server, address, body):
    server.faults = [(200, {}, json.dumps(body).encode())]
    assert "no 'choices' in the answer, 404 NOT_FOUND" in message(client_of(address, QUICK))


def test_a_server_that_cannot_be_reached_is_tried_again_if_it_was_there(waits):
    """It answers once and then closes its port, as a server that restarts."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = client_of(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", QUICK)
        client.post("/models", {}, str)
        thread.join()
    assert "the connection failed" in (said := message(client))
    assert "Given up" in said
    assert len(waits) == 5
    assert "is the server running there?" in message(client_of(client.base, QUICK))
    assert len(waits) == 5


def test_requests_go_through_the_proxy_of_the_environment(monkeypatch, server, address):
    monkeypatch.setenv("HTTP_PROXY", address.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.faults = [(200, {}, b'{"choices": []}')]
    assert post(client_of("http://llm.invalid/v1", QUICK)) == []
    assert server.headers[-1]["host"] == "llm.invalid"


def test_after_a_failure_nothing_more_is_sent_and_the_client_can_be_used_again(server, address):
    client = client_of(address, replace(QUICK, concurrency=2, attempts=1))
    server.faults = [(400, {}, b"no")]
    with pytest.raises(UserError, match="HTTP 400: no"):
        client.map(lambda _: post(client), range(200), "x")
    assert len(server.requests) < 200
    assert len(client.map(lambda _: post(client), range(3), "x")) == 3


def test_no_more_at_once_than_the_limit(server, address):
    client = client_of(address, replace(QUICK, concurrency=3))
    answers = client.map(lambda i: post(client, prompt=[f" {i} {i}"]), range(20), "x")
    assert answers == [[f" {i}" * 2] for i in range(20)]
    assert server.most_at_once <= 3


def test_budget_of_requests_counts_retries(server, address):
    client = client_of(address, replace(QUICK, max_requests=3))
    server.faults = [BUSY]
    post(client)
    post(client)
    assert "the budget of requests is spent (3 of 3 requests, 10 tokens)" in message(client)
    assert "--endpoint.max-requests" in message(client)
    assert len(server.requests) == 3


def test_budget_of_tokens_stops_what_has_not_begun(server, address):
    client = client_of(address, replace(QUICK, concurrency=1, max_tokens=12))
    # three tokens read and two written a request
    with pytest.raises(
        UserError, match=r"the budget of tokens is spent \(3 requests, 15 of 12 tokens\)"
    ):
        client.map(lambda _: post(client), range(50), "x")
    assert len(server.requests) == 3


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"total_tokens": None}}])
def test_tokens_that_are_not_stated_are_estimated_and_that_is_said_once(
    server, address, caplog, usage
):
    server.change = lambda path, request, answer: {"choices": answer["choices"], **usage}
    client = client_of(address, replace(QUICK, max_tokens=6))
    # " a b a" and " b a": 6 and 4 bytes, which are 2 tokens and 1
    post(client)
    post(client)
    assert client.budget.tokens == 2 * (2 + 1)
    assert caplog.text.count("does not state its usage") == 1
    assert "the budget of tokens is spent (2 requests, 6 of 6 tokens)" in message(client)


@pytest.mark.parametrize(
    "usage", [{"total_tokens": "12 tokens"}, {"total_tokens": float("nan")}, {"prompt_tokens": -1}]
)
def test_a_usage_that_is_no_number_is_refused(server, address, usage):
    server.change = lambda path, request, answer: answer | {"usage": usage}
    assert "the server does not keep to the interface" in message(client_of(address, QUICK))
    server.change = lambda path, request, answer: answer | {"usage": {"total_tokens": "12"}}
    post(client := client_of(address, QUICK))
    assert client.budget.tokens == 12


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch, server, address, caplog):
    caplog.set_level(0)
    monkeypatch.setenv("SERVER_KEY", KEY + "\n")
    client = client_of(address, replace(QUICK, api_key_env="SERVER_KEY"))
    said = [repr(client), str(vars(client).get("_config"))]
    server.faults = [(401, {}, f"bad key {KEY}".encode())]
    said.append(message(client))
    server.faults = [(500, {}, f"bad key {KEY}".encode())] * 6
    said.append(message(client))
    assert "bad key ***" in said[-1]
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert not [text for text in [*said, caplog.text] if KEY in text]


def test_what_the_environment_says_of_another_server_is_not_sent(monkeypatch, server, address):
    monkeypatch.setenv("SERVER_KEY", KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "others-secret")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: others-secret\nX-Team: others-secret"
    )
    post(client_of(address, QUICK))
    assert "authorization" not in server.headers[-1]
    post(client_of(address, replace(QUICK, api_key_env="SERVER_KEY")))
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert "others-secret" not in str(server.headers)


@pytest.mark.parametrize("value", [None, "", "two words", "naïve"])
def test_a_key_that_is_none(monkeypatch, value):
    monkeypatch.delenv("SERVER_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SERVER_KEY", value)
    with pytest.raises(UserError, match="environment variable SERVER_KEY") as refusal:
        client_of("http://127.0.0.1:1/v1", replace(QUICK, api_key_env="SERVER_KEY"))
    assert not value or value not in str(refusal.value)


def test_fields_that_a_server_refuses_are_left_out_from_then_on(server, address, caplog):
    def picky(path, request, answer):
        for name, said in {
            "max_tokens": "use 'max_completion_tokens'",
            "stop": "Extra inputs: stop",
        }.items():
            if name in request:
                return 400, {"error": {"message": said, "param": name if "use" in said else None}}
        return {"choices": [{"text": str(sorted(request))}]}

    server.change = picky
    client = client_of(address, QUICK)
    for _ in range(2):
        assert post(client, stop=["x"]) == [
            "['max_completion_tokens', 'model', 'prompt', 'stream', 'temperature']"
        ]
    assert len(server.requests) == 3 + 1
    assert "max_completion_tokens is sent" in caplog.text
    assert "nothing is sent" in caplog.text


def test_a_field_that_is_refused_in_either_spelling_ends_the_run(server, address):
    said = "max_tokens or max_completion_tokens is too large: 2"
    server.change = lambda path, request, answer: (400, {"error": {"message": said}})
    assert "too large" in message(client_of(address, QUICK))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("models", "length"),
    [
        ([{"id": "m", "object": "model"}], None),
        ({"data": [{"id": "m", "max_model_len": 9}]}, 9),
        ({"data": [{"id": "m", "context_length": 9}], "error": None}, 9),
        ({"data": [{"id": "m", "meta": {"n_ctx": 9, "n_ctx_train": 99}}]}, 9),
        ({"data": [{"id": "m", "max_input_tokens": None, "max_model_len": 9}]}, 9),
        # what is no length
        *(
            ({"data": [{"id": "m", "max_model_len": odd}]}, None)
            for odd in ("9", -7, 0, True, 1e30, float("inf"), [], None)
        ),
        ((404, {"detail": "Not Found"}), None),
        ((403, {}), None),
        ({"models": []}, None),
        ([], None),
        ({"data": [{"id": 7}, {"id": None}]}, None),
        # described under a name without its end, or with the usual one
        ({"data": [{"id": "m:free", "max_model_len": 3}]}, None),
        ({"data": [{"id": "m:latest", "max_model_len": 9}]}, 9),
    ],
    ids=str,
)
def test_lists_of_models(server, address, models, length):
    server.change = lambda path, request, answer: models
    listed = client_of(address, QUICK).listed("m")
    assert (listed.model, listed.context_length) == ("m", length)


def test_a_router_s_name_has_the_length_of_the_one_before_its_end(server, address):
    server.change = lambda path, request, answer: [{"id": "a/m", "context_length": 9}]
    listed = client_of(address, QUICK).listed("a/m:nitro")
    assert (listed.model, listed.context_length, listed.others) == ("a/m:nitro", 9, ("a/m",))


def test_without_a_list_of_models_one_is_named(server, address):
    server.change = lambda path, request, answer: (404, {})
    with pytest.raises(UserError, match=r"no models; name one, as in http.*/v1#model-name"):
        client_of(address, QUICK).listed(None)
    server.change = lambda path, request, answer: (401, {})
    with pytest.raises(UserError, match="HTTP 401"):
        client_of(address, QUICK).listed("m")


def test_the_examples_in_the_documentation():
    for module, examples in ((client_module, 1), (events, 2), (http, 1)):
        assert doctest.testmod(module) == (0, examples)


@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_key_is_told_with_its_flag(monkeypatch, server, address, status):
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    fault = (status, {}, b'{"error": {"message": "who are you?"}}')
    server.faults = [fault]
    assert "give --endpoint.api-key-env NAME" in message(client_of(address))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.faults = [fault]
    said = message(client_of(address))
    assert "--endpoint.api-key-env OPENAI_API_KEY, which is set here" in said
    assert KEY not in said
    server.faults = [fault]
    said = message(client_of(address, replace(QUICK, api_key_env="OPENAI_API_KEY")))
    assert "the key in OPENAI_API_KEY is sent and not accepted" in said


def test_a_missing_key_is_no_passing_failure(monkeypatch, server, address):
    fault = (500, {}, b'{"error": {"message": "Authentication Error, No api key passed in."}}')
    server.faults = [fault]
    assert "--endpoint.api-key-env" in message(client_of(address))
    assert len(server.requests) == 1
    # a key is sent: the server may have a trouble of its own with it
    monkeypatch.setenv("SERVER_KEY", KEY)
    server.faults = [fault]
    assert post(client_of(address, replace(QUICK, api_key_env="SERVER_KEY"))) == [" b a"]


@pytest.mark.parametrize(
    "fault",
    [
        (429, {}, b'{"error": {"message": "no", "code": "insufficient_quota"}}'),
        (501, {}, b"not implemented"),
    ],
    ids=str,
)
def test_what_no_attempt_would_mend_is_tried_once(server, address, fault):
    server.faults = [fault]
    message(client_of(address))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"message": "rate limited", "code": 429},
        {"message": "rate limited", "code": "429"},
        {"message": "slow down", "code": "rate_limit_exceeded"},
        {"message": "busy", "type": "overloaded_error"},
        {"message": "busy", "code": None, "status": "UNAVAILABLE"},
    ],
)
def test_a_passing_failure_inside_an_answer_is_tried_again(server, address, error):
    server.faults = [(200, {}, json.dumps({"error": error}).encode())] * 2
    assert post(client_of(address)) == [" b a"]
    assert len(server.requests) == 3


def test_another_failure_inside_an_answer_is_told_at_once(server, address):
    server.faults = [(200, {}, b'{"error": {"message": "no such field", "code": "bad_request"}}')]
    assert message(client_of(address)).endswith("no such field (bad_request)")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "name", ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY"]
)
@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:1", "socks4://x", "http://127.0.0.1:1", "x:1"]
)
def test_this_machine_is_reached_without_a_proxy(monkeypatch, server, address, name, proxy):
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, proxy)
    assert post(client_of(address)) == [" b a"]


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:1", "gopher://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_ends_in_one_line(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match="put the host into NO_PROXY"):
        client_of("http://llm.invalid/v1")
    monkeypatch.setenv("NO_PROXY", "llm.invalid")
    client_of("http://llm.invalid/v1")


def test_a_proxy_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "127.0.0.1:1")
    assert "through the proxy of the environment" in message(client_of("http://llm.invalid/v1"))


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
                        threading.Event().wait(0.02)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        port = listener.getsockname()[1]
        client = client_of(f"http://127.0.0.1:{port}/v1", replace(QUICK, timeout=0.3, attempts=1))
        began = time.monotonic()
        assert "no whole answer within 0.3 s" in message(client)
        assert time.monotonic() - began < 3


def test_an_answer_without_an_end_is_bounded(monkeypatch, server, address):
    monkeypatch.setattr(http, "LONGEST", 1000)
    packed = gzip.compress(b" " * 100_000)
    server.faults = [(200, {"content-encoding": "gzip"}, packed)]
    assert "an answer of more than 1,000 bytes" in message(client_of(address))
    assert len(server.requests) == 1


def test_a_packed_answer_is_unpacked(server, address):
    packed = gzip.compress(b'{"choices": [{"text": "good"}], "usage": {"total_tokens": 1}}')
    server.faults = [(200, {"content-encoding": "gzip"}, packed)]
    assert post(client_of(address)) == ["good"]


PIECE = {"index": 0, "delta": {"role": "assistant", "content": "go"}, "finish_reason": None}


@pytest.mark.parametrize(
    ("events_sent", "message_made"),
    [
        ([PIECE, {"index": 0, "delta": {"content": "od"}, "finish_reason": "stop"}], "good"),
        ([{"index": 0, "delta": {"content": None, "reasoning": "It"}}], None),
        ([{"index": 0, "message": {"content": "good"}}], "good"),
    ],
)
def test_a_stream_that_nobody_asked_for_is_read(server, address, events_sent, message_made):
    lines = [": a comment\n\n"]
    lines += [f"data: {json.dumps({'choices': [piece]})}\n\n" for piece in events_sent]
    lines += [f"data: {json.dumps({'choices': [], 'usage': {'total_tokens': 7}})}\n\n"]
    server.faults = [(200, {}, "".join([*lines, "data: [DONE]\n\n"]).encode())]
    client = client_of(address)
    [choice] = client.post("/chat/completions", {}, lambda answer: answer["choices"])
    assert choice["message"].get("content") == message_made
    assert client.budget.tokens == 7
    assert server.requests[-1][1]["stream"] is False


def test_a_stream_puts_tool_calls_together(server, address):
    pieces = [
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    lines = [f"data: {json.dumps({'choices': [{'delta': piece}]})}\n\n" for piece in pieces]
    server.faults = [(200, {}, "".join(lines).encode())]
    [choice] = client_of(address).post("/chat/completions", {}, lambda answer: answer["choices"])
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a": 1}'}


def test_a_stream_that_ends_in_an_error_says_it(server, address):
    server.faults = [(200, {}, b'data: {"error": {"message": "no such engine"}}\n\n')]
    assert "no such engine" in message(client_of(address))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"choices": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"choices": [], "usage": {"total_tokens": Infinity}}',
        b'{"choices": [], "usage": {"total_tokens": 1e300}}',
        b'{"choices": [], "usage": [7]}',
        b'{"choices": [], "usage": {"total_tokens": ' + b"9" * 4000 + b"}}",
        b'{"choices": [{"index": [], "message": 1}]}',
        b'{"choices": {"0": 1}}',
        b"null",
        b'"sk-sesame-0123456789"',
        b'{"error": {"message": {"deep": [[[["sk-sesame-0123456789"]]]]}}}',
        b'{"error": ["sk-sesame-0123456789"]}',
        b'{"error": {"message": "a", "code": "sk-sesame-0123456789"}}',
        b'{"error": "\\u0073k-sesame-0123456789"}',
    ],
    ids=lambda body: body[:40],
)
def test_an_odd_answer_is_one_line_without_the_key(monkeypatch, server, address, body):
    monkeypatch.setenv("SERVER_KEY", KEY)
    client = client_of(address, replace(QUICK, api_key_env="SERVER_KEY", attempts=1))
    server.faults = [(200, {}, body)]
    assert KEY not in message(client)


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize(
    "error",
    [{"message": KEY}, KEY, [KEY], {"message": "a", "param": KEY}, {"detail": [{"x": KEY}]}],
)
def test_a_refusal_is_one_line_without_the_key(monkeypatch, server, address, status, error):
    monkeypatch.setenv("SERVER_KEY", KEY)
    client = client_of(address, replace(QUICK, api_key_env="SERVER_KEY", attempts=1))
    headers = {"location": f"http://x/{KEY}", "retry-after": KEY}
    server.faults = [(status, headers, json.dumps({"error": error}).encode())]
    said = message(client)
    assert f"HTTP {status}" in said
    assert KEY not in said


def test_work_is_given_as_it_ends_and_nothing_that_was_answered_is_lost():
    client = client_of("http://127.0.0.1:1/v1", replace(QUICK, concurrency=3))
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


def test_each_worker_sees_the_tokens_of_its_own_work(server, address):
    client = client_of(address, replace(QUICK, concurrency=4))

    def tokens_of(repetitions):
        before = client.tokens_read
        for _ in range(repetitions):
            post(client)
        return client.tokens_read - before

    # three tokens read and two written a request
    assert dict(client.each(tokens_of, [1, 2, 3, 4])) == {0: 5, 1: 10, 2: 15, 3: 20}
    assert client.tokens_read == 50


def test_a_byte_order_mark_before_the_json_is_no_fault(server, address):
    body = b'\xef\xbb\xbf{"data": [{"id": "m", "max_model_len": 99}]}'
    server.faults = [(200, {"content-type": "application/json"}, body)]
    assert client_of(address, QUICK).listed("m").context_length == 99


def test_what_is_no_json_is_shown(server, address, waits):
    server.faults = [(200, {"content-type": "text/plain"}, b"no healthy upstream")] * 9
    assert "not whole JSON: 'no healthy upstream'" in message(client_of(address, QUICK))


@pytest.mark.parametrize("given", ["sk-abc", "$MY_KEY", "gsk_Ab1xxxxxxxxxxxxxxxxxxxx"])
def test_a_key_in_place_of_its_variable_is_not_repeated(given):
    with pytest.raises(UserError, match="takes the name of an environment variable") as refusal:
        client_of("http://127.0.0.1:1/v1", replace(QUICK, api_key_env=given))
    assert given not in str(refusal.value)


@pytest.mark.parametrize("proxy", ["http://me:secret", "http://[::1", "http://h:secret"])
def test_a_proxy_that_is_no_address_ends_in_one_line(monkeypatch, proxy):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(UserError, match=r"names a http proxy for .*NO_PROXY") as refusal:
        client_of("http://llm.invalid/v1")
    assert "secret" not in str(refusal.value)


def test_https_to_a_server_without_it_says_so(address):
    said = message(client_of(address.replace("http:", "https:"), QUICK))
    assert "does it answer at http:// instead?" in said
