"""The model that a server lists: its context length, and the name of its results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ceil_jax.errors import UserError
from ceil_jax.lm.openai.client import FIRST_ATTEMPTS, Client, Refused, one_line

MOST_TOKENS = 2**31 - 1
"""The largest context length that is accepted from a server."""


@dataclass(frozen=True)
class Served:
    """A model on a server."""

    model: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    """The server's description of the model; empty if it is not listed."""
    others: tuple[str, ...] = ()
    """The names of the models that are listed, if this one is not."""

    @property
    def context_length(self) -> int | None:
        """The maximum number of tokens of prompt and answer together; None if the server does not say."""
        meta = self.entry.get("meta")
        facts = {**meta, **self.entry} if isinstance(meta, dict) else self.entry
        for name in ("max_model_len", "context_length", "n_ctx"):
            length = facts.get(name)
            if isinstance(length, int) and 1 < length <= MOST_TOKENS:
                return length
        return None

    def name(self, client: Client, interface: str = "") -> str:
        """Return the name under which results are cached.

        The model, its owner, and a hash of what the answers depend on.

        These are the server's description of the weights (`root`), or its address if it describes
        none; the interface; and settings of requests. The context length is no part of it.
        """
        owner = one_line(self.entry.get("owned_by") or "endpoint", 60)
        facts = f"{self.model} {owner} {self.entry.get('root')} {interface}"
        if not self.entry.get("root"):
            facts += f" {client.base}"
        facts += client.shapes_answers
        digits = hashlib.sha256(facts.encode(errors="replace")).hexdigest()[:8]
        return f"{one_line(self.model, 100)}@{owner}-{digits}"


def served_model(client: Client, model: str | None) -> Served:
    """Return the server's model of a name, or its only model if `model` is None.

    A name that is not listed is used all the same, and so is any name at a server without a list.

    Raises:
        UserError: `model` is None, and the server does not list exactly one model; or it cannot be
            reached or wants a key.
    """
    try:
        read = partial(_found, model=model, base=client.base)
        return client.ask("/models", None, read, FIRST_ATTEMPTS)
    except Refused as refusal:
        if refusal.status == 401:
            raise
        if model is None:
            raise UserError(
                f"{client.base} lists no models; name one, as in {client.base}#model-name"
            ) from None
    return Served(model)


def _found(answer: Any, model: str | None, base: str) -> Served:
    known = {entry["id"]: entry for entry in answer["data"] if isinstance(entry["id"], str)}
    if model is None:
        if len(known) != 1:
            names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "no models"
            raise UserError(f"{base} lists {names}; name one, as in {base}#model-name")
        [model] = known
    if model in known:
        return Served(model, known[model])
    return Served(model, others=tuple(known))
