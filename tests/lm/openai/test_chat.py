"""Servers and models put other text around an answer; each case has the answer that a reader would
take."""

import doctest
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.answers import Answer
from ceil_jax.lm.openai import chat
from ceil_jax.lm.openai.chat import chat_answer, completed_answer

PROMPT = "A dull film. It is bad\n\nA warm film. It is"
HARMONY = "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>good<|return|>"
GOOD = {"type": "text", "text": "good"}


def test_the_example_in_the_documentation():
    assert doctest.testmod(chat) == (0, 1)


def message(content, **fields):
    return {"message": {"role": "assistant", "content": content, **fields}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>\nIt is warm.\n</think>\n\ngood", "good"),
        ("<thinking>It is warm.</thinking>good", "good"),
        ("<THINK></THINK>\n\ngood", "good"),
        ("It is warm.\n</think>\n\ngood", "good"),
        ("<think>a</think><think>b</think>good", "good"),
        ("[THINK]It is warm.[/THINK]good", "good"),
        ("◁think▷It is warm.◁/think▷good", "good"),
        ("<reasoning>It is warm.</reasoning>\ngood", "good"),
        (HARMONY, "good"),
        ("Well. <think>It is warm.</think> good", "good"),
        (
            "<|START_THINKING|>It is warm.<|END_THINKING|><|START_RESPONSE|>good<|END_RESPONSE|>",
            "good",
        ),
        (HARMONY.replace("final<", "final <|constrain|>text<"), "good"),
        ("<|channel>thought\nIt is warm.\n<channel|>good", "good"),
        ("<think>\nIt is warm, and", ""),
        ([{"type": "reasoning", "text": "It is warm."}, GOOD], "good"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]}, GOOD], "good"),
    ],
    ids=str,
)
def test_reasoning_is_removed_and_counted(content, answer):
    read = chat_answer([message(content)], PROMPT)
    assert (read.text, read.trouble) == (answer, "" if answer else "empty")
    assert "reasoning" in read.removed


@pytest.mark.parametrize(
    "content",
    [
        "```\ngood\n```",
        "```text\ngood",
        "Here is the answer:\n\n```\ngood\n```\nIt is warm.",
        "````\ngood\n````",
        "Sure.\n\nHere is the answer:\n```\ngood\n```",
        "`good`",
        "**good**",
        "***good***",
        "Answer: good",
        "**Answer:** good",
        "The final answer is: good",
        "Answer: **good**",
        "### Answer\ngood",
        "assistant: good",
        "<|im_start|>assistant\ngood<|im_end|>\n<|im_start|>user\nmore",
        "good</s>",
        "good<end_of_turn>",
        "good<｜end▁of▁sentence｜>",
        "It is warm. <answer>good</answer>",
        "So it is \\boxed{good}.",
        "First \\boxed{bad}, and at last \\boxed{\\text{good}}",
    ],
)
def test_wrappers_are_removed_and_counted(content):
    read = chat_answer([message(content)], PROMPT)
    assert (read.text, read.ended) == ("good", "stop")
    assert read.removed == (("fence",) if "```" in content else ("wrapper",))


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("good", "good"),
        (" \n\ngood \n", "good"),
        ([{"type": "text", "text": "go"}, {"type": "text", "text": "od"}], "good"),
        ("SELECT `a`, `b` FROM t", "SELECT `a`, `b` FROM t"),
        ("a: b", "a: b"),
        ("x **y**", "x **y**"),
        ("__init__", "__init__"),
        ("**/*.py and src/**", "**/*.py and src/**"),
        ("<form><output>5</output></form>", "<form><output>5</output></form>"),
        ("Use </think> to close it", "Use </think> to close it"),
    ],
)
def test_plain_answers_stay(content, answer):
    assert chat_answer([message(content)], PROMPT) == Answer(answer)


@pytest.mark.parametrize(
    ("prompt", "content", "answer"),
    [
        # the examples' answers are fenced, quoted as code, or begin with the word
        ("q\n```\nx\n```\n\nq\n", "```\ny\n```", "```\ny\n```"),
        ("Use: `ls`\nUse:", "`pwd`", "`pwd`"),
        ("Q: q\nAnswer: 5\n\nQ: p\n", "Answer: 6", "Answer: 6"),
        # the cue of the query said once more
        ("Q: q\nA: 5\n\nQ: p\nA:", "A: 6", "6"),
        ("Q: q\nAnswer: 5\n\nQ: p\nAnswer:", "**Answer:** 6", "6"),
        ("Feeling: good\n\nA warm film.\nFeeling:", "**Feeling: good**", "good"),
        # what follows the name is the answer's own
        *(
            ("q\n", f"Answer: {answer}", answer)
            for answer in ("-5", "$5", ".5", "(A)", '{"a": 1}', '"x"', "./run -v")
        ),
    ],
)
def test_marks_of_the_prompt_belong_to_the_answer(prompt, content, answer):
    assert chat_answer([message(content)], prompt).text == answer


@pytest.mark.parametrize(
    "choices",
    [
        [],
        None,
        [{}],
        [{"message": None}],
        *([message(one)] for one in (None, "", [])),
        [message(None, tool_calls=[{"id": "x"}])],
        [message(None, tool_calls=None, function_call=None)],
    ],
    ids=str,
)
def test_no_answer_is_an_empty_one(choices):
    answer = chat_answer(choices, PROMPT)
    assert answer == Answer("")
    assert answer.trouble == "empty"


@pytest.mark.parametrize(
    ("choice", "text", "ended"),
    [
        ({"finish_reason": "length"}, "good", "length"),
        ({"finish_reason": "max_tokens"}, "good", "length"),
        ({"finish_reason": "MAX_TOKENS"}, "good", "length"),
        ({"finish_reason": "content_filter"}, "good", "refused"),
        ({"finish_reason": "content_filter: SAFETY"}, "", "refused"),
        ({"finish_reason": None}, "good", "stop"),
        ({"finish_reason": "model_context_window_exceeded"}, "good", "length"),
        ({"finish_reason": "sensitive"}, "good", "refused"),
        ({"finish_reason": "eos"}, "good", "stop"),
        ({"finish_reason": "end_turn"}, "good", "stop"),
        ({}, "good", "stop"),
        (message(None, refusal="I cannot help"), "", "refused"),
        (message([{"type": "refusal", "refusal": "I cannot help"}]), "", "refused"),
        (message(None) | {"finish_reason": "length"}, "", "length"),
    ],
    ids=str,
)
def test_why_an_answer_ended(choice, text, ended):
    assert chat_answer([message("good") | choice if text else choice], PROMPT) == (text, ended, ())
    if text:
        assert completed_answer({"text": "good", **choice}) == ("good", ended, ())


@pytest.mark.parametrize(
    "error", [{"message": "overloaded", "code": 502}, {"message": "overloaded"}, "overloaded"]
)
def test_an_error_in_a_choice_is_an_error(error):
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": error}
    for read in (lambda: chat_answer([choice], PROMPT), lambda: completed_answer(choice)):
        with pytest.raises(ValueError, match="the answer is an error: overloaded"):
            read()


LIGHT = {"name": "set_light", "arguments": '{"room": "hall"}'}


@pytest.mark.parametrize(
    ("prompt", "fields", "text"),
    [
        ("q 1", {"tool_calls": [{"type": "function", "function": LIGHT}]}, '{"room": "hall"}'),
        ("q 1", {"tool_calls": [{"function": LIGHT}] * 2}, '{"room": "hall"}\n{"room": "hall"}'),
        ("q 1", {"function_call": LIGHT}, '{"room": "hall"}'),
        ("q", {"function_call": {"name": "f", "arguments": {"a": "é"}}}, '{"a": "é"}'),
        ("q", {"tool_calls": [{"custom": {"name": "sh", "input": "ls -l"}}]}, "ls -l"),
        (
            'q\n{"name": "f", "arguments": {}}\n\nq\n',
            {"tool_calls": [{"function": LIGHT}]},
            '{"name": "set_light", "arguments": {"room": "hall"}}',
        ),
        (
            'off\nset_light(room="kitchen")\n\non\n',
            {"tool_calls": [{"function": LIGHT}]},
            'set_light(room="hall")',
        ),
    ],
)
def test_an_answer_in_a_tool_call_is_written_as_the_examples_are(prompt, fields, text):
    choice = {"message": {"content": None, **fields}, "finish_reason": "tool_calls"}
    assert chat_answer([choice], prompt) == (text, "tool_call", ())
    # a text beside a call is the answer
    choice["message"]["content"] = "good"
    assert chat_answer([choice], prompt) == Answer("good")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("    return x + 1", "    return x + 1"),
        ("```python\n    a = 1\n\n    return a\n```", "    a = 1\n\n    return a"),
        (
            "Sure:\n\n```sql\nSELECT a\nFROM b\n```\nThis lists a.",
            "SELECT a\nFROM b",
        ),
        ('```json\n{\n  "a": 1\n}\n```', '{\n  "a": 1\n}'),
        ("~~~\nx\n~~~", "x"),
        ("```\nAnswer: good\n```", "good"),
    ],
)
def test_code_keeps_its_lines_and_its_indentation(content, text):
    assert chat_answer([message(content)], PROMPT).text == text


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_in_a_field_of_its_own(field):
    read = chat_answer([message("good", **{field: "It is warm."})], PROMPT)
    assert read == Answer("good", "stop", ("reasoning",))
    read = chat_answer([message(None, **{field: "It is"})], PROMPT)
    assert read == Answer("", "stop", ("reasoning",))
    assert read.trouble == "empty"


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
            # Azure's message is longer than what is shown of it
            text = "The response was filtered by the policy. " * 7
            return 400, {"error": {"message": text, "code": "content_filter"}}
        return {"choices": [answers[prompt]] if prompt in answers else [], "usage": None}

    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    assert lm.generate(list("01234"), 8, ["\n"]) == ["good", "", "good", "", ""]
    assert (
        "Of 5 answers of the LM: 2 with reasoning, which was removed; 1 refused by the model "
        "or filtered by the server; 2 empty." in caplog.text
    )
    lm.generate(["0"], 8)
    assert caplog.text.count("with reasoning") == 1
    # no list of choices is no interface of chats
    server.change = lambda path, request, answer: {"output": "good"}
    with pytest.raises(
        UserError, match=r"no 'choices' in the answer.*; the server does not keep to the interface"
    ):
        lm.generate(["2"], 8)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "The response was filtered. " * 12, "code": "content_filter"}),
        (400, {"message": "Your prompt was flagged as violating our usage policy."}),
        (
            400,
            {"message": "Input may contain inappropriate content", "code": "DataInspectionFailed"},
        ),
        (403, {"message": "The model requires moderation and your input was flagged", "code": 403}),
        (200, {"message": "blocked", "code": "content_filter"}),
    ],
)
def test_a_text_that_a_filter_refuses_does_not_end_the_run(server, address, status, error):
    def change(path, request, answer):
        if path == "/v1/chat/completions" and request["messages"][0]["content"] == "1":
            return status, {"error": error}
        return answer

    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    assert [answer.ended for answer in lm.answers(list("012"), 8, ())] == [
        "stop",
        "refused",
        "stop",
    ]


def test_completions_without_a_text_and_with_reasoning(server, address, caplog):
    texts = [None, "<think>\nwarm\n</think> good", "<think>", " good"]
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    server.change = lambda path, request, answer: (
        {"choices": [{"text": text} for text in texts]} if path == "/v1/completions" else answer
    )
    assert lm.generate(list("abcd"), 8) == ["", " good", "", " good"]
    assert "Of 4 answers of the LM: 2 with reasoning, which was removed; 2 empty" in caplog.text


def test_a_server_that_fails_at_a_greeting_is_asked_where_chat_is_wanted(server, address):
    quick = replace(QUICK, chat=True, attempts=1)
    server.faults = [None, "drop"]
    assert not load_lm(f"{address}#tiny", endpoint=quick).can_score
    server.faults = [None, "drop"]
    with pytest.raises(UserError, match="the connection failed"):
        load_lm(f"{address}#other", endpoint=quick)


def test_an_error_in_a_choice_is_told_without_the_key(server, address, monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "sk-sesame")
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True, api_key_env="SERVER_KEY"))
    error = {"message": "overloaded for sk-sesame", "code": 502}
    server.change = lambda path, request, answer: {
        "choices": [{"message": {"content": ""}, "finish_reason": "error", "error": error}]
    }
    with pytest.raises(UserError) as failure:
        lm.generate(["x"], 8)
    assert "the answer is an error: overloaded for *** (502). Given up; finished" in str(
        failure.value
    )


@pytest.mark.parametrize("reason", ["abort", "network_error", "insufficient_system_resource"])
def test_an_answer_that_the_server_broke_off_is_an_error(reason):
    for read in (
        lambda: chat_answer([message("First we") | {"finish_reason": reason}], PROMPT),
        lambda: completed_answer({"text": "First we", "finish_reason": reason}),
    ):
        with pytest.raises(ValueError, match=f"the answer is an error: {reason}"):
            read()


@pytest.mark.parametrize(
    ("content", "text"), [({"team": "é"}, '{"team": "é"}'), (5, "5"), (False, "false")]
)
def test_an_answer_that_the_server_has_parsed_is_json_again(content, text):
    assert chat_answer([message(content)], PROMPT).text == text


@pytest.mark.parametrize("json", ['{"a": 1}', '[\n  "a"\n]', '{"a": 1}\n\nHope it helps.'])
@pytest.mark.parametrize("lead", ["Here is the JSON:\n\n", "Sure!\n\n**The JSON is:**\n"])
def test_a_line_before_json_is_removed_and_counted(lead, json):
    assert chat_answer([message(lead + json)], PROMPT) == (json, "stop", ("wrapper",))


@pytest.mark.parametrize(
    "content", ["Steps:\n[see below", "def f(x):\n\n    return x", "Dear Ann:\n{x}"]
)
def test_what_is_no_json_keeps_the_lines_before_it(content):
    assert chat_answer([message(content)], "Write.").text == content
