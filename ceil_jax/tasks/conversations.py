"""Examples that are conversations. All messages are kept, as JSON, in the field `messages`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example

FIELD = "messages"
"""The field of an example that holds its conversation, as JSON."""

_EXPECTED = (
    'a list of messages in the form of OpenAI\'s chat API, such as {"role": "user", "content": "…"}'
)


def turns_of(example: Example) -> list[dict[str, Any]]:
    """Return the turns of an example that is a conversation; [] for other examples.

    A tool call without an answer gets an empty one, because servers refuse the turns after it
    otherwise.
    """
    text = example.fields.get(FIELD, "")
    if not text.startswith("[{"):
        return []
    try:
        turns = checked_turns(json.loads(text), FIELD)
    except (ValueError, UserError):
        return []
    answered = {turn.get("tool_call_id") for turn in turns}
    complete = []
    for turn in turns:
        complete.append(turn)
        calls = turn.get("tool_calls") or []
        complete += [
            {"role": "tool", "tool_call_id": call["id"], "content": ""}
            for call in calls
            if call["id"] not in answered
        ]
    return complete


def checked_turns(messages: Any, where: str) -> list[dict[str, Any]]:
    """Check messages, and return them without keys that have no value.

    A table has all keys in all of its rows. A content of None, as in a message with tool calls,
    stays.

    Raises:
        UserError: they have another form; the message begins with `where`.
    """
    if not isinstance(messages, list) or not messages:
        raise UserError(f"{where}: expected {_EXPECTED}, found {messages!s:.80}")
    turns = []
    for message in messages:
        turn = _present(message)
        calls = turn.get("tool_calls", []) if isinstance(turn, dict) else None
        is_message = (
            isinstance(turn, dict)
            and isinstance(turn.get("role"), str)
            and isinstance(turn.get("content"), str | list | None)
            and isinstance(calls, list)
            and all(isinstance(call, dict) and isinstance(call.get("id"), str) for call in calls)
        )
        if not is_message:
            raise UserError(f"{where}: expected {_EXPECTED}, found {message!s:.80}")
        if "content" in message:
            turn.setdefault("content", None)
        turns.append(turn)
    return turns


def _present(value: Any) -> Any:
    """A JSON value without the keys of its objects that have no value."""
    if isinstance(value, Mapping):
        return {name: _present(inner) for name, inner in value.items() if inner is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value
