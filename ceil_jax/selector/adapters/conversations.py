"""Conversations as examples: lists of messages in the form of OpenAI's chat API, with tool calls and
several turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.example import Example

FIELD = "messages"
"""The field of an example that holds its conversation, as JSON."""

_EXPECTED = (
    'a list of messages in the form of OpenAI\'s chat API, such as {"role": "user", "content": "…"}'
)


def conversation_examples(rows: Iterable[Mapping[str, Any]]) -> list[Example]:
    """Return an example for each conversation.

    The output is the assistant's last turn: its text, or its tool calls as JSON. The input is the
    text of the user's turns before it. The field `messages` keeps all turns for `chat_messages`.

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
    turns = _turns(messages, "the query")
    question = _words_of_user(turns)
    if not question.strip():
        raise UserError("the query: expected a message of the user")
    return Example("", question, "", fields={FIELD: _json(turns)})


def turns_of(example: Example) -> list[dict[str, Any]]:
    """Return the turns of an example that is a conversation; [] for other examples.

    A tool call without an answer gets an empty one, because servers refuse the turns after it
    otherwise.
    """
    text = example.fields.get(FIELD, "")
    if not text.startswith("[{"):
        return []
    try:
        turns = _turns(json.loads(text), FIELD)
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


def _example(number: int, row: Any) -> Example:
    where = f"conversations, row {number}"
    if not isinstance(row, Mapping):
        raise UserError(
            f'{where}: expected {{"messages": […]}}, found {type(row).__name__}; the lines of a file '
            "are map(json.loads, open(file))"
        )
    turns = _turns(row.get(FIELD), f"{where}, field '{FIELD}'")
    # the answer is the assistant's last turn; what comes after it is left out
    answers = [place for place, turn in enumerate(turns) if turn["role"] == "assistant"]
    conversation = turns[: answers[-1] + 1] if answers else []
    question = _words_of_user(conversation[:-1])
    answer = _answer(conversation[-1]) if conversation else ""
    if not (question.strip() and answer.strip()):
        raise UserError(
            f"{where}, field '{FIELD}': expected an answer of the assistant behind a message of the "
            "user"
        )
    texts = {name: _text(value) for name, value in row.items() if name not in (FIELD, "id")}
    fields = {name: text for name, text in texts.items() if text}
    return Example(
        _text(row.get("id")), question, answer, fields={**fields, FIELD: _json(conversation)}
    )


def _turns(messages: Any, where: str) -> list[dict[str, Any]]:
    """The messages, without keys that have no value: a table writes all keys in all of its rows. A
    content of None, as beside tool calls, stays. A UserError for another form."""
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


def _words_of_user(turns: Sequence[Mapping[str, Any]]) -> str:
    """The text of the user's turns."""
    texts = [_content(turn) for turn in turns if turn["role"] == "user"]
    return "\n".join(text for text in texts if text)


def _content(turn: Mapping[str, Any]) -> str:
    """The text of a turn, whose content may be a list of parts."""
    content = turn.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))


def _answer(turn: Mapping[str, Any]) -> str:
    """The assistant's turn as text."""
    calls = turn.get("tool_calls")
    return _content(turn) or (_json(calls) if calls else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(value: Any) -> str:
    """A column's value as text; "" for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)
