"""Checked reading of the fields of a request."""

from __future__ import annotations

from typing import Any

from ceil_jax.errors import UserError

Body = dict[str, Any]
"""The JSON object of a request or an answer."""


def texts(body: Body, field: str) -> list[str]:
    """Return the texts in a field that may hold one text or a list of them.

    Raises:
        UserError: it holds something else, or no text.
    """
    value = body.get(field)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise UserError(
            f"{field} is {str(value)[:60]}; expected a text or a list of texts (not of token ids)"
        )
    return found


def number(body: Body, field: str, default: float) -> float:
    """Return the number in a field, from 0 and below 2^63.

    Raises:
        UserError: it holds something else.
    """
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**63:
        raise UserError(f"{field} is {str(value)[:40]}; expected a number from 0, below 2^63")
    return value


def whole(body: Body, field: str, default: int) -> int:
    """Return the whole number in a field, from 0 and below 2^63.

    Raises:
        UserError: it holds something else.
    """
    value = number(body, field, default)
    if value != int(value):
        raise UserError(f"{field} is {value}; expected a whole number")
    return int(value)


def token_limit(body: Body, default: int) -> int:
    """Return the most tokens to write: `max_completion_tokens`, else `max_tokens`.

    Raises:
        UserError: it is no whole number.
    """
    name = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    return whole(body, name, default)
