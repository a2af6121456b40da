"""The answer in a server's message, and the JSON schema that constrains it to labels.

Reasoning is left out of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ceil_jax.lm.answers import Answer, Ended, trimmed

_ENDED: dict[str, Ended] = {"length": "length", "content_filter": "refused"}
"""Reasons why an answer ended, by the server's words for them; all other words mean that the text is complete."""
_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"


def chat_answer(choices: Any, prompt: str) -> Answer:
    """Return the answer in the first choice of /chat/completions; "" if there is none.

    Reasoning is removed: the text before `</think>`, unless the prompt has that tag itself, and
    what servers write into fields of its own.

    Raises:
        TypeError: the content is not a text.
        ValueError: the choice is an error in place of an answer.

    >>> chat_answer([{"message": {"content": "<think>Warm is good.</think> good"}}], "A warm film. It is")
    Answer(text='good', ended='stop', removed=('reasoning',))
    """
    choice = choices[0] if choices else {}
    message = choice.get("message") or {}
    answer = completed_answer({**choice, "text": message.get("content")}, prompt)
    answer = answer._replace(text=trimmed(answer.text))
    return answer._replace(ended="refused") if message.get("refusal") else answer


def completed_answer(choice: Any, prompt: str, continuation: str = "") -> Answer:
    """Return the answer in a choice of /completions, as `chat_answer` does."""
    if choice.get("error"):
        raise ValueError(f"an error in place of an answer, {choice['error']}")
    whole = choice.get("text") or ""
    if not isinstance(whole, str):
        raise TypeError(f"an answer that is not a text, {whole!r:.80}")
    ended = _ENDED.get(choice.get("finish_reason") or "", "stop")
    if _THOUGHT_ENDS in prompt:
        return Answer(whole, ended)
    _, end, behind = whole.rpartition(_THOUGHT_ENDS)
    if end:
        return Answer(behind.lstrip(" \t"), ended, ("reasoning",))
    if behind.lstrip().startswith(_THOUGHT):
        # the token limit has cut it
        return Answer("", ended, ("reasoning",))
    return Answer(whole, ended)


def held_to(labels: Sequence[str]) -> dict[str, Any]:
    """Return the field of a request that constrains the answer to one of some labels."""
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": list(labels)}},
        "required": ["label"],
        "additionalProperties": False,
    }
    named = {"name": "label", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def label_in(answer: Answer) -> Answer:
    """Return the label in an answer that was constrained to labels.

    An answer that does not follow the schema is returned unchanged.

    >>> label_in(Answer('{"label": "billing"}')).text
    'billing'
    """
    try:
        value = json.loads(answer.text)
    except (ValueError, RecursionError):
        return answer
    label = value.get("label") if isinstance(value, dict) else None
    return answer._replace(text=label) if isinstance(label, str) else answer
