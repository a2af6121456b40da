"""A selection as the messages of a chat: the form that OpenAI's API made common."""

from __future__ import annotations

from ceil_jax.errors import UserError
from ceil_jax.selector import Selection
from ceil_jax.tasks.example import Example


def chat_messages(
    selection: Selection,
    *,
    system: str | None = None,
    user: str = "{input}",
    assistant: str = "{output}",
) -> list[dict[str, str]]:
    """`[{"role": …, "content": …}]`: each example a turn of the user and the assistant's answer,
    the query last.

    Args:
        selection: what a selector chose for a query.
        system: the first message, as it is.
        user: how a query stands in its turn; it names `input` and metadata.
        assistant: how an answer does; it may name `output` too.

    Raises:
        UserError: a name that an example or the query lacks.
    """
    messages = [{"role": "system", "content": system}] if system is not None else []
    for example in selection.examples:
        messages.append({"role": "user", "content": _filled(user, example, {})})
        answer = _filled(assistant, example, {"output": example.output})
        messages.append({"role": "assistant", "content": answer})
    return [*messages, {"role": "user", "content": _filled(user, selection.query, {})}]


def _filled(pattern: str, example: Example, answer: dict[str, str]) -> str:
    values = {**example.fields, "input": example.input, **answer}
    try:
        return pattern.format_map(values)
    except (KeyError, ValueError, AttributeError, TypeError, IndexError) as error:
        raise UserError(
            f"{pattern!r}: {error!r}; {example.id or 'the query'!r} has {', '.join(values)}, and "
            "braces that are meant as such are written {{ and }}"
        ) from None
