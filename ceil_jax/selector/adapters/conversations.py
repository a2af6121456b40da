"""Conversations as examples: lists of messages in the form of OpenAI's chat API.

They may have tool calls and several turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.conversations import FIELD, checked_turns
from ceil_jax.tasks.example import Example


def conversation_examples(rows: Iterable[Mapping[str, Any]]) -> list[Example]:
    """Return an example for each conversation.

    The output is the assistant's last turn: its text, or its tool calls as JSON. The input is what
    was said before it, by the user, the assistant and tools: "Yes please." means what the assistant
    had asked. The field `messages` keeps all turns for `Selection.messages`.

    Args:
        rows: `{"messages": […]}`, as in a file for fine-tuning: `map(json.loads, open(file))`, or a
            dataset of `datasets`. Other columns become fields; lists and objects (`tools`) become
            JSON.

    Raises:
        UserError: a row has no such conversation; the message names its number and field.

    Examples:
        >>> question = {"role": "user", "content": "Hall light on"}
        >>> answer = {"role": "assistant", "content": "Done."}
        >>> row = {"messages": [question, answer], "lang": "en"}
        >>> example = conversation_examples([row])[0]
        >>> example.input, example.output, example.fields["lang"]
        ('Hall light on', 'Done.', 'en')
    """
    return [_example(number, row) for number, row in enumerate(rows, 1)]


def conversation_query(messages: Sequence[Mapping[str, Any]]) -> Example:
    """Return a query from a conversation that the assistant has to continue.

    Raises:
        UserError: there is no list of messages, or none of them is the user's.
    """
    turns = checked_turns(messages, "the query")
    if not _has_question(turns):
        raise UserError("the query: expected a message of the user")
    return Example("", _said(turns), "", fields={FIELD: _json(turns)})


def _example(number: int, row: Any) -> Example:
    where = f"conversations, row {number}"
    if not isinstance(row, Mapping):
        raise UserError(
            f'{where}: expected {{"messages": […]}}, found {type(row).__name__}; the lines of a file '
            "are map(json.loads, open(file))"
        )
    turns = checked_turns(row.get(FIELD), f"{where}, field '{FIELD}'")
    # the answer is the assistant's last turn; what comes after it is left out
    answers = [place for place, turn in enumerate(turns) if turn["role"] == "assistant"]
    conversation = turns[: answers[-1] + 1] if answers else []
    answer = _text_of(conversation[-1]) if conversation else ""
    if not (answer.strip() and _has_question(conversation)):
        raise UserError(
            f"{where}, field '{FIELD}': expected an answer of the assistant after a message of the "
            "user"
        )
    texts = {name: _text(value) for name, value in row.items() if name not in (FIELD, "id")}
    fields = {name: text for name, text in texts.items() if text}
    return Example(
        _text(row.get("id")),
        _said(conversation[:-1]),
        answer,
        fields={**fields, FIELD: _json(conversation)},
    )


def _has_question(turns: Sequence[Mapping[str, Any]]) -> bool:
    return any(turn["role"] == "user" and _content(turn).strip() for turn in turns)


def _said(turns: Sequence[Mapping[str, Any]]) -> str:
    """The text of all turns except the system's, one line each."""
    return "\n".join(filter(None, (_text_of(turn) for turn in turns if turn["role"] != "system")))


def _content(turn: Mapping[str, Any]) -> str:
    """The text of a turn, whose content may be a list of parts."""
    content = turn.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))


def _text_of(turn: Mapping[str, Any]) -> str:
    """A turn as text: its content, or its tool calls as JSON."""
    calls = turn.get("tool_calls")
    return _content(turn) or (_json(calls) if calls else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(value: Any) -> str:
    """A column's value as text; "" for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)
