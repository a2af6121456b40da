"""A language model and an encoder over HTTP: the same numbers as without it, or a refusal."""

import logging
import threading
from dataclasses import replace

import lm_models
import numpy as np
import pytest
from films import SMALL, films
from lm_server import QUICK, Server, listening

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, TinyLM, load_lm
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.readings import Readings
from ceil_jax.lm.request import LMRequest
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare

KEY = "sk-sesame-0123456789"
PROMPTS = ["a good film is good. a bad film is", "bad; bad;\n", "so it is that", "x"]
CHOICES = [
    [" good", " bad"],
    ["good bad", "bad", ""],
    ["good", " good", " a good film"],
    [" x", " y"],
]


@pytest.fixture
def lm(address):
    return load_lm(f"{address}#tiny", endpoint=QUICK)


def refused(work, *arguments):
    with pytest.raises(UserError) as refusal:
        work(*arguments)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def agrees(lm, local):
    """Scores and choices over HTTP are the local ones."""
    continuations = [options[0] for options in CHOICES]
    np.testing.assert_allclose(
        lm.log_likelihood(PROMPTS, continuations),
        local.log_likelihood(PROMPTS, continuations),
        atol=1e-5,
    )
    scores = [one.choice_log_likelihood(PROMPTS, CHOICES) for one in (lm, local)]
    for found, expected in zip(*scores, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    for per_token in (False, True):
        found = lm.choose(PROMPTS, CHOICES, per_token=per_token)
        assert found.tolist() == local.choose(PROMPTS, CHOICES, per_token=per_token).tolist()


def test_the_tiny_lm_over_http(lm):
    local = TinyLM()
    assert isinstance(lm, LanguageModel)
    agrees(lm, local)
    assert lm.log_likelihood([""], ["a b"]) == pytest.approx(local.log_likelihood([""], ["a b"]))
    settings = {"stop": [" it"], "temperature": 0.7, "seed": 3}
    assert lm.generate(PROMPTS, 6, **settings) == local.generate(PROMPTS, 6, **settings)
    assert lm.generate(PROMPTS, 6) == local.generate(PROMPTS, 6)
    assert lm.generate(PROMPTS, 0) == [""] * 4


def test_what_was_read_is_what_the_server_says(lm):
    before = lm.tokens_read
    lm.log_likelihood(["a b a", "a b"], [" b", " a b"])
    assert lm.tokens_read - before == 4 + 4
    lm.generate(["a b"], 3)
    assert lm.tokens_read - before == 4 + 4 + 2 + 3


def test_equal_texts_are_asked_for_once(server, lm):
    server.clear()
    lm.log_likelihood(["a b"] * 30, [" a"] * 30)
    assert [path for path, _ in server.requests] == ["/v1/completions"]


def test_chat_generates_and_does_not_score(server, address):
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    expected = [text.strip() for text in TinyLM().generate(PROMPTS, 6)]
    assert [text.strip() for text in lm.generate(PROMPTS, 6)] == expected
    cut = [text.split("it")[0] for text in expected]
    assert [text.lstrip() for text in lm.generate(PROMPTS, 6, ["it"])] == cut
    assert server.requests[-1][0] == "/v1/chat/completions"
    assert not lm.can_score
    assert load_lm(f"{address}#tiny", endpoint=QUICK).can_score
    assert "chat gives no log-probabilities of a prompt (--endpoint.chat)" in refused(
        lm.choose, PROMPTS, CHOICES
    )


def test_a_tokenizer_of_ones_own_counts(tmp_path, server, address):
    lm_models.tokenizer().save_pretrained(tmp_path)
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, tokenizer=str(tmp_path)))
    server.clear()
    # "x" and " good", which is one token
    assert lm.count_tokens(["x good"]).tolist() == [2]
    assert server.requests == []
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, tokenizer=str(tmp_path / "none")))
    assert "cannot load the tokenizer of " in refused(lm.count_tokens, ["x"])


def listing(*entries):
    return lambda path, request, answer: {"data": list(entries)} if path == "/v1/models" else answer


def test_names_say_the_model_and_what_changes_its_answers(server, address, lm, monkeypatch):
    assert lm.name.startswith("tiny@ceil_jax-")
    monkeypatch.setenv("MY_KEY", "a")
    settings = (
        {"chat": True},
        {"fields": ("top_k=5",)},
        {"headers": ("X-Route=eu",)},
        # a key that is renewed changes no answers
        {"headers": ("api-key=$MY_KEY",)},
    )
    names = [load_lm(f"{address}#tiny", endpoint=replace(QUICK, **one)).name for one in settings]
    assert names[-1] == lm.name
    for change in ({}, {"root": "x"}, {"owned_by": "vllm"}):
        server.change = listing({"id": "tiny", "owned_by": "me", "root": "r"} | change)
        names.append(load_lm(f"{address}#tiny", endpoint=QUICK).name)
    assert len(set(names)) == 7


def test_two_servers_share_results_if_they_say_which_weights_they_serve(server, address, lm):
    with listening(other := Server(server.encoder)) as elsewhere:
        assert load_lm(f"{elsewhere}#tiny", endpoint=QUICK).name == lm.name
        for one in (server, other):
            one.change = listing({"id": "tiny", "owned_by": "me"}, {"id": "tiny-encoder"})
        loaded = [load_lm(f"{each}#tiny", endpoint=QUICK) for each in (address, elsewhere)]
        assert loaded[0].name != loaded[1].name
        assert "127.0.0.1" not in loaded[0].name
        encoders = [
            load_encoder(f"{each}#tiny-encoder", endpoint=QUICK) for each in (address, elsewhere)
        ]
        assert encoders[0].fingerprint != encoders[1].fingerprint


def test_a_stated_length_is_in_no_key_and_one_that_is_given_shapes_prompts(server, address):
    named = set()
    for length in (7, 70):
        server.change = listing({"id": "tiny", "max_model_len": length})
        lm = load_lm(f"{address}#tiny", endpoint=QUICK)
        assert lm.context_length == length - 1
        named.add((lm.name, lm.key))
    assert len(named) == 1
    changes = [{"context_length": 50}, {"context_length": 60}, {"tokenizer": "a/folder"}]
    limited = [load_lm(f"{address}#tiny", endpoint=replace(QUICK, **one)) for one in changes]
    assert {lm.name for lm in limited} == {lm.name}
    assert len({lm.key, *(one.key for one in limited)}) == 4


def test_models_are_found_by_name_or_alone(server, address):
    assert "did you mean 'tiny'" in refused(lambda: load_lm(f"{address}#tinny", endpoint=QUICK))
    assert "tiny, tiny-encoder; name one" in refused(lambda: load_lm(address, endpoint=QUICK))
    server.change = listing({"id": "tiny", "max_model_len": 9})
    assert load_lm(address, endpoint=QUICK).context_length == 8


def test_a_length_that_nobody_says_is_a_cautious_one_and_that_is_said_once(server, address, caplog):
    server.change = listing({"id": "tiny"})
    lm = load_lm(address, endpoint=QUICK)
    assert lm.context_length == 4095
    lm.count_tokens(["a b"])
    said = "does not say how many tokens tiny reads; prompts have at most 4,096 (--endpoint.context"
    assert caplog.text.count(said) == 1
    assert load_lm(address, endpoint=replace(QUICK, context_length=100)).context_length == 99


def test_a_name_that_is_not_listed_is_asked_for(server, address):
    server.change = listing({"id": "gpt-4o-2024-01-01"})
    assert load_lm(f"{address}#tiny", endpoint=QUICK).generate(["a b a"], 1) == [" a"]


def scores_changed(change):
    """Every echoed choice's log-probabilities, through `change(tokens, log_probs, number of the
    request)`."""
    count = 0

    def changed(path, request, answer):
        nonlocal count
        for choice in answer.get("choices", ()):
            found = choice["logprobs"]
            if found is None:
                continue
            found["tokens"], found["token_logprobs"] = change(
                found["tokens"], found["token_logprobs"], count
            )
            count += 1
        return answer

    return changed


def drop_logprobs(path, request, answer):
    return {**answer, "choices": [{**c, "logprobs": None} for c in answer.get("choices", ())]}


def as_transformers_serve(path, request, answer):
    return {
        **answer,
        "choices": [{"index": i, "text": " a"} for i in range(len(request.get("prompt", ())))],
    }


def stale_from_the_third_on(tokens, log_probs, count):
    return tokens, log_probs if count < 3 else [-3.0] * 32 + log_probs[32:]


def stale_once_cached(tokens, log_probs, count):
    """A cache of blocks of 16 tokens that returns the values of other tokens."""
    return tokens, log_probs if count == 0 else [*[-0.01 * count - 5] * 16, *log_probs[16:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop_logprobs, "no log-probabilities of the text's own tokens"),
        (as_transformers_serve, "no log-probabilities of the text's own tokens"),
        # llama.cpp's server: of the token it wrote alone
        (scores_changed(lambda t, p, _: (t[-1:], p[-1:])), "spell 0 of the text's"),
        (scores_changed(lambda t, p, _: (t[-4:], p[-4:])), "spell 0 of the text's"),
        (scores_changed(lambda t, p, _: (["x"] * len(t), p)), "spell 0 of the text's"),
        (scores_changed(lambda t, p, _: (t, [None] * 9 + p[9:])), "some of the tokens only"),
        # each belongs to the token before, or behind
        (scores_changed(lambda t, p, _: (t, [*p[1:], -2.0])), "belong to other tokens"),
        (scores_changed(lambda t, p, _: (t, [None, *p[:-1]])), "belong to other tokens"),
        (scores_changed(stale_from_the_third_on), "--no-enable-prefix-caching"),
        (scores_changed(stale_once_cached), "--disable-radix-cache"),
        (
            scores_changed(lambda t, p, n: (t, [x - n for x in p])),
            "depend on what was asked before",
        ),
        (scores_changed(lambda t, p, _: (t, [2.0, *p[1:]])), "2.0 is not a log-probability"),
        (
            scores_changed(lambda t, p, _: (t, [float("nan"), *p[1:]])),
            "nan is not a log-probability",
        ),
        (scores_changed(lambda t, p, _: (t[1:], p)), "log-probabilities"),
    ],
)
def test_the_probe_finds_scores_that_cannot_be_used(server, address, caplog, change, said):
    caplog.set_level(logging.INFO, "ceil_jax")
    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    assert not lm.can_score
    assert said in caplog.text
    assert caplog.text.count("it writes and does not score") == 1
    server.clear()
    assert said in refused(lm.choose, PROMPTS, CHOICES)
    assert server.requests == []
    # it writes all the same
    assert lm.generate(["a b a"], 1) == [" a"]


def as_vllm(tokens, log_probs, count):
    return ["<s>", *tokens], [None, *log_probs]


def as_sglang(tokens, log_probs, count):
    """Without the spaces of SentencePiece, and one token more than was asked for."""
    return ["", *[token.strip() or token for token in tokens], "more"], [None, *log_probs, -1.0]


@pytest.mark.parametrize("dialect", [as_vllm, as_sglang])
def test_dialects(server, address, dialect):
    server.change = scores_changed(dialect)
    agrees(load_lm(f"{address}#tiny", endpoint=QUICK), TinyLM())


def test_a_first_token_without_a_score_needs_a_prompt(server, lm):
    server.change = scores_changed(lambda t, p, _: (t, [None, *p[1:]]))
    assert "give every prompt at least one character" in refused(lm.log_likelihood, [""], ["a b"])


@pytest.mark.parametrize(
    "change",
    [
        lambda choices: choices[:-1],
        lambda choices: [*choices, choices[0]],
        lambda choices: [{**choice, "index": 0} for choice in choices],
    ],
)
def test_a_wrong_number_of_choices(server, lm, change):
    server.clear()
    server.change = lambda path, request, answer: {**answer, "choices": change(answer["choices"])}
    assert "for 4 texts" in refused(lm.generate, PROMPTS, 3)
    assert len([path for path, _ in server.requests if path == "/v1/completions"]) == 1


def test_choices_in_any_order(server, lm):
    server.change = lambda path, request, answer: (
        {**answer, "choices": answer["choices"][::-1]} if "choices" in answer else answer
    )
    agrees(lm, TinyLM())


TASK = films(40, 20)
BIG = films(40, 96)


@pytest.fixture(scope="module")
def key():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER_KEY", KEY)
        yield KEY


@pytest.fixture(scope="module")
def locked(key):
    """A server that wants a key, and its address."""
    server = Server(load_encoder("tiny"), key)
    with listening(server) as address:
        yield server, address


def over_http(address, out, **changes):
    endpoint = replace(QUICK, api_key_env="SERVER_KEY", **changes)
    return replace(
        SMALL, lm=f"{address}#tiny", encoder=f"{address}#tiny-encoder", out=out, endpoint=endpoint
    )


def test_a_run_over_http_gives_the_same_table(locked, tmp_path, caplog, capfd):
    _, address = locked
    for logger in ("ceil_jax", "openai", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, logger)
    methods = ["random", "topk", "dpp"]
    remote = open_run(over_http(address, tmp_path / "remote"), TASK)
    found = compare(*remote, methods)
    expected = compare(*open_run(replace(SMALL, out=tmp_path / "local"), TASK), methods)
    for ours, theirs in zip(found.rows, expected.rows, strict=True):
        assert ours.record.method == theirs.record.method
        assert (ours.value, ours.interval) == (theirs.value, theirs.interval)
        assert ours.record.rows() == theirs.record.rows()

    found.write_report(tmp_path / "report")
    host = address.removeprefix("http://").removesuffix("/v1")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    # the page shows the settings; stages, which others may share, do not say where the model was
    stages = [path for path in files if "report" not in path.parts]
    assert not [path for path in stages if host.encode() in path.read_bytes()]
    printed = capfd.readouterr()
    assert KEY not in printed.out + printed.err + caplog.text + found.text() + repr(
        remote.setup.config
    )


@pytest.mark.parametrize("method", ["epr", "ceil"])
def test_an_encoder_over_http_is_not_trained_and_nothing_is_spent_on_it(locked, tmp_path, method):
    server, address = locked
    server.clear()
    opened = open_run(over_http(address, tmp_path), TASK)
    opened.setup.lm.get()
    probed = len([path for path, _ in server.requests if path == "/v1/completions"])
    assert "EPR and CEIL need a local one" in refused(compare, *opened, [method])
    asked = [path for path, _ in server.requests if path == "/v1/completions"]
    assert len(asked) == probed


def test_a_spent_budget_keeps_what_was_computed(locked, tmp_path):
    _, address = locked
    # 6 requests of the probe, and 10 of the 24 for 96 queries, 4 at a time: the likeliest tokens
    # that come with a prompt's first option have the other one
    config = replace(
        over_http(address, tmp_path, max_requests=16, batch=4, concurrency=1), encoder="tiny"
    )
    said = refused(compare, *open_run(config, BIG), ["random"])
    assert "the budget of requests is spent (16 requests" in said
    whole = open_run(replace(config, endpoint=replace(config.endpoint, max_requests=None)), BIG)
    with whole.run.lm(whole.setup.lm).metered() as meter:
        [row] = compare(*whole, ["random"]).rows
    assert len(row.record.rows()) == 96
    assert meter.now.tokens < meter.cost.tokens


# what a server can do


def without(*paths, status=404):
    """A change that takes paths of the interface away."""

    def changed(path, request, answer):
        return (status, {"error": {"message": f"no {path}"}}) if path in paths else answer

    return changed


def one_at_a_time(path, request, answer):
    """As Ollama's /completions, which gives no log-probabilities either."""
    if isinstance(request.get("prompt"), list):
        return 400, {"error": {"message": "json: cannot unmarshal array into a string"}}
    return drop_logprobs(path, request, answer) if path == "/v1/completions" else answer


@pytest.mark.parametrize("status", [400, 403, 404, 405, 422, 500, 501])
def test_a_server_that_has_chat_alone_is_asked_by_chat(server, address, caplog, waits, status):
    caplog.set_level(logging.INFO, "ceil_jax")
    server.change = without("/v1/completions", status=status)
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    assert lm.generate(PROMPTS, 6) == [text.rstrip() for text in TinyLM().generate(PROMPTS, 6)]
    assert not lm.can_score
    [line] = [said for said in caplog.messages if "asked through /chat/completions" in said]
    assert f"HTTP {status}" in line
    assert lm.name == load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True)).name


def test_a_server_that_takes_one_prompt_at_a_time(server, address):
    server.change = one_at_a_time
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    assert lm.generate(PROMPTS, 6) == TinyLM().generate(PROMPTS, 6)
    assert not lm.can_score
    assert server.requests[-1][0] == "/v1/completions"


def test_a_server_with_neither_names_both(server, address):
    server.change = without("/v1/completions", "/v1/chat/completions")
    said = refused(lambda: load_lm(f"{address}#tiny", endpoint=QUICK))
    assert "no /v1/completions" in said
    assert "no /v1/chat/completions" in said
    assert "An address often ends in /v1" in said


@pytest.mark.parametrize("chat", [False, True])
def test_a_chat_that_takes_other_fields_is_asked_with_them(server, address, chat):
    """As models that reason: they need tokens to do so, and take no temperature."""

    def reasoning(path, request, answer):
        if path != "/v1/chat/completions":
            return without("/v1/completions")(path, request, answer)
        if "max_tokens" in request or "temperature" in request:
            return 400, {"error": {"message": "use max_completion_tokens"}}
        return answer if request["max_completion_tokens"] > 100 else (400, {})

    server.change = reasoning
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=chat))
    server.clear()
    assert lm.generate(["a b a"], 101) != []
    [(_, body)] = server.requests
    assert body.keys() == {"model", "messages", "max_completion_tokens"}


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_server_that_answers_nothing_now_is_not_taken_for_a_chat(server, address, waits, status):
    server.change = without("/v1/completions", status=status)
    assert f"HTTP {status}" in refused(lambda: load_lm(f"{address}#tiny", endpoint=QUICK))
    assert not [path for path, _ in server.requests if path == "/v1/chat/completions"]


@pytest.mark.parametrize("most", [20, 5, 1])
def test_as_many_alternatives_as_the_server_gives(server, address, most):
    def limited(path, request, answer):
        if request.get("logprobs", 0) > most:
            return 400, {"error": {"message": f"logprobs is greater than {most}"}}
        return answer

    server.change = limited
    agrees(load_lm(f"{address}#tiny", endpoint=QUICK), TinyLM())
    asked = [request["logprobs"] for _, request in server.requests if "logprobs" in request]
    assert max(asked[10:]) == most


# labels of one prompt

PROMPT = "red blue green red blue green red"
LABELS = [" blue", " green", " red", " blue green", " stone"]


def test_labels_share_their_prompt(server, lm):
    """Three labels are words of the prompt, which the server gives with the first of them."""
    server.clear()
    [found] = lm.choice_log_likelihood([PROMPT], [LABELS])
    [expected] = TinyLM().choice_log_likelihood([PROMPT], [LABELS])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    sent = [request["prompt"] for _, request in server.requests]
    assert sent == [
        [f"{PROMPT} blue"],
        [f"{PROMPT} blue green", f"{PROMPT} stone"],
    ]


def lost_spaces(path, request, answer):
    """A server whose tokens have no spaces: "good" may stand for " good"."""
    for choice in answer.get("choices", ()):
        if found := choice["logprobs"]:
            found["tokens"] = [token.strip() or token for token in found["tokens"]]
            found["top_logprobs"] = [
                {token.strip() or token: value for token, value in top.items()}
                for top in found["top_logprobs"]
            ]
    return answer


def odd_alternatives(path, request, answer):
    for choice in answer.get("choices", ()):
        if found := choice["logprobs"]:
            found["top_logprobs"] = [dict.fromkeys(LABELS, -5.0)] * len(found["tokens"])
    return answer


@pytest.mark.parametrize("change", [lost_spaces, odd_alternatives])
@pytest.mark.parametrize("labels", [LABELS, ["blue", "green"]])
def test_alternatives_that_cannot_be_trusted_are_not_taken(server, address, change, labels):
    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    [found] = lm.choice_log_likelihood([PROMPT], [labels])
    [expected] = TinyLM().choice_log_likelihood([PROMPT], [labels])
    np.testing.assert_allclose(found, expected, atol=1e-9)


# many requests at a time, each answer kept


def test_as_many_requests_are_under_way_as_the_settings_say(server, address, tmp_path):
    """The server holds every answer back until so many requests are there."""
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True, concurrency=48))
    together = threading.Barrier(48)

    def held(path, request, answer):
        together.wait(10)
        return answer

    server.change = held
    read = CachedLM(lm, Readings(tmp_path))
    prompts = [f"a b {i}" for i in range(96)]
    assert read.generate(prompts, 2) == [text.rstrip() for text in TinyLM().generate(prompts, 2)]


def test_tokens_are_shared_out_to_the_answers_that_took_them(server, address, tmp_path):
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, batch=1, concurrency=5))
    before = lm.tokens_read
    read = CachedLM(lm, Readings(tmp_path))
    prompts = [("a b " * i).strip() for i in range(1, 20)]
    with read.metered() as meter:
        read.generate(prompts, 1)
    assert meter.cost.tokens == lm.tokens_read - before == sum(2 * i + 1 for i in range(1, 20))
    one = LMRequest(prompts[4], (), False, 1, ())
    [reading] = read.readings.find([one.key(lm.name)]).values()
    assert reading.cost.tokens == 2 * 5 + 1


@pytest.mark.parametrize("kind", ["scores", "texts"])
def test_a_server_that_ends_loses_no_answer(server, address, tmp_path, kind):
    """It answers some requests and then none: every answered one is in the file."""
    endpoint = replace(QUICK, batch=1, concurrency=4, attempts=1)
    lm = load_lm(f"{address}#tiny", endpoint=endpoint)
    answered = []
    lock = threading.Lock()

    def ending(path, request, answer):
        with lock:
            if len(answered) == 37:
                return 500, {"error": {"message": "killed"}}
            answered.append(request)
            return answer

    server.change = ending
    prompts = [f"a b {i}" for i in range(100)]
    read = CachedLM(lm, Readings(tmp_path))

    def ask():
        if kind == "scores":
            read.log_likelihood(prompts, [" a"] * 100)
        else:
            read.generate(prompts, 1)

    assert "killed" in refused(ask)
    server.clear()
    ask()
    assert len(server.requests) == 100 - 37


# tokens


@pytest.fixture
def long_texts():
    return ["a b c d " * 50, "x", ""]


@pytest.mark.parametrize("chat", [False, True])
def test_tokens_are_estimated_from_the_usage(server, address, caplog, chat, long_texts):
    """The server's usage has a token for every five bytes."""

    def changed(path, request, answer):
        if "completions" in path:
            prompt = request.get("prompt") or request["messages"][0]["content"]
            text = prompt if isinstance(prompt, str) else "".join(prompt)
            answer["usage"] = {"prompt_tokens": 11 + len(text.encode()) // 5}
        return answer

    server.change = changed
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=chat))
    long, short, empty = lm.count_tokens(long_texts).tolist()
    # a tenth more than measured
    assert 400 / 5 * 1.08 < long < 400 / 5 * 1.12
    assert (short, empty) == (1, 0)
    lm.count_tokens(["another"])
    assert caplog.text.count("0.20 a byte, from the usage that the server states") == 1


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": 7}, {"prompt_tokens": None}]
)
def test_without_a_usage_tokens_are_taken_for_four_bytes(
    server, address, caplog, usage, long_texts
):
    def changed(path, request, answer):
        return answer | {"usage": usage}

    server.change = changed
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    assert lm.count_tokens(long_texts).tolist() == [110, 1, 0]
    assert caplog.text.count("because the server does not state them") == 1
