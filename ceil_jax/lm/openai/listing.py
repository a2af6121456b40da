"""The models that a server lists, and what it says of one."""

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
"""Names that servers give to a model's context length; llama.cpp's stands in `meta`."""
MOST_TOKENS = 2**31 - 1
"""The most tokens that any number of a server's is believed to count."""


@dataclass(frozen=True)
class Listed:
    """A model, as the server's list of models describes it."""

    model: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    """Empty where the model is not listed."""
    others: tuple[str, ...] = ()
    """The names that are listed, where the model is not among them."""

    @property
    def context_length(self) -> int | None:
        """The most tokens that the model reads, prompt and answer together; None where the server
        does not say."""
        meta = self.entry.get("meta")
        for entry in (self.entry, meta if isinstance(meta, dict) else {}):
            for name in _LENGTHS:
                length = entry.get(name)
                if isinstance(length, int) and 1 < length <= MOST_TOKENS:
                    return length
        return None

    def name(self, interface: str = "") -> str:
        """Return the name for results: the model, its owner, and digits that stand for what the
        server says of its weights and for the interface that is asked.

        Neither the address nor the context length is in it: two servers of the same model share
        results, and so do two that read prompts of different lengths.
        """
        owner = one_line(self.entry.get("owned_by") or "endpoint", 60)
        facts = f"{self.model} {owner} {self.entry.get('root')} {interface}"
        digits = hashlib.sha256(facts.encode(errors="replace")).hexdigest()[:8]
        return f"{one_line(self.model, 100)}@{owner}-{digits}"


def listed_model(answer: Any, model: str | None, base: str) -> Listed:
    """Return the model of that name, or without one the only model of a server's list.

    A name that is not listed is not refused: Azure lists its catalogue and not what was deployed,
    and routers take names with an end (`:free`), whose description is that of the name before it.

    Raises:
        UserError: without a name, there is not exactly one model.
        AttributeError, KeyError, TypeError: the answer is no list of models.
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
    """Return a value of a server's as one printable line of at most `limit` characters."""
    try:
        text = str(value)
    except (RecursionError, ValueError):
        # nested too deeply, or a number of thousands of digits
        text = f"a {type(value).__name__} that cannot be shown"
    line = " ".join(text.split())[:limit]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def whole_number(value: Any, what: str) -> int:
    """Return a count that a server states; a ValueError for one that counts nothing."""
    number = int(value)
    if not 0 <= number <= MOST_TOKENS:
        raise ValueError(f"{what} {one_line(value, 40)}")
    return number
