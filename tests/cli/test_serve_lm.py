"""The interface that `ceil-jax serve-lm` offers, as a client of it would see it."""

import os
import re
import subprocess
import sys

import httpx2
import pytest
from lm_server import listening

from ceil_jax.cli.main import main
from ceil_jax.cli.server.app import create_app
from ceil_jax.cli.server.service import Service
from ceil_jax.lm import TinyLM

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def http():
    with (
        listening(create_app(Service(TinyLM(), "tiny"))) as address,
        httpx2.Client(base_url=address) as client,
    ):
        yield client


def ask(http, path, **body):
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_models(http):
    [entry] = http.get("/models").json()["data"]
    assert (entry["id"], entry["root"], entry["max_model_len"]) == ("tiny", "tiny", 4096)


def test_completions_echo_with_offsets_and_log_probs(http):
    answer = ask(
        http,
        "/completions",
        model="tiny",
        prompt=" a b a",
        echo=True,
        logprobs=1,
        max_tokens=2,
        temperature=0,
    )
    [choice] = answer["choices"]
    assert choice["text"] == " a b a b a"
    assert choice["logprobs"]["tokens"] == [" a", " b", " a", " b", " a"]
    assert choice["logprobs"]["text_offset"] == [0, 2, 4, 6, 8]
    log_probs = choice["logprobs"]["token_logprobs"]
    assert sum(log_probs[3:]) == pytest.approx(TinyLM().log_likelihood([" a b a"], [" b a"])[0])
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert choice["finish_reason"] == "length"


def test_without_echo_only_what_was_written_is_scored(http):
    answer = ask(http, "/completions", prompt=[" a b a", " x"], logprobs=0, max_tokens=1, temperature=0)
    assert [choice["logprobs"]["tokens"] for choice in answer["choices"]] == [[" b"], [" x"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]


def test_stop_and_seed(http):
    [choice] = ask(http, "/completions", prompt="a b. a b", max_tokens=9, stop=".", temperature=0)["choices"]
    assert choice["finish_reason"] == "stop"
    assert "." not in choice["text"]
    texts = [
        ask(http, "/completions", prompt="a b c d", max_tokens=8, seed=seed)["choices"][0]["text"]
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_chat(http):
    messages = [{"role": "system", "content": "a b"}, {"role": "user", "content": "a"}]
    [choice] = ask(http, "/chat/completions", messages=messages, max_tokens=2, temperature=0)["choices"]
    assert choice["message"] == {"role": "assistant", "content": TinyLM().generate(["a b\na"], 2)[0]}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/completions", {"prompt": [1, 2]}, "not of token ids"),
        ("/completions", {"prompt": []}, "expected a text or a list of texts"),
        ("/completions", {"prompt": "a", "model": "gpt"}, "'gpt' is not served here"),
        ("/completions", {"prompt": "a", "max_tokens": -1}, "max_tokens is -1"),
        ("/completions", {"prompt": "a", "temperature": "hot"}, "temperature is hot"),
        ("/completions", {"prompt": "a", "max_tokens": 1.5}, "max_tokens is 1.5; expected a whole number"),
        ("/completions", {"prompt": "a", "max_tokens": 10**400}, "max_tokens is 1000"),
        ("/completions", {"prompt": "a", "seed": 0.5}, "seed is 0.5; expected a whole number"),
        ("/completions", {"prompt": "a", "stop": [""]}, "stop is"),
        ("/completions", {"prompt": "a", "stop": 5}, "stop is 5; expected a text or a list of texts"),
        ("/completions", {"prompt": "a", "stop": ["b", 5]}, "stop is ['b', 5]; expected a text"),
        ("/completions", {"prompt": "a", "n": 2}, "n is not served here"),
        ("/completions", {"prompt": "a b " * 2100, "echo": True, "logprobs": 1}, "more than the 4096"),
        ("/chat/completions", {"messages": []}, "expected a list of at least one"),
        ("/chat/completions", {"messages": [{"role": "user"}]}, "expected a role and a content"),
        ("/embeddings", {"input": "a"}, "start the server with --encoder"),
    ],
)
def test_what_a_request_has_wrong_is_a_line(http, path, body, said):
    answer = http.post(path, json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_a_body_that_is_no_object(http):
    assert http.post("/completions", content=b"{", headers=JSON).status_code == 400
    assert http.post("/completions", json=[1]).status_code == 400
    assert http.post("/nowhere", json={}).status_code == 404


@pytest.mark.parametrize("field", ["max_tokens", "seed", "temperature"])
def test_numbers_that_are_not_finite_are_refused(http, field):
    """JSON of other makers may hold Infinity and NaN, and 1e400 is read as infinity."""
    for value in ("1e400", "Infinity", "NaN"):
        answer = http.post("/completions", content=f'{{"prompt": "a", "{field}": {value}}}', headers=JSON)
        assert answer.status_code == 400
        assert f"{field} is {'nan' if value == 'NaN' else 'inf'}" in answer.json()["error"]["message"]


def test_a_key_is_asked_for():
    with listening(create_app(Service(TinyLM(), "tiny"), "sesame")) as address:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer x"}, 401),
            ({"Authorization": "Bearer sesame"}, 200),
        ):
            assert httpx2.get(f"{address}/models", headers=headers).status_code == status


def test_the_command_serves_until_it_is_interrupted():
    """As a user starts it; the port is the system's choice."""
    command = [sys.executable, "-m", "ceil_jax.cli.main", "serve-lm", "--lm", "tiny", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
        try:
            said = server.stdout.readline()
            found = re.fullmatch(r"serving tiny at (http://127\.0\.0\.1:\d+/v1)#tiny\n", said)
            assert found, said
            assert httpx2.get(f"{found[1]}/models").json()["data"][0]["id"] == "tiny"
        finally:
            server.terminate()


def test_a_mistake_is_a_line(capsys):
    assert main(["serve-lm", "--lm", "tiny", "--api-key-env", "NOT_SET_HERE"]) == 2
    assert "environment variable NOT_SET_HERE is not set" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_is_checked_before_the_lm_is_loaded(port, capsys):
    assert main(["serve-lm", "--lm", "no-such-lm", "--port", port]) == 2
    assert capsys.readouterr().err == f"ceil-jax: --port {port}: expected 0 to 65535\n"
