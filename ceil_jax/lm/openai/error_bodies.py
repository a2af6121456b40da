"""The message in the body of an error: every server and every proxy before it writes its own
form."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from ceil_jax.lm.openai.listing import one_line

_MESSAGES = (
    "message",
    "msg",
    "faultstring",
    "detail",
    "details",
    "error_description",
    "error_message",
    "errormessage",
    "description",
    "title",
    "reason",
    "raw",
    "error",
    "errors",
    "fault",
)
"""The names under which servers put a message, in lower case. What is inside comes after what
stands beside it: "Not Found" is often beside a message that says more."""
_CODES = ("code", "errorcode", "param", "loc", "field")
"""The names of what is added to a message: a code, and the field of the request that is meant."""
_DEEPEST = 8
"""Values that are nested more deeply are shown as they are."""
_LONGEST = 100_000
"""The most characters of a message."""
_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"\s*<(!doctype|html|head|body|\?xml|[a-z]+[\s>])", re.IGNORECASE)


def error_message(body: Any) -> str:
    """Return what an error says, as one line that is not yet cut: its message, with a code and the
    field that it names behind it; "" if it says nothing.

    Args:
        body: the JSON value of the body, or its text if it is no JSON, such as a proxy's web page.

    >>> error_message({"error": {"message": "no such model", "code": "not_found"}})
    'no such model (not_found)'
    >>> error_message({"detail": [{"loc": ["body", "n"], "msg": "Field required"}]})
    'Field required (body.n)'
    >>> error_message({"fault": {"faultstring": "Rate limit exceeded"}})
    'Rate limit exceeded'
    >>> error_message("<html><title>502 Bad Gateway</title><hr>nginx</html>")
    'a web page, 502 Bad Gateway'
    """
    return _said(body, 0)


def body_of(text: str) -> Any:
    """Return the JSON value of a body, or the text itself if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _said(value: Any, depth: int) -> str:
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, str):
        return one_line(_of_text(value), _LONGEST)
    if isinstance(value, list):
        texts = (_said(item, depth + 1) for item in value)
        return "; ".join(dict.fromkeys(text for text in texts if text))
    if not isinstance(value, Mapping) or depth > _DEEPEST:
        return one_line(value, _LONGEST)
    fields = {name.lower(): content for name, content in value.items()}
    message = next((said for name in _MESSAGES if (said := _said(fields.get(name), depth + 1))), "")
    # OpenRouter has the words of the provider here
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping) and (raw := _said(metadata.get("raw"), depth + 1)):
        message = f"{message}: {raw}" if message else raw
    codes = [_code(fields[name]) for name in _CODES if fields.get(name)]
    codes = [code for code in dict.fromkeys(codes) if code not in message]
    if message:
        return message + "".join(f" ({code})" for code in codes)
    return one_line(json.dumps(value, ensure_ascii=False), _LONGEST)


def _code(value: Any) -> str:
    if isinstance(value, list):
        return one_line(".".join(map(str, value)))
    return one_line(value)


def _of_text(text: str) -> str:
    """A text that is JSON inside a JSON value, or a page, as what it says; other texts
    unchanged."""
    if text.lstrip()[:1] in ("{", "["):
        value = body_of(text)
        return text if isinstance(value, str) else error_message(value)
    if not _MARKUP.match(text):
        return text
    titles = [" ".join(_TAGS.sub(" ", inner).split()) for _, inner in _TITLE.findall(text)]
    shown = next(filter(None, titles), "") or _TAGS.sub(" ", text)
    return f"a web page, {html.unescape(shown).strip()}" if shown.strip() else "a web page"
