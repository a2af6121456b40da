"""The answer in what a chat model writes: without reasoning, code fences, emphasis and role prefixes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

_BLOCK = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis)"
_REASONED = re.compile(rf".*[<[◁]/{_BLOCK}[>\]▷]|\s*[<[◁]{_BLOCK}[>\]▷].*", re.DOTALL | re.IGNORECASE)
"""Everything up to the last end of a block of reasoning, whose beginning may stand in the prompt; or a block that the
token limit has cut."""
_FENCE = re.compile(r"(?:[^\n`]{0,200}:\s*\n+)?(```|~~~)[^\n`]*\n(.*?)(?:\n?\1|\Z)", re.DOTALL)
_ROLE = re.compile(
    r"\W{0,4}((?:(?:the |my )?(?:final )?(?:answer|output|response)(?: is)?|assistant|(?-i:AI|A))):\W{0,3}(?:\s|\b)",
    re.IGNORECASE,
)


class ChatText(NamedTuple):
    """The answer in a text, and what stood around it."""

    text: str
    found: tuple[str, ...] = ()
    """Any of "reasoning", "wrapper", "empty"."""


def chat_text(choices: Any, prompt: str) -> ChatText:
    """Return the answer in the first choice of /chat/completions; "" where there is none.

    Args:
        choices: the answer's `choices`.
        prompt: the prompt. Marks that it holds itself, such as code fences around the answers of the examples,
            belong to the answer and stay.

    >>> chat_text([{"message": {"content": "<think>Warm is good.</think> **good**"}}], "A warm film. It is")
    ChatText(text='good', found=('reasoning', 'wrapper'))
    """
    message = choices[0]["message"] if choices else {}
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    apart = message.get("reasoning_content") or message.get("reasoning")
    apart = apart or any(part["type"] != "text" for part in parts)
    said, cut = _after_reasoning("".join(part["text"] for part in parts if part["type"] == "text"))
    text = _unwrapped(said, prompt)
    found = {"reasoning": cut or apart, "wrapper": text != said.strip(), "empty": not text}
    return ChatText(text, tuple(name for name, there in found.items() if there))


def completed_text(choice: Any, prompt: str) -> ChatText:
    """Return the answer in a choice of /completions, which may begin with reasoning as well."""
    text, cut = _after_reasoning(choice.get("text") or "")
    return ChatText(text, ("reasoning",) * cut + ("empty",) * (not text))


def _after_reasoning(text: str) -> tuple[str, bool]:
    reasoned = _REASONED.match(text)
    return (text[reasoned.end() :], True) if reasoned else (text, False)


def _unwrapped(text: str, prompt: str) -> str:
    """The answer without the marks around it that the prompt does not hold, and without white space."""
    text, before = text.strip(), prompt.rstrip()
    if (fence := _FENCE.match(text)) and fence[1] not in prompt:
        text = fence[2].strip()
    cue = before.rpartition("\n")[2]
    if cue.endswith((":", ">", "=")) and text.startswith(cue):
        text = text[len(cue) :].strip()
    elif role := _ROLE.match(text):
        name = f"{role[1]}:".lower()
        if name not in before.lower() or before.lower().endswith(name):
            text = text[role.end() :].strip()
    for pair in ("**", "`", "__"):
        inner = text[len(pair) : -len(pair)]
        if inner and text == f"{pair}{inner}{pair}" and pair not in inner + prompt:
            text = inner
    return text.strip()


def note_on(found: Counter[str], answers: int) -> str:
    """Return one line on what stood around answers; "" for nothing.

    Args:
        found: how often each of `ChatText.found` was there.
        answers: the number of answers.
    """
    words = {
        "reasoning": "had reasoning, which was removed",
        "wrapper": "had a code fence, a role prefix or other marks around them, which were removed",
        "empty": "were empty (refused, or cut by the token limit while reasoning)",
    }
    said = ", ".join(f"{found[name]:,} {text}" for name, text in words.items() if found[name])
    return f"Of {answers:,} answers of the LM, {said}." if said else ""
