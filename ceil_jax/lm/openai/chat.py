"""The answer in what a chat model sends: without reasoning, special tokens, code fences and role
prefixes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

_BLOCK = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad)"
_OPEN = (
    rf"(?:<\|?{_BLOCK}\|?>|\[{_BLOCK}\]|◁{_BLOCK}▷|<\|(?:begin_of|start)_{_BLOCK}\|>"
    r"|<\|channel\|?>\s*(?:analysis|thought)\b)"
)
_CLOSE = (
    rf"(?:<\|?/{_BLOCK}\|?>|\[/{_BLOCK}\]|◁/{_BLOCK}▷|<\|end_(?:of_)?{_BLOCK}\|>|<channel\|>"
    r"|<\|channel\|>\s*final\b[^\n]*?<\|message\|>)"
)
_REASONED = re.compile(
    rf"\A(?:.*{_OPEN}.*{_CLOSE}|.*(?:(?<=\n){_CLOSE}|{_CLOSE}(?=\s*\n|\S|\Z))|\s*{_OPEN}.*)",
    re.DOTALL | re.IGNORECASE,
)
"""Everything up to the last end of a block of reasoning, whose beginning may stand in the prompt,
but not up to one amid a sentence; or a block that the token limit has cut."""
_SPECIAL = (
    r"(?:<[|｜][\w "
    r"▁]+[|｜]>(?:assistant\b)?|</?s>|<(?:start|end)_of_turn>(?:model\b)?|<pad>|<eos>|\[/?INST\])"
)
_FENCE = re.compile(
    r"(?:(?:[^\n`]{0,200}\n+){0,2}[^\n`]{0,200}:\s*\n+)?(```+|~~~+)[^\n`]*\n(.*?)(?:\n?\1|\Z)",
    re.DOTALL,
)
_TAG = re.compile(
    r"(?:\A|(?<=\s))(<(answer|output|response|final_answer)>)(?P<text>.*?)(?:</\2>(?=\s|\Z)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_BOX = re.compile(
    r".*(\\boxed\{)(?:\\(?:text|mathrm)\{)?(?P<text>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}",
    re.DOTALL,
)
"""The last box."""
_NAMES = (
    r"(?:(?:the |my )?(?:final )?(?:answer|output|response)(?: is)?|assistant|model|bot|(?-i:AI|A))"
)
_HEADING = re.compile(rf"\s*#+ *\**{_NAMES}[:*]*[ \t]*\n\s*", re.IGNORECASE)
_TEXTS = ("text", "output_text", None)
"""The types of the parts of a content that hold the answer."""


class ChatText(NamedTuple):
    """The answer in a text, and what stood around it."""

    text: str
    found: tuple[str, ...] = ()
    """Any of "reasoning", "wrapper", "empty"."""


def chat_text(choices: Any, prompt: str) -> ChatText:
    """Return the answer in the first of the choices of /chat/completions; "" where there is none.

    Marks that the prompt holds itself, such as code fences around the answers of the examples,
    belong to the answer and stay.

    >>> chat_text([{"message": {"content": "<think>Warm is good.</think> **good**"}}], "A warm film. It is")
    ChatText(text='good', found=('reasoning', 'wrapper'))
    """
    first = min(choices or [{}], key=lambda choice: choice.get("index") or 0)
    message = first.get("message") or {}
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"text": content}]
    apart = [message.get(name) for name in ("reasoning_content", "reasoning", "thinking")]
    apart += [part for part in parts if part.get("type") not in _TEXTS]
    whole = "".join(part.get("text") or "" for part in parts if part.get("type") in _TEXTS)
    said = _REASONED.sub("", whole)
    text = _unwrapped(said, prompt)
    while (inside := _unwrapped(text, prompt)) != text:
        text = inside
    found = {
        "reasoning": said != whole or any(apart),
        "wrapper": text != said.strip(),
        "empty": not text,
    }
    return ChatText(text, tuple(name for name, there in found.items() if there))


def completed_text(choice: Any, *_: str) -> ChatText:
    """Return the answer in a choice of /completions, which may begin with reasoning as well."""
    whole = choice.get("text") or ""
    text = _REASONED.sub("", whole)
    return ChatText(text, ("reasoning",) * (text != whole) + ("empty",) * (not text))


def _unwrapped(text: str, prompt: str) -> str:
    """The answer without the marks around it that the prompt does not hold, and without white
    space."""
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
    if cue.endswith((":", ">", "=")) and (
        again := re.match(_prefix(re.escape(cue[:-1]), cue[-1]), text)
    ):
        text = text[again.end() :]
    elif role := re.match(_prefix(_NAMES, ":"), text, re.IGNORECASE):
        said = f"{role[2]}:".lower()
        if said not in before.lower() or before.lower().endswith(said):
            text = text[role.end() :]
    elif "#" not in prompt:
        text = _HEADING.sub("", text, count=1)
    for pair in ("***", "**", "`", "__"):
        inner = text[len(pair) : -len(pair)]
        plain = re.match(r"[^\s/.*]", inner) and not (pair == "__" and re.fullmatch(r"\w+", inner))
        if plain and text == f"{pair}{inner}{pair}" and pair not in inner + prompt:
            text = inner
    return text.strip()


def _prefix(name: str, end: str) -> str:
    """The pattern of a name before an answer, which may be set in bold with its end or without."""
    return rf"[\s#>-]*(\*\*|__|)({name})(?:\1{end}|{end}\1)\s*"


def note_on(found: Counter[str], answers: int) -> str:
    """Return one line on what stood around so many answers, by how often each was `found`; "" for
    nothing."""
    words = {
        "reasoning": "had reasoning, which was removed",
        "wrapper": "had a code fence, a role prefix or other marks around them, which were removed",
        "empty": "were empty (refused, or cut by the token limit while reasoning)",
    }
    said = ", ".join(f"{found[name]:,} {text}" for name, text in words.items() if found[name])
    return f"Of {answers:,} answers of the LM, {said}." if said else ""
