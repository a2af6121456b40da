"""Conversations as examples, from files in the form of OpenAI's fine-tuning or of ShareGPT, with
tool calls and several turns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.tasks.cells import plain
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.files import TableLike, read_table
from ceil_jax.tasks.rows import examples_of, valid
from ceil_jax.tasks.spec import FieldError, Row, RowError
from ceil_jax.tasks.tables.frames import is_frame
from ceil_jax.tasks.tables.table_rows import numbered_rows

FIELD = "messages"
"""The field of an example that holds its conversation, as JSON."""

_COLUMNS = (FIELD, "conversations", "conversation", "prompt")
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "ai": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
"""Names of roles in ShareGPT and LangChain, in lower case."""
_TRAINING_ONLY = ("weight",)
"""Keys of messages in fine-tuning files that chat servers refuse."""
_EXPECTED = (
    'a list of messages such as {"role": "user", "content": "…"} or {"from": "human", "value": "…"}'
)


def conversation_examples(source: TableLike | Iterable[Mapping[str, Any]]) -> list[Example]:
    """Return an example for each conversation of a file or a list of rows.

    The output is the assistant's last turn: its text, or its tool calls as JSON. The input is the
    text of the user's turns before it. The field `messages` keeps all turns for `chat_messages`.
    Other columns are fields too; lists and objects (`tools`) become JSON.

    Raises:
        UserError: the file cannot be read, or a row has no such conversation; the message names its
            line and field.

    Examples:
        >>> question = {"role": "user", "content": "Hall light on"}
        >>> answer = {"role": "assistant", "content": "Done."}
        >>> row = {"messages": [question, answer], "lang": "en"}
        >>> example = conversation_examples([row])[0]
        >>> example.input, example.output, example.fields["lang"]
        ('Hall light on', 'Done.', 'en')
    """
    is_table = isinstance(source, str | os.PathLike | Mapping) or is_frame(source)
    if is_table or not isinstance(source, Iterable):
        table = read_table(source)
    else:
        rows: list[Any] = list(source)
        table = numbered_rows(rows, "conversations")
    return examples_of(table, "conversation", (), _example)


def conversation_query(messages: Sequence[Mapping[str, Any]]) -> Example:
    """Return a query from a conversation that the assistant has to continue.

    Raises:
        UserError: there is no list of messages, or none of them is the user's.
    """
    try:
        turns = _turns(FIELD, list(messages))
    except FieldError as error:
        raise UserError(f"the query: {error}") from None
    return Example("", _words_of_user(turns), "", fields={FIELD: _json(turns)})


def turns_of(example: Example) -> list[dict[str, Any]]:
    """Return the turns of an example that is a conversation; [] for other examples.

    A tool call without an answer gets an empty one, because servers refuse the turns after it
    otherwise.
    """
    text = example.fields.get(FIELD, "")
    if not text.startswith("[{"):
        return []
    try:
        turns = _turns(FIELD, json.loads(text))
    except (ValueError, FieldError):
        return []
    answered = {turn.get("tool_call_id") for turn in turns}
    complete = []
    for turn in turns:
        complete.append(turn)
        calls = turn.get("tool_calls") or []
        complete += [
            {"role": "tool", "tool_call_id": call["id"], "content": ""}
            for call in calls
            if call.get("id") and call["id"] not in answered
        ]
    return complete


def _example(id: str, row: Row) -> Example:
    if isinstance(row, RowError):
        raise row
    if not isinstance(row, Mapping):
        raise RowError(f'expected {{"messages": […]}}, found {type(row).__name__}')
    # pandas reads lists in parquet files as arrays
    row = {name: plain(value) for name, value in row.items()}
    column = next((name for name in _COLUMNS if isinstance(row.get(name), list | str)), "")
    if not column:
        raise FieldError(FIELD, _EXPECTED, None)
    turns = _turns(column, row[column])
    # the answer is the assistant's last turn; what comes after it is left out
    answers = [number for number, turn in enumerate(turns) if turn["role"] == "assistant"]
    last = answers[-1] if answers else 0
    if last == 0:
        raise FieldError(column, "an answer of the assistant behind a message of the user", turns)
    conversation = turns[: last + 1]
    texts = {name: _text(value) for name, value in row.items() if name not in (column, "id")}
    fields = {name: text for name, text in texts.items() if text}
    fields[FIELD] = _json(conversation)
    if row.get("id") not in (None, ""):
        id = _text(row["id"])
    question = _words_of_user(conversation[:-1])
    return valid(Example(id, question, _answer(conversation[-1]), fields=fields))


def _turns(column: str, value: Any) -> list[dict[str, Any]]:
    """Messages in OpenAI's form, as servers take them: without keys that have no value, which tables
    write because all of their rows have the same keys, and without those for training alone."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise FieldError(column, _EXPECTED, value) from None
    if not isinstance(value, list) or not value:
        raise FieldError(column, _EXPECTED, value)
    turns: list[dict[str, Any]] = []
    for entry in value:
        if not isinstance(entry, Mapping):
            raise FieldError(column, _EXPECTED, entry)
        message = _present(entry)
        if "from" in message:
            turns.append(_from_share_gpt(column, message, turns))
        elif isinstance(message.get("role"), str):
            turns.append(_from_open_ai(entry, message, turns))
        else:
            raise FieldError(column, _EXPECTED, entry)
    return turns


def _present(value: Any) -> Any:
    """A JSON value without the keys of its objects that have no value."""
    value = plain(value)
    if isinstance(value, Mapping):
        return {name: _present(inner) for name, inner in value.items() if inner is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _from_open_ai(
    entry: Mapping[str, Any], message: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A message of OpenAI or of transformers in OpenAI's form: tool calls have ids, and their
    arguments are text. `entry` is the message with the keys that have no value."""
    turn = {name: value for name, value in message.items() if name not in _TRAINING_ONLY}
    turn["role"] = _ROLES.get(turn["role"].lower(), turn["role"])
    if "content" in entry:
        turn.setdefault("content", None)
    calls = turn.get("tool_calls")
    if isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls):
        turn["tool_calls"] = [
            _complete_call(call, f"call_{len(earlier)}_{number}")
            for number, call in enumerate(calls)
        ]
    if turn["role"] == "tool" and "tool_call_id" not in turn:
        turn["tool_call_id"] = _call_before(earlier)
    return turn


def _complete_call(call: Mapping[str, Any], id: str) -> dict[str, Any]:
    """A tool call with an id, a type, and arguments as text."""
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    function = {**function, "arguments": _text(function.get("arguments", {}))}
    return {"id": id, "type": "function", **call, "function": function}


def _call_before(earlier: Sequence[Mapping[str, Any]]) -> str:
    """The id of the first tool call that no turn has answered yet, for a result that names none."""
    answered = {turn.get("tool_call_id") for turn in earlier}
    lists = [turn.get("tool_calls") for turn in earlier]
    calls = [call for some in lists if isinstance(some, list) for call in some]
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)]
    return next((id for id in ids if id is not None and id not in answered), "call")


def _from_share_gpt(
    column: str, message: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> Any:
    """A message of ShareGPT in OpenAI's form. In ShareGPT's, a tool call is a turn by itself."""
    sender = str(message["from"])
    text = message.get("value") or ""
    role = _ROLES.get(sender.lower(), sender)
    if sender == "function_call":
        # a call, a list of calls, or the bare name of a function
        is_json = str(text).lstrip()[:1] in ("{", "[")
        try:
            calls = json.loads(text) if is_json else {"name": text}
        except ValueError:
            raise FieldError(column, "a function call as JSON", text) from None
        if not isinstance(calls, list):
            calls = [calls]
        tool_calls = [
            {
                "id": f"call_{len(earlier)}_{number}",
                "type": "function",
                "function": {
                    "name": call.get("name", ""),
                    "arguments": _text(call.get("arguments", call.get("parameters", {}))),
                },
            }
            for number, call in enumerate(calls)
        ]
        return {"role": role, "content": None, "tool_calls": tool_calls}
    if role == "tool":
        return {"role": role, "tool_call_id": _call_before(earlier), "content": text}
    return {"role": role, "content": text}


def _words_of_user(turns: Sequence[Mapping[str, Any]]) -> str:
    """The text of the user's turns."""
    texts = [_content(turn) for turn in turns if turn["role"] == "user"]
    return "\n".join(text for text in texts if text)


def _content(turn: Mapping[str, Any]) -> str:
    content = turn.get("content") or ""
    if isinstance(content, str):
        return content
    parts = [part.get("text") or "" for part in content if isinstance(part, Mapping)]
    return "".join(parts)


def _answer(turn: Mapping[str, Any]) -> str:
    """The assistant's turn as text."""
    calls = turn.get("tool_calls") or turn.get("function_call")
    return _content(turn) or (_json(calls) if calls else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    """A column's value as text; "" for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)
