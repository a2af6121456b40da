"""The answer in what a chat model sends: without reasoning, special tokens, code fences and role prefixes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

_BLOCK = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_OPEN = rf"(?:<\|?{_BLOCK}\|?>|\[{_BLOCK}\]|◁{_BLOCK}▷|<\|begin_of_{_BLOCK}\|>|<\|channel\|>\s*analysis\b)"
_CLOSE = (
    rf"(?:<\|?/{_BLOCK}\|?>|\[/{_BLOCK}\]|◁/{_BLOCK}▷|<\|end_of_{_BLOCK}\|>"
    r"|<\|channel\|>\s*final\s*<\|message\|>)"
)
_REASONED = re.compile(rf"\A(?:.*{_CLOSE}|\s*{_OPEN}.*)", re.DOTALL | re.IGNORECASE)
"""Everything up to the last end of a block of reasoning, whose beginning may stand in the prompt; or a block that the
token limit has cut."""
_SPECIAL = (
    r"(?:<\|[\w ]+\|>(?:assistant\b)?|</?s>|<(?:start|end)_of_turn>(?:model\b)?|<pad>|<eos>|\[/?INST\])"
)
_FENCE = re.compile(r"(?:[^\n`]{0,200}:\s*\n+)?(```|~~~)[^\n`]*\n(.*?)(?:\n?\1|\Z)", re.DOTALL)
_TAG = re.compile(
    r"(<(answer|output|response|final_answer)>)(?P<text>.*?)(?:</\2>|\Z)", re.DOTALL | re.IGNORECASE
)
_BOX = re.compile(r"(\\boxed\{)(?P<text>[^{}]*)\}")
_ROLE = re.compile(
    r"\W{0,4}((?:(?:the |my )?(?:final )?(?:answer|output|response)(?: is)?|assistant|model|bot|(?-i:AI|A))):"
    r"\W{0,3}(?:\s|\b)",
    re.IGNORECASE,
)
_TEXTS = ("text", "output_text", None)
"""The types of the parts of a content that hold the answer."""


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
    message = (choices[0].get("message") if choices else None) or {}
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    apart = [message.get(name) for name in ("reasoning_content", "reasoning", "thinking")]
    apart += [part for part in parts if part.get("type") not in _TEXTS]
    whole = "".join(part.get("text") or "" for part in parts if part.get("type") in _TEXTS)
    said = _REASONED.sub("", whole)
    text = _unwrapped(said, prompt)
    found = {"reasoning": said != whole or any(apart), "wrapper": text != said.strip(), "empty": not text}
    return ChatText(text, tuple(name for name, there in found.items() if there))


def completed_text(choice: Any, *_: str) -> ChatText:
    """Return the answer in a choice of /completions, which may begin with reasoning as well."""
    whole = choice.get("text") or ""
    text = _REASONED.sub("", whole)
    return ChatText(text, ("reasoning",) * (text != whole) + ("empty",) * (not text))


def _unwrapped(text: str, prompt: str) -> str:
    """The answer without the marks around it that the prompt does not hold, and without white space."""
    text = re.sub(rf"^(?:\s*{_SPECIAL})+", "", text).strip("\ufeff \t\r\n")
    ends = (mark.start() for mark in re.finditer(_SPECIAL, text) if mark[0] not in prompt)
    text = text[: next(ends, None)].strip()
    if (fence := _FENCE.match(text)) and fence[1] not in prompt:
        text = fence[2]
    for pattern in (_TAG, _BOX):
        if (found := pattern.search(text)) and found[1] not in prompt:
            text = found["text"]
    text, before = text.strip(), prompt.rstrip()
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
    """Return one line on what stood around so many answers, by how often each was `found`; "" for nothing."""
    words = {
        "reasoning": "had reasoning, which was removed",
        "wrapper": "had a code fence, a role prefix or other marks around them, which were removed",
        "empty": "were empty (refused, or cut by the token limit while reasoning)",
    }
    said = ", ".join(f"{found[name]:,} {text}" for name, text in words.items() if found[name])
    return f"Of {answers:,} answers of the LM, {said}." if said else ""
