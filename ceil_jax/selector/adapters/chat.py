"""A selection as the messages of a chat, in the form of OpenAI's API; examples that are
conversations (`selector.adapters.conversations`) keep all their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ceil_jax.selector import Selection
from ceil_jax.selector.adapters.conversations import turns_of
from ceil_jax.tasks.example import Example, filled

Message = dict[str, Any]
"""`{"role": …, "content": …}`, with any further fields of a message."""


def chat_messages(
    selection: Selection,
    *,
    system: str | None = None,
    user: str | None = None,
    assistant: str = "{output}",
) -> list[Message]:
    """Return `[{"role": …, "content": …}]`: for each example a turn of the user and the assistant's
    answer, and the query as the last turn.

    Examples that are conversations give all their turns and tool calls, but not their system
    message. If they all have the same one, it is the first message unless `system` is given.

    Args:
        selection: the examples and the query.
        system: the text of the first message.
        user: the text of a query's turn, with names of columns in braces, as in a template.
            `{input}` is the input if no column has this name. By default the text of the
            selection's template before the answer.
        assistant: the text of an answer's turn, likewise; it may name the output too.

    Raises:
        UserError: an example or the query lacks a column that is named.
    """
    conversations = [turns_of(example) for example in selection.examples]
    query_turns = turns_of(selection.query)
    if system is None:
        system = _system_of([*conversations, query_turns] if query_turns else conversations)
    messages: list[Message] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    for example, turns in zip(selection.examples, conversations, strict=True):
        if turns:
            messages += _without_system(turns)
            continue
        messages.append({"role": "user", "content": _user_turn(selection, example, user)})
        names = _names(selection, example)
        names |= {"output": example.output, selection.output_key: example.output}
        messages.append({"role": "assistant", "content": filled(assistant, example, names)})
    if query_turns:
        return messages + _without_system(query_turns)
    query = _user_turn(selection, selection.query, user)
    return [*messages, {"role": "user", "content": query}]


def _user_turn(selection: Selection, example: Example, user: str | None) -> str:
    """The user's turn of an example or the query."""
    if user is None:
        return selection.template.query(example).rstrip()
    return filled(user, example, _names(selection, example))


def _names(selection: Selection, example: Example) -> dict[str, str]:
    """The text of an example's input under each name that a pattern may use for it, unless a field has
    that name."""
    names = ("input", selection.template.input, selection.input_key)
    return {name: example.input for name in names if name not in example.fields}


def _system_of(conversations: Sequence[Sequence[Message]]) -> Any:
    """The system message of all conversations; None if they differ or have none."""
    contents = [
        next((turn.get("content") for turn in turns if _is_system(turn)), None)
        for turns in conversations
    ]
    # a content may be a list of parts, which cannot be in a set
    is_shared = bool(contents) and all(content == contents[0] for content in contents)
    return contents[0] if is_shared else None


def _without_system(turns: Sequence[Message]) -> list[Message]:
    return [turn for turn in turns if not _is_system(turn)]


def _is_system(turn: Message) -> bool:
    return turn["role"] in ("system", "developer")
