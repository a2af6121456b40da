"""The models that a server lists, and their descriptions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ceil_jax.errors import UserError

_LENGTHS = (
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)
"""Names that servers use for a model's context length; llama.cpp has it in `meta`."""
MOST_TOKENS = 2**31 - 1
"""Larger numbers of tokens from a server are not believed."""


@dataclass(frozen=True)
class Listed:
    """A model in the server's list of models."""

    model: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    """The model's description; empty if it is not listed."""
    others: tuple[str, ...] = ()
    """If the model is not listed: the names that are."""

    @property
    def listed(self) -> bool:
        """Whether the server has a list of models."""
        return bool(self.entry or self.others)

    @property
    def context_length(self) -> int | None:
        """The most tokens of prompt and answer together; None if the server does not say."""
        meta = self.entry.get("meta")
        for entry in (self.entry, meta if isinstance(meta, dict) else {}):
            for name in _LENGTHS:
                length = entry.get(name)
                if isinstance(length, int) and 1 < length <= MOST_TOKENS:
                    return length
        return None

    def name(self, interface: str = "") -> str:
        """Return the name under which results are cached: the model, its owner, and a hash of the
        server's description of the weights and of the interface.

        Neither the address nor the context length is part of the name, so that servers of the same
        model share results.
        """
        owner = one_line(self.entry.get("owned_by") or "endpoint", 60)
        facts = f"{self.model} {owner} {self.entry.get('root')} {interface}"
        digits = hashlib.sha256(facts.encode(errors="replace")).hexdigest()[:8]
        return f"{one_line(self.model, 100)}@{owner}-{digits}"


def listed_model(answer: Any, model: str | None, base: str) -> Listed:
    """Return the model of a name, or the only model of a server's list if `model` is None.

    A name that is not listed is accepted: Azure lists its catalogue and not deployments, and
    routers accept names with a suffix (`:free`), which have the description of the name before it.

    Raises:
        UserError: `model` is None, and there is not exactly one model.
        AttributeError, KeyError, TypeError: the answer is not a list of models.
    """
    entries = answer if isinstance(answer, list) else answer["data"]
    known = {entry["id"]: entry for entry in entries if isinstance(entry["id"], str)}
    if model is None:
        if len(known) != 1:
            names = ", ".join(one_line(name, 60) for name in sorted(known)[:8]) or "no models"
            raise UserError(f"{base} lists {names}; name one, as in {base}#model-name")
        [model] = known
    entry = known.get(model) or known.get(f"{model}:latest")
    if entry is not None:
        return Listed(model, entry)
    return Listed(model, known.get(model.partition(":")[0], {}), tuple(known))


def one_line(value: Any, limit: int = 200) -> str:
    """Return a value from a server as one printable line of at most `limit` characters."""
    try:
        text = str(value)
    except (RecursionError, ValueError):
        # nested too deeply, or a number of thousands of digits
        text = f"a {type(value).__name__} that cannot be shown"
    line = " ".join(text.split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def whole_number(value: Any, what: str) -> int:
    """Return a count from a server as an integer. A ValueError if it is negative or implausibly
    large."""
    number = int(value)
    if not 0 <= number <= MOST_TOKENS:
        raise ValueError(f"{what} {one_line(value, 40)}")
    return number
