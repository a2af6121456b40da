"""A selection as the messages of a chat, the form that OpenAI's API made common; and banks of
conversations (`selector.adapters.conversations`) with all their turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ceil_jax.selector import Selection
from ceil_jax.selector.adapters.conversations import turns_of
from ceil_jax.tasks.example import Example, filled

Message = dict[str, Any]
"""`{"role": …, "content": …}`, and what else a message of a conversation has."""


def chat_messages(
    selection: Selection,
    *,
    system: str | None = None,
    user: str | None = None,
    assistant: str = "{output}",
) -> list[Message]:
    """Return `[{"role": …, "content": …}]`: each example a turn of the user and the assistant's
    answer, the query last.

    Examples that are conversations give all their turns, tool calls included, but their system
    message: that of all of them is the first message where they share one and `system` is not
    given.

    Args:
        selection: the examples and the query.
        system: the first message, as it is.
        user: how a query stands in its turn: names of columns in braces, written as in a template.
            `{input}` is the input where no column is called so. By default what the selection's
            template shows before the answer.
        assistant: how an answer does; it may name the output too.

    Raises:
        UserError: a name that an example or the query lacks.
    """
    conversations = [turns_of(example) for example in selection.examples]
    query_turns = turns_of(selection.query)
    shared = _system_of([*conversations, *([query_turns] if query_turns else [])])
    system = shared if system is None else system
    messages: list[Message] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    for example, turns in zip(selection.examples, conversations, strict=True):
        if turns:
            messages += _without_system(turns)
            continue
        messages.append({"role": "user", "content": _asked(selection, example, user)})
        names = _names(selection, example)
        names |= {"output": example.output, selection.output_key: example.output}
        messages.append({"role": "assistant", "content": filled(assistant, example, names)})
    if query_turns:
        return messages + _without_system(query_turns)
    query = _asked(selection, selection.query, user)
    return [*messages, {"role": "user", "content": query}]


def _asked(selection: Selection, example: Example, user: str | None) -> str:
    """The user's turn of an example or the query."""
    if user is None:
        return selection.template.query(example).rstrip()
    return filled(user, example, _names(selection, example))


def _names(selection: Selection, example: Example) -> dict[str, str]:
    """The names of an example's input beside its fields."""
    names = ("input", selection.template.input, selection.input_key)
    return {name: example.input for name in names if name not in example.fields}


def _system_of(conversations: Sequence[Sequence[Message]]) -> str | None:
    """The system message that all conversations have; None where they differ or have none."""
    contents = {
        next((turn.get("content") for turn in turns if _is_system(turn)), None)
        for turns in conversations
    }
    [content] = contents if len(contents) == 1 else [None]
    return content


def _without_system(turns: Sequence[Message]) -> list[Message]:
    return [turn for turn in turns if not _is_system(turn)]


def _is_system(turn: Message) -> bool:
    return turn["role"] in ("system", "developer")
