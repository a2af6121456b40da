"""Extracting the answer from what a server sends: from a text, a tool call or a list of parts,
without reasoning, special tokens, code fences and role prefixes; and why it ended."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ceil_jax.lm.answers import Answer, Ended, Removed, end_of_json, trimmed
from ceil_jax.lm.openai.error_bodies import error_message
from ceil_jax.lm.openai.http import FailedAnswer

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
"""Everything up to the last end of a block of reasoning, whose beginning may be in the prompt,
unless it is in the middle of a sentence; or a block that the token limit has cut off."""
_SPECIAL = (
    r"(?:<[|｜][\w "
    r"▁]+[|｜]>(?:assistant\b)?|</?s>|<(?:start|end)_of_turn>(?:model\b)?|<pad>|<eos>|\[/?INST\])"
)
_FENCE = re.compile(
    r"(?:(?:[^\n`]{0,200}\n+){0,2}[^\n`]{0,200}:\s*\n+)?(```+|~~~+)[^\n`]*\n(.*?)(?:\n?\1|\Z)",
    re.DOTALL,
)
_LEAD = re.compile(r"(?:[^\n]{0,200}\n+){0,2}[^\n]{0,200}:[ *]*\n+(?=[{\[])")
"""Lines before an answer that is JSON, such as "Here is the JSON:"."""
_TAG = re.compile(
    r"(?:\A|(?<=\s))(<(answer|output|response|final_answer)>)(?P<text>.*?)(?:</\2>(?=\s|\Z)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_BOX = re.compile(
    r".*(\\boxed\{)(?:\\(?:text|mathrm)\{)?(?P<text>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}",
    re.DOTALL,
)
"""The last `\\boxed{…}` of a text."""
_NAMES = (
    r"(?:(?:the |my )?(?:final )?(?:answer|output|response)(?: is)?|assistant|model|bot|(?-i:AI|A))"
)
_HEADING = re.compile(rf"\s*#+ *\**{_NAMES}[:*]*[ \t]*\n\s*", re.IGNORECASE)
_REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message that contain reasoning."""
_TEXTS = ("text", "output_text", None)
"""The types of the parts of a content that are the answer."""


_ENDED: dict[str, Ended] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refused",
    "content_filtered": "refused",
    "refusal": "refused",
    "safety": "refused",
    "recitation": "refused",
    "blocklist": "refused",
    "prohibited_content": "refused",
    "sensitive": "refused",
}
"""Reasons for an end that servers give, in lower case. All others mean that the text is complete,
except those of `_FAILED`."""
_FAILED = ("error", "abort", "network_error", "insufficient_system_resource")
"""Reasons for an end at which the server could not go on."""


def chat_answer(choices: Any, prompt: str) -> Answer:
    """Return the answer in the first choice of /chat/completions; "" if there is none.

    Marks that the prompt itself contains, such as code fences around the examples' answers, are
    kept. If the content is empty and a tool is called, the call is the answer, written in the form
    of the prompt's examples.

    Raises:
        FailedAnswer: the choice is an error in place of an answer.

    >>> chat_answer([{"message": {"content": "<think>Warm is good.</think> **good**"}}], "A warm film. It is")
    Answer(text='good', ended='stop', removed=('reasoning', 'wrapper'))
    """
    # the first choice, wherever it stands
    choice = min(choices, key=lambda choice: choice.get("index") or 0) if choices else {}
    message = choice.get("message") or {}
    ended = _ended(choice)
    content = _text(message.get("content")) or choice.get("text") or ""
    entries = content if isinstance(content, list) else [content]
    parts: list[Any] = [{"text": entry} if isinstance(entry, str) else entry for entry in entries]
    # the content in full: the answer, perhaps with reasoning and marks around it
    whole = "".join(part.get("text") or "" for part in parts if part.get("type") in _TEXTS)
    if message.get("refusal") or any(part.get("type") == "refusal" for part in parts):
        ended = "refused"
    elif not whole.strip() and (calls := _calls(message)):
        return Answer(_written(calls, prompt), "length" if ended == "length" else "tool_call")
    # reasoning may be in fields or parts of its own, or before the answer in its text
    reasoning: list[Any] = [message.get(name) for name in _REASONING]
    reasoning += [part for part in parts if part.get("type") not in (*_TEXTS, "refusal")]
    text = _REASONED.sub("", whole)
    if text != whole:
        text = text.lstrip(" \t")  # a space after the block, not a line's indentation
    inner, fenced = _unwrapped(text, prompt)
    removed: dict[Removed, bool] = {
        "reasoning": text != whole or any(reasoning),
        "fence": fenced,
        "wrapper": not fenced and inner.strip() != text.strip(),
    }
    if not removed["wrapper"] and not fenced:
        # indentation is kept; a single space comes from a tokenizer
        inner = re.sub(r"\A (?! )", "", trimmed(text.strip("\ufeff")))
    return Answer(inner, ended, tuple(name for name, was_removed in removed.items() if was_removed))


def _text(content: Any) -> Any:
    """A content that is a text or a list of parts unchanged. Some servers parse an answer that is
    JSON: a value that no text is becomes JSON again."""
    if content is None or isinstance(content, str | list):
        return content
    return json.dumps(content, ensure_ascii=False)


def completed_answer(choice: Any, *_: str) -> Answer:
    """Return the answer in a choice of /completions, which may also begin with reasoning. Raises
    what `chat_answer` does."""
    ended = _ended(choice)
    whole = choice.get("text") or ""
    text = _REASONED.sub("", whole)
    return Answer(text, ended, () if text == whole else ("reasoning",))


def _ended(choice: Any) -> Ended:
    """Why a choice ended. Raises a FailedAnswer if it is an error."""
    reason = choice.get("finish_reason") or choice.get("stop_reason") or ""
    error = choice.get("error")
    # Gemini writes what it found behind it: "content_filter: PROHIBITED_CONTENT"
    reason = str(reason).lower().partition(":")[0]
    if error or reason in _FAILED:
        raise FailedAnswer(f"the answer is an error: {error_message(error) or reason}")
    return _ENDED.get(reason, "stop")


class _Call(NamedTuple):
    name: str
    arguments: str


def _calls(message: Any) -> list[_Call]:
    """The tool calls of a message, including the old form and custom tools."""
    entries = [entry for entry in message.get("tool_calls") or [] if isinstance(entry, dict)]
    functions = [entry.get("function") or entry.get("custom") for entry in entries]
    calls = []
    for function in (*functions, message.get("function_call")):
        if isinstance(function, dict):
            value = function.get("arguments", function.get("input"))
            arguments = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if value is not None:
                calls.append(_Call(str(function.get("name") or ""), arguments))
    return calls


def _written(calls: list[_Call], prompt: str) -> str:
    """Calls as text: with the tool's name if the prompt's examples have such names, else only their
    arguments."""
    name_field = re.search(r"""["'](name|function|tool)["']\s*:""", prompt)
    texts = []
    for call in calls:
        text = call.arguments
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if name_field and isinstance(values, dict):
            field = "parameters" if '"parameters"' in prompt else "arguments"
            text = json.dumps({name_field[1]: call.name, field: values}, ensure_ascii=False)
        elif f"{call.name}(" in prompt and isinstance(values, dict):
            pairs = (f"{name}={json.dumps(value)}" for name, value in values.items())
            text = f"{call.name}({', '.join(pairs)})"
        texts.append(text)
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _unwrapped(text: str, prompt: str) -> tuple[str, bool]:
    """The answer without surrounding marks that the prompt does not contain, and whether it was in
    a code fence. Lines in a fence are unchanged."""
    fenced = False
    while True:
        inner, code = _once_unwrapped(text, prompt)
        fenced = fenced or code
        if inner == text or (fenced and "\n" in inner):
            return inner, fenced
        text = inner


def _once_unwrapped(text: str, prompt: str) -> tuple[str, bool]:
    """The answer without one layer of marks, and whether a fence was among them."""
    text = _without_special_tokens(text, prompt)
    if (fence := _FENCE.match(text)) and fence[1] not in prompt:
        return trimmed(fence[2]), True
    if (lead := _LEAD.match(text)) and end_of_json(text[lead.end() :]) is not None:
        return text[lead.end() :], False
    for pattern in (_TAG, _BOX):
        if (match := pattern.search(text)) and match[1] not in prompt:
            text = match["text"]
    text = _without_heading(text.strip(), prompt)
    return _without_emphasis(text, prompt).strip(), False


def _without_special_tokens(text: str, prompt: str) -> str:
    """The answer behind special tokens at its beginning, and before the next one that is not in the
    prompt."""
    text = re.sub(rf"^(?:\s*{_SPECIAL})+", "", text).strip("\ufeff \t\r\n")
    ends = (mark.start() for mark in re.finditer(_SPECIAL, text) if mark[0] not in prompt)
    return text[: next(ends, None)].strip()


def _without_heading(text: str, prompt: str) -> str:
    """The answer without a repetition of the words that open it in the prompt, such as `Answer:`,
    else without the name of a role, else without a heading."""
    before = prompt.rstrip()
    cue = before.rpartition("\n")[2]  # the last line of the prompt, such as `Answer:`
    if cue.endswith((":", ">", "=")):
        repetition = re.match(_prefix(re.escape(cue[:-1]), cue[-1]), text)
        if repetition:
            return text[repetition.end() :]
    role = re.match(_prefix(_NAMES, ":"), text, re.IGNORECASE)
    if role:
        # the answers of the prompt's examples may begin with such a name themselves
        prefix = f"{role[2]}:".lower()
        in_answers = prefix in before.lower() and not before.lower().endswith(prefix)
        return text if in_answers else text[role.end() :]
    return text if "#" in prompt else _HEADING.sub("", text, count=1)


def _without_emphasis(text: str, prompt: str) -> str:
    """The answer without the marks of Markdown around it, unless the prompt has such marks."""
    for mark in ("***", "**", "`", "__"):
        inner = text[len(mark) : -len(mark)]
        # not `**/*.py**`, which is a pattern, nor `__init__`, which is a name
        is_words = re.match(r"[^\s/.*]", inner) is not None
        is_name = mark == "__" and re.fullmatch(r"\w+", inner) is not None
        is_marked = text == f"{mark}{inner}{mark}" and mark not in inner
        if is_marked and is_words and not is_name and mark not in prompt:
            text = inner
    return text


def _prefix(name: str, end: str) -> str:
    """A pattern for a name before an answer, which may be in bold with or without its end."""
    return rf"[\s#>-]*(\*\*|__|)({name})(?:\1{end}|{end}\1)\s*"
