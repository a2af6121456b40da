"""What servers and models put around an answer; each case has the answer that a reader would
take."""

import doctest
from dataclasses import replace

import pytest
from lm_server import QUICK

from ceil_jax.errors import UserError
from ceil_jax.lm import load_lm
from ceil_jax.lm.openai import chat
from ceil_jax.lm.openai.chat import chat_text

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
    read = chat_text([message(content)], PROMPT)
    assert read.text == answer and "reasoning" in read.found
    assert ("empty" in read.found) == (not answer)


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
    assert chat_text([message(content)], PROMPT) == ("good", ("wrapper",))


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
    assert chat_text([message(content)], PROMPT) == (answer, ())


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
    assert chat_text([message(content)], prompt).text == answer


@pytest.mark.parametrize(
    "choices",
    [
        *([], None, [{}], [{"message": None}]),
        *([message(one)] for one in (None, "", [])),
        [message(None, refusal="I cannot help")],
        [message(None, tool_calls=[{"id": "x"}])],
    ],
    ids=str,
)
def test_no_answer_is_an_empty_one(choices):
    assert chat_text(choices, PROMPT) == ("", ("empty",))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_in_a_field_of_its_own(field):
    assert chat_text([message("good", **{field: "It is warm."})], PROMPT) == (
        "good",
        ("reasoning",),
    )
    assert chat_text([message(None, **{field: "It is"})], PROMPT) == ("", ("reasoning", "empty"))


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
        return {"choices": [answers[prompt]] if prompt in answers else [], "usage": None}

    server.change = change
    lm = load_lm(f"{address}#tiny", endpoint=replace(QUICK, chat=True))
    assert lm.generate(list("01234"), 8, ["\n"]) == ["good", "", "good", "", ""]
    assert (
        "Of 5 answers of the LM, 2 had reasoning, which was removed, 3 were empty (refused, or "
        "cut by the token limit while reasoning)." in caplog.text
    )
    lm.generate(["0"], 8)
    assert caplog.text.count("had reasoning") == 1
    # no list of choices is no interface of chats
    server.change = lambda path, request, answer: {"output": "good"}
    with pytest.raises(UserError, match="no 'choices'; the server does not keep to the interface"):
        lm.generate(["2"], 8)


def test_completions_without_a_text_and_with_reasoning(server, address, caplog):
    texts = [None, "<think>\nwarm\n</think> good", "<think>", " good"]
    lm = load_lm(f"{address}#tiny", endpoint=QUICK)
    server.change = lambda path, request, answer: (
        {"choices": [{"text": text} for text in texts]} if path == "/v1/completions" else answer
    )
    assert lm.generate(list("abcd"), 8) == ["", " good", "", " good"]
    assert "Of 4 answers of the LM, 2 had reasoning, which was removed, 2 were empty" in caplog.text
