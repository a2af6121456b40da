"""What servers and models put around an answer; each case has the answer that a reader would take."""

import doctest
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.openai import chat
from ceil_jax.lm.openai.chat import chat_answer

PROMPT = "A dull film. It is bad\n\nA warm film. It is"
HARMONY = (
    "<|channel|>analysis<|message|>It is warm.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>good<|return|>"
)


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
        ("<think>\nIt is warm, and", ""),
        ([{"type": "reasoning", "text": "It is warm."}, {"type": "text", "text": "good"}], "good"),
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
                {"type": "text", "text": "good"},
            ],
            "good",
        ),
    ],
    ids=str,
)
def test_reasoning_is_removed_and_counted(content, answer):
    read = chat_answer(message(content), PROMPT)
    assert read.text == answer and "reasoning" in read.found
    assert ("empty" in read.found) == (not answer)


@pytest.mark.parametrize(
    "content",
    [
        "```\ngood\n```",
        "```text\ngood",
        "Here is the answer:\n\n```\ngood\n```\nIt is warm.",
        "`good`",
        "**good**",
        "Answer: good",
        "**Answer:** good",
        "The final answer is: good",
        "assistant: good",
        "<|im_start|>assistant\ngood<|im_end|>\n<|im_start|>user\nmore",
        "good</s>",
        "good<end_of_turn>",
        "It is warm. <answer>good</answer>",
        "So it is \\boxed{good}.",
    ],
)
def test_wrappers_are_removed_and_counted(content):
    assert chat_answer(message(content), PROMPT) == ("good", ("wrapper",))


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("good", "good"),
        (" \n\ngood \n", "good"),
        (["good"], "good"),
        ([{"type": "text", "text": "go"}, {"type": "text", "text": "od"}], "good"),
        ("SELECT `a`, `b` FROM t", "SELECT `a`, `b` FROM t"),
        ("a: b", "a: b"),
        ("x **y**", "x **y**"),
    ],
)
def test_plain_answers_stay(content, answer):
    assert chat_answer(message(content), PROMPT) == (answer, ())


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
    ],
)
def test_marks_of_the_prompt_belong_to_the_answer(prompt, content, answer):
    assert chat_answer(message(content), prompt).text == answer


@pytest.mark.parametrize(
    "choice",
    [
        None,
        {},
        {"message": None},
        7,
        message(None),
        message(""),
        message([]),
        message({"odd": 1}),
        message(None, refusal="I cannot help"),
        message(None, tool_calls=[{"id": "x"}]),
    ],
    ids=str,
)
def test_no_answer_is_an_empty_one(choice):
    assert chat_answer(choice, PROMPT) == ("", ("empty",))


def test_reasoning_in_a_field_of_its_own_and_texts_of_older_interfaces():
    for field in ("reasoning_content", "reasoning", "thinking"):
        assert chat_answer(message("good", **{field: "It is warm."}), PROMPT) == ("good", ("reasoning",))
    cut = message(None, reasoning_content="It is") | {"finish_reason": "length"}
    assert chat_answer(cut, PROMPT) == ("", ("reasoning", "empty", "length"))
    assert chat_answer({"text": "good"}, PROMPT) == ("good", ())


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
            return 400, {"error": {"message": "filtered", "code": "content_filter"}}
        return {"choices": [answers[prompt]] if prompt in answers else [], "usage": "odd"}

    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    assert lm.note == ""
    assert lm.generate(list("01234"), 8, ["\n"]) == ["good", "", "good", "", ""]
    assert lm.note == (
        "Of 5 answers of the LM, 2 had reasoning, which was removed, 1 were refused by the server's content filter, "
        "3 were empty."
    )
    assert lm.note in caplog.text
    lm.generate(["2"], 8)
    assert lm.note.startswith("Of 6 answers") and caplog.text.count("had reasoning") == 1
    # no list of choices is no interface of chats
    server.change = lambda path, request, answer: {"output": "good"}
    with pytest.raises(UserError, match="choices is missing"):
        lm.generate(["2"], 8)


def test_completions_without_a_text_and_with_reasoning(server, address):
    texts = [None, "<think>\nwarm\n</think> good", "<think>", " good"]
    server.change = lambda path, request, answer: (
        {"choices": [{"text": text} for text in texts]} if path == "/v1/completions" else answer
    )
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    assert lm.generate(list("abcd"), 8) == ["", " good", "", " good"]
    assert lm.note == "Of 4 answers of the LM, 2 had reasoning, which was removed, 2 were empty."
