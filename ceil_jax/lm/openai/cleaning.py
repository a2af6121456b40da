"""Cleaning of a server's text, the key taken out and its length cut, before any of it is written or logged."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

from ceil_jax.errors import UserError

try:
    from pydantic_core import from_json, to_json
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[endpoint]'") from None

LONGEST = 200
"""The most characters of a server's that stand in a message or a name."""
HIDDEN = "***"
"""The text in place of the key, where a server sent it back."""

# at DEBUG they print the headers of answers, where a server may have put the key
for _logger in ("httpcore2.http11", "httpcore2.proxy"):
    logging.getLogger(_logger).setLevel(logging.INFO)


def without_key(text: str, key: str | None) -> str:
    """Return a text in which the key, also percent-encoded, is replaced by ***.

    Args:
        text: any text.
        key: the key; None for none.
    """
    if key is None:
        return text
    for spelt in (key, quote(key), quote(key, safe="")):
        text = text.replace(spelt, HIDDEN)
    return text


def one_line(value: Any, limit: int = LONGEST) -> str:
    """Return a value of a server's as one printable line, cut in length. The key must be out of it already.

    Args:
        value: a text, or anything else of a JSON answer.
        limit: the most characters.
    """
    text = " ".join(str(value).split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def clean_json(body: bytes, key: str | None) -> Any:
    """Return the content of JSON, in whose texts the key is replaced by ***.

    Args:
        body: UTF-8.
        key: the key; None for none.

    Raises:
        ValueError: it is no JSON, or nested more deeply than 200 levels.
    """
    content = from_json(body)
    if key is None:
        return content
    # written again, so that it does not matter by which escapes the server spelt the key
    plain = to_json(content, inf_nan_mode="constants")
    spelt = to_json(key)[1:-1]
    return from_json(plain.replace(spelt, HIDDEN.encode())) if spelt in plain else content
