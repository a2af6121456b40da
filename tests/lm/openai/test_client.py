"""A server that fails in every way we know of: what is tried again, what is said, what is never
said."""

import socket
import threading
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
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
    assert post(Client(address, QUICK)) == [" b a"]
    assert len(server.requests) == 3


def test_a_slow_body_ends_at_the_deadline(server, address):
    server.faults = ["slow"]
    client = Client(address, replace(QUICK, timeout=0.2))
    assert post(client) == [" b a"]
    server.faults = ["slow"]
    once = Client(address, replace(QUICK, timeout=0.2, attempts=1))
    assert "no whole answer within 0.2 s. Given up" in message(once)


def test_waits_grow_and_retry_after_goes_first(server, address, waits):
    server.faults = [BUSY, BUSY, (429, {"retry-after": "7"}, b""), "drop"]
    post(Client(address, QUICK))
    # the openai package's: 0.5 s doubled, less up to a quarter of it
    longest = [0.5, 1, 7, 4]
    assert len(waits) == 4 and waits[2] == 7
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, longest, strict=True))


def test_giving_up_says_why_and_what_is_kept(server, address):
    server.faults = [BUSY] * 6
    assert message(Client(address, QUICK)) == (
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
    assert said in message(Client(address, QUICK))
    assert len(server.requests) == 1


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
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", QUICK)
        client.post("/models", {}, str)
        thread.join()
    assert "the connection failed" in (said := message(client)) and "Given up" in said
    assert len(waits) == 5
    assert "is the server running there?" in message(Client(client.base, QUICK))
    assert len(waits) == 5


def test_requests_go_through_the_proxy_of_the_environment(monkeypatch, server, address):
    monkeypatch.setenv("HTTP_PROXY", address.removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.faults = [(200, {}, b'{"choices": []}')]
    assert post(Client("http://llm.invalid/v1", QUICK)) == []
    assert server.headers[-1]["host"] == "llm.invalid"


def test_after_a_failure_nothing_more_is_sent_and_the_client_can_be_used_again(server, address):
    client = Client(address, replace(QUICK, concurrency=2, attempts=1))
    server.faults = [(400, {}, b"no")]
    with pytest.raises(UserError, match="HTTP 400: no"):
        client.map(lambda _: post(client), range(200), "x")
    assert len(server.requests) < 200
    assert len(client.map(lambda _: post(client), range(3), "x")) == 3


def test_no_more_at_once_than_the_limit(server, address):
    client = Client(address, replace(QUICK, concurrency=3))
    answers = client.map(lambda i: post(client, prompt=[f" {i} {i}"]), range(20), "x")
    assert answers == [[f" {i}" * 2] for i in range(20)]
    assert server.most_at_once <= 3


def test_budget_of_requests_counts_retries(server, address):
    client = Client(address, replace(QUICK, max_requests=3))
    server.faults = [BUSY]
    post(client)
    post(client)
    assert "the budget of requests is spent (3 of 3 requests, 10 tokens)" in message(client)
    assert "--endpoint.max-requests" in message(client)
    assert len(server.requests) == 3


def test_budget_of_tokens_stops_what_has_not_begun(server, address):
    client = Client(address, replace(QUICK, concurrency=1, max_tokens=12))
    # three tokens read and two written a request
    with pytest.raises(
        UserError, match=r"the budget of tokens is spent \(3 requests, 15 of 12 tokens\)"
    ):
        client.map(lambda _: post(client), range(50), "x")
    assert len(server.requests) == 3


def test_a_budget_of_tokens_needs_their_count(server, address):
    server.change = lambda path, request, answer: {k: v for k, v in answer.items() if k != "usage"}
    assert "does not state its usage" in message(Client(address, replace(QUICK, max_tokens=10)))
    post(Client(address, QUICK))


@pytest.mark.parametrize(
    "usage", [{"total_tokens": "12 tokens"}, {"total_tokens": float("nan")}, {"prompt_tokens": -1}]
)
def test_a_usage_that_is_no_number_is_refused(server, address, usage):
    server.change = lambda path, request, answer: answer | {"usage": usage}
    assert "the server does not keep to the interface" in message(Client(address, QUICK))
    server.change = lambda path, request, answer: answer | {"usage": {"total_tokens": "12"}}
    post(client := Client(address, QUICK))
    assert client.budget.tokens == 12


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
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert not [text for text in [*said, caplog.text] if KEY in text]


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
    with pytest.raises(UserError, match="environment variable SERVER_KEY") as refusal:
        Client("http://127.0.0.1:1/v1", replace(QUICK, api_key_env="SERVER_KEY"))
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
    client = Client(address, QUICK)
    for _ in range(2):
        assert post(client, stop=["x"]) == [
            "['max_completion_tokens', 'model', 'prompt', 'temperature']"
        ]
    assert len(server.requests) == 3 + 1
    assert "max_completion_tokens is sent" in caplog.text and "nothing is sent" in caplog.text


def test_a_field_that_is_refused_in_either_spelling_ends_the_run(server, address):
    said = "max_tokens or max_completion_tokens is too large: 2"
    server.change = lambda path, request, answer: (400, {"error": {"message": said}})
    assert "too large" in message(Client(address, QUICK))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("models", "length"),
    [
        ([{"id": "m", "object": "model"}], None),
        ({"data": [{"id": "m", "max_model_len": 9}]}, 9),
        ({"data": [{"id": "m", "context_length": 9}], "error": None}, 9),
        ({"data": [{"id": "m", "max_model_len": "9"}]}, None),
        ((404, {"detail": "Not Found"}), None),
    ],
)
def test_lists_of_models(server, address, models, length):
    server.change = lambda path, request, answer: models
    model, _, stated = Client(address, QUICK).served("m")
    assert (model, stated) == ("m", length)


def test_without_a_list_of_models_one_is_named(server, address):
    server.change = lambda path, request, answer: (404, {})
    with pytest.raises(UserError, match=r"no models; name one, as in http.*/v1#model-name"):
        Client(address, QUICK).served(None)
    server.change = lambda path, request, answer: (401, {})
    with pytest.raises(UserError, match="HTTP 401"):
        Client(address, QUICK).served("m")
