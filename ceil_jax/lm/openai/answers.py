"""Checked reading of a server's answers: models, entries in order, log-probabilities."""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.openai.client import Client


class Served(NamedTuple):
    """A model that a server lists."""

    model: str
    """The name by which requests ask for it."""
    name: str
    """The model's name and what the server says of it (owner, root, context length), without the address: two
    servers of the same model share results."""
    context_length: int | None
    """The context length in tokens; None where the server does not say."""


def find_model(client: Client, model: str | None) -> Served:
    """Return the model of that name among those that a server lists.

    Args:
        client: asks the server.
        model: its name; None for the only one.

    Raises:
        UserError: there is no such model, or there are several and none is named.
    """
    listed = client.get("/models").get("data")
    known = {entry["id"]: entry for entry in listed or () if isinstance(entry, dict) and "id" in entry}
    if model is None and len(known) != 1:
        names = ", ".join(sorted(known)[:8]) or "none"
        raise UserError(f"{client.base} serves {names}; name one, as in {client.base}#model-name")
    model = model or next(iter(known))
    if model not in known:
        raise unknown_name(f"model of {client.base}", model, known)
    entry = known[model]
    length = entry.get("max_model_len")
    owner = str(entry.get("owned_by") or "endpoint")
    stated = f"{model} {owner} {entry.get('root')} {length}"
    digits = hashlib.sha256(stated.encode()).hexdigest()[:8]
    return Served(model, f"{model}@{owner}-{digits}", length if isinstance(length, int) else None)


def in_order(answer: dict[str, Any], field: str, count: int, where: str) -> list[dict[str, Any]]:
    """Return the entries of a field in the order of their indices.

    Args:
        answer: the server's answer.
        field: the field with the entries.
        count: how many entries were asked for.
        where: the address, for messages.

    Raises:
        UserError: the number of entries is another one, or an index is missing, there twice or no whole number.
    """
    entries = answer.get(field)
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    if not all(isinstance(place, int) for place in places) or sorted(places) != list(range(count)):
        raise UserError(
            f"{where}: {len(entries)} {field} with indices {str(places)[:60]} for {count} that were asked for; "
            "the server does not keep to the interface"
        )
    by_place = dict(zip(places, entries, strict=True))
    return [by_place[place] for place in range(count)]


def typed_field(entry: dict[str, Any], name: str, kind: type, where: str) -> Any:
    """Return a field of a choice.

    Raises:
        UserError: its value is of another type.
    """
    value = entry.get(name)
    if not isinstance(value, kind):
        raise UserError(f"{where}: a choice whose {name} is {str(value)[:40]!r}; expected {kind.__name__}")
    return value


def echoed_scores(choice: dict[str, Any], text: str, where: str) -> TokenScores:
    """Return the log-probabilities of the tokens of a text that was sent with `echo`; empty if there are none.

    Raises:
        UserError: there are more or fewer log-probabilities than tokens, or one is not finite or above 0.
    """
    found = choice.get("logprobs")
    found = found if isinstance(found, dict) else {}
    tokens, log_probs = found.get("tokens") or [], found.get("token_logprobs") or []
    if len(tokens) != len(log_probs):
        raise UserError(f"{where}: {len(tokens)} tokens with {len(log_probs)} log-probabilities")
    for token, log_prob in zip(tokens, log_probs, strict=True):
        if log_prob is not None and not (math.isfinite(log_prob) and log_prob < 1e-3):
            raise UserError(f"{where}: log-probability {log_prob} of {token[:40]!r}; expected 0 or less")
    # a server may write a token although it was asked for none
    if choice.get("text") not in (text, "", None) and len(tokens) > 1:
        tokens, log_probs = tokens[:-1], log_probs[:-1]
    return TokenScores(list(tokens), list(log_probs))
