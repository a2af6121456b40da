"""What is read of a server's message: its text without reasoning, and why it ended."""

import doctest
import json
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM, load_lm
from ceil_jax.lm.answers import Answer
from ceil_jax.lm.openai import chat
from ceil_jax.lm.openai.chat import chat_answer, completed_answer, label_in

PROMPT = "A dull film. It is bad\n\nA warm film. It is"


def test_the_examples_in_the_documentation():
    assert doctest.testmod(chat) == (0, 2)


def message(content, **fields):
    return {"message": {"role": "assistant", "content": content, **fields}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>\nIt is warm.\n</think>\n\ngood", "good"),
        ("It is warm.\n</think>\n\ngood", "good"),
        ("<think>a</think><think>b</think>good", "good"),
        ("<think>\nIt is warm, and", ""),
    ],
)
def test_reasoning_is_removed_and_counted(content, answer):
    read = chat_answer([message(content)], PROMPT)
    assert read == Answer(answer, "stop", ("reasoning",))
    assert read.trouble == ("" if answer else "empty")
    assert completed_answer({"text": content}, PROMPT).text.strip() == answer
    # where the prompt has the tag, it belongs to the answer
    assert chat_answer([message(content)], f"{PROMPT} </think>").text == content


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("good", "good"),
        ("\n\ngood \n", "good"),
        ("    return x + 1\n", "    return x + 1"),
        ("**good**", "**good**"),
        ("Answer: good", "Answer: good"),
        ("```\ngood\n```", "```\ngood\n```"),
    ],
)
def test_everything_else_stays(content, answer):
    assert chat_answer([message(content)], PROMPT) == Answer(answer)


@pytest.mark.parametrize(
    "choices",
    [
        [],
        None,
        [{}],
        [{"message": None}],
        [message(None)],
        [message("")],
        [message(None, tool_calls=[{"function": {"name": "f", "arguments": "[" * 100_000}}])],
    ],
    ids=lambda choices: str(choices)[:40],
)
def test_no_text_is_an_empty_answer(choices):
    assert chat_answer(choices, PROMPT) == Answer("")


@pytest.mark.parametrize(
    ("choice", "ended"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "content_filter"}, "refused"),
        ({"finish_reason": None}, "stop"),
        ({"finish_reason": "eos"}, "stop"),
    ],
)
def test_why_an_answer_ended(choice, ended):
    assert chat_answer([message("good") | choice], PROMPT) == ("good", ended, ())
    assert completed_answer({"text": "good", **choice}, PROMPT) == ("good", ended, ())


def test_a_refusal_of_the_model():
    assert chat_answer([message(None, refusal="I cannot help")], PROMPT).ended == "refused"


@pytest.mark.parametrize("content", [{"team": "é"}, 5, [{"type": "text", "text": "good"}]])
def test_a_content_that_is_no_text_ends_the_run_in_one_line(server, address, content):
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    server.change = lambda path, request, answer: {"choices": [message(content)]}
    with pytest.raises(
        UserError, match=r"an answer that is not a text, .*does not follow the OpenAI API"
    ):
        lm.generate(["x"], 8)


def test_an_error_in_a_choice_is_told_without_the_key(server, address, monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "sk-sesame")
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True, api_key_env="SERVER_KEY"))
    error = {"message": "overloaded for sk-sesame", "code": 502}
    server.change = lambda path, request, answer: {
        "choices": [{"message": {"content": ""}, "finish_reason": "error", "error": error}]
    }
    with pytest.raises(UserError, match=r"in place of an answer, .*overloaded for \*\*\*"):
        lm.generate(["x"], 8)


def test_answers_of_a_run_are_cut_counted_and_reported(server, address, caplog):
    answers = {
        "0": message("<think>\nwarm\n</think>\n\ngood\n\nBecause it is warm."),
        "1": message(None, reasoning_content="It is"),
        "2": message("good"),
    }

    def change(path, request, answer):
        if path != "/v1/chat/completions":
            return answer
        assert "stop" not in request
        prompt = request["messages"][0]["content"]
        if prompt == "3":
            return 400, {"error": {"message": "filtered by policy", "code": "content_filter"}}
        return {"choices": [answers[prompt]] if prompt in answers else [], "usage": None}

    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    server.change = change
    assert lm.generate(list("01234"), 8, ["\n"]) == ["good", "", "good", "", ""]
    assert (
        "Of 5 answers of the LM: 1 with reasoning, which was removed; 1 refused by the model "
        "or filtered by the server; 2 empty." in caplog.text
    )
    # no list of choices is not an interface of chats
    server.change = lambda path, request, answer: {"output": "good"}
    with pytest.raises(
        UserError, match=r"no 'choices' in the answer.*; the server does not follow the OpenAI API"
    ):
        lm.generate(["2"], 8)


# labels by a schema

LABELS = (("good", "bad"), ("red", "blue"))


def test_a_chat_that_is_held_to_labels_writes_them_alone(server, address, caplog):
    caplog.set_level("INFO", "ceil_jax")
    server.holds = True
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    assert "it writes, constrains answers to labels and does not score" in caplog.text
    assert lm.can_label
    prompts = ["good good bad good", "blue blue red blue"]
    best = TinyLM().choose(prompts, LABELS)
    expected = [labels[i] for labels, i in zip(LABELS, best, strict=True)]
    assert [answer.text for answer in lm.write_labels(prompts, LABELS, 20)] == expected
    schema = server.requests[-1][1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["label"]["enum"] in map(list, LABELS)


def refuses(path, request, answer):
    return (400, {"error": "no"}) if "response_format" in request else answer


def fails(path, request, answer):
    return (500, {"error": "no"}) if "response_format" in request else answer


def writes_json(path, request, answer):
    if path == "/v1/chat/completions":
        answer["choices"][0]["message"]["content"] = json.dumps({"label": "yes"})
    return answer


@pytest.mark.parametrize(
    "change", [refuses, fails, writes_json, lambda path, request, answer: answer]
)
def test_a_schema_that_is_not_kept_is_not_asked_for(server, address, waits, change):
    server.change = change
    assert not load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True)).can_label


@pytest.mark.parametrize("text", ["", "good", '{"label": 5}', '["label"]', "[" * 100_000])
def test_an_answer_that_does_not_keep_to_the_schema_stays(text):
    assert label_in(Answer(text, "length")) == Answer(text, "length")
