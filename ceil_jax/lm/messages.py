"""The two forms of a prompt that an LM is given: a text, or the messages of a chat."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]
"""`{"role": …, "content": …}`, with any further fields of a message."""


class Messages(tuple[Message, ...]):
    """The messages of a chat as a prompt, in order; a tuple of `Message`, which hashes.

    >>> chat = Messages([{"role": "user", "content": "a dull film"}])
    >>> chat.text
    'user: a dull film\\nassistant:'
    """

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """The messages as one text, each after its role.

        Tokens are estimated by it, because marks around a message take about as many as its role, a
        colon and a line's end.
        """
        lines = [f"{message['role']}: {content_of(message)}\n" for message in self]
        return "".join([*lines, "assistant:"])


Rendered: TypeAlias = str | Messages
"""A prompt in the form that an LM receives: a text or messages."""


def text_of(prompt: Rendered) -> str:
    """Return a prompt as one text; messages are joined as in `Messages.text`."""
    return prompt if isinstance(prompt, str) else prompt.text


def content_of(message: Message) -> str:
    """Return the content of a message as text; parts, tool calls and the like are returned as JSON."""
    content = message.get("content")
    others = {
        name: value
        for name, value in message.items()
        if name not in ("role", "content") and value is not None
    }
    text = content if isinstance(content, str) else ""
    if content is not None and not isinstance(content, str):
        others["content"] = content
    return text + (json.dumps(others, ensure_ascii=False) if others else "")
