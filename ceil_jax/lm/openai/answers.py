"""Reading a server's answers: the models that are served, entries in order, log-probabilities."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from ceil_jax.errors import UserError, unknown_name
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.openai.cleaning import HIDDEN, LONGEST, one_line
from ceil_jax.lm.openai.client import Client
from ceil_jax.lm.openai.schema import Choice, Models


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
        UserError: there is no such model, or there are several and none is named; its name holds the key, is
            longer than 200 characters or does not print, and so cannot be written.
    """
    known = {entry.id: entry for entry in client.get("/models", Models).data or ()}
    if model is None and len(known) != 1:
        names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "none"
        raise UserError(f"{client.base} serves {names}; name one, as in {client.base}#model-name")
    model = model or next(iter(known))
    if model not in known:
        near = difflib.get_close_matches(model, list(known)[:1000], n=8, cutoff=0.0)
        raise unknown_name(f"model of {client.base}", one_line(model), [one_line(name, 60) for name in near])
    if HIDDEN in model or len(model) > LONGEST or not model.isprintable():
        raise UserError(
            f"{client.base}: the model {one_line(model, 60)!r} has a name that cannot be written: expected at most "
            f"{LONGEST} printable characters without the key"
        )
    entry = known[model]
    length, owner = entry.max_model_len, one_line(entry.owned_by or "endpoint", 60)
    digits = hashlib.sha256(f"{model} {owner} {entry.root} {length}".encode()).hexdigest()[:8]
    stated = isinstance(length, int) and not isinstance(length, bool) and 0 < length < 2**31
    return Served(model, f"{model}@{owner}-{digits}", length if stated else None)


class Indexed(Protocol):
    """An entry of an answer that may state its place."""

    index: int | None


AnyEntry = TypeVar("AnyEntry", bound=Indexed)


def in_order(entries: Sequence[AnyEntry] | None, field: str, count: int, where: str) -> list[AnyEntry]:
    """Return the entries of an answer in the order of their indices.

    Args:
        entries: the entries; None for none.
        field: the field that holds them, for messages.
        count: how many entries were asked for.
        where: the address, for messages.

    Raises:
        UserError: the number of entries is another one, or an index is there twice or too high.
    """
    entries = entries or ()
    places = [place if entry.index is None else entry.index for place, entry in enumerate(entries)]
    if sorted(places) != list(range(count)):
        raise UserError(
            f"{where}: {len(entries)} {field} with indices {str(places[:20])[:60]} for {count} that were asked for; "
            "the server does not keep to the interface"
        )
    by_place = dict(zip(places, entries, strict=True))
    return [by_place[place] for place in range(count)]


def echoed_scores(choice: Choice, text: str, where: str) -> TokenScores:
    """Return the log-probabilities of the tokens of a text that was sent with `echo`; empty if there are none.

    Raises:
        UserError: there are more or fewer log-probabilities than tokens.
    """
    found = choice.logprobs
    tokens = (found and found.tokens) or []
    log_probs = (found and found.token_logprobs) or []
    if len(tokens) != len(log_probs):
        raise UserError(f"{where}: {len(tokens)} tokens with {len(log_probs)} log-probabilities")
    # a server may write a token although it was asked for none
    if choice.text not in (text, "", None) and len(tokens) > 1:
        tokens, log_probs = tokens[:-1], log_probs[:-1]
    return TokenScores(list(tokens), list(log_probs))
