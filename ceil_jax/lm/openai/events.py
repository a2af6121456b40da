"""Putting together an answer that arrives as a stream of events although none was requested."""

from __future__ import annotations

import json
import re
from typing import Any

_EVENT = re.compile(r"\s*(:[^\n]*\n\s*)*(data|event|id|retry):")
"""The beginning of a stream of events. Lines that begin with a colon are comments, which keep a
connection open."""
_DATA = re.compile(r"^data:(.*)$", re.MULTILINE)
_EMPTY = ("", "[DONE]")
_IN_PIECES = (
    "content",
    "text",
    "reasoning",
    "reasoning_content",
    "thinking",
    "refusal",
    "arguments",
)
"""The fields that arrive in pieces; others, such as a role, arrive whole."""


def is_stream(text: str) -> bool:
    """Return whether a body is a stream of events and not JSON."""
    return _EVENT.match(text) is not None


def whole_answer(text: str) -> dict[str, Any]:
    r"""Return the answer from its pieces in the events of a stream.

    >>> piece = '{"choices": [{"index": 0, "delta": {"content": "%s"}}]}'
    >>> whole_answer(f"data: {piece % 'go'}\n\ndata: {piece % 'od'}\n\ndata: [DONE]\n\n")
    {'choices': [{'index': 0, 'message': {'content': 'good'}}]}

    Raises:
        ValueError: an event is not complete JSON or not a part of an answer, or there are no
            events.
    """
    events = [json.loads(data) for data in _DATA.findall(text) if data.strip() not in _EMPTY]
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    try:
        for event in events:
            for piece in event.pop("choices", None) or []:
                piece["message"] = piece.pop("delta", None) or piece.get("message")
                _join(choices.setdefault(piece.get("index") or 0, {}), piece)
            answer |= {name: value for name, value in event.items() if value is not None}
    except (AttributeError, KeyError, TypeError) as odd:
        raise ValueError(f"a stream of events that are no answer ({odd})") from None
    if choices:
        answer["choices"] = list(choices.values())
    if not answer:
        raise ValueError("a stream without an answer")
    return answer


def _join(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece of an answer to those before it: texts are appended, and entries of lists are
    matched by their index."""
    for name, value in piece.items():
        before = whole.get(name)
        if value is None:
            continue
        if isinstance(value, dict):
            _join(whole.setdefault(name, {}), value)
        elif isinstance(value, list):
            whole[name] = _joined(before or [], value)
        elif name in _IN_PIECES and before is not None:
            whole[name] = before + value
        else:
            whole[name] = value


def _joined(before: list[Any], pieces: list[Any]) -> list[Any]:
    if not all(isinstance(piece, dict) and "index" in piece for piece in pieces):
        return [*before, *pieces]
    entries = {entry["index"]: entry for entry in before}
    for piece in pieces:
        _join(entries.setdefault(piece["index"], {}), piece)
    return list(entries.values())
