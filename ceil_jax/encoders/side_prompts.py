"""The prompts of an encoder's folder: the prefixes of queries and documents.

Many embedding models are trained with such prompts (E5: `query: ` and `passage: `; Qwen3-Embedding:
an instruction before queries only; EmbeddingGemma: `task: search result | query: `). They are in
`config_sentence_transformers.json`:

```json
{"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": null}
```

Names are looked up as in sentence-transformers' `encode_query` and `encode_document`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

QUERY_NAMES = ("query",)
BANK_NAMES = ("document", "passage", "corpus")
"""Names of the prompt of queries or documents; the first one that a folder has is used, else its
default prompt."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of an encoder, by name."""

    by_name: Mapping[str, str] = field(default_factory=dict)
    default_name: str | None = None

    @property
    def default(self) -> str:
        """The prompt of texts that are neither queries nor documents; "" if there is none."""
        return self.by_name.get(self.default_name or "", "")

    @property
    def query(self) -> str:
        """The prompt of queries."""
        return self._of(QUERY_NAMES)

    @property
    def bank(self) -> str:
        """The prompt of the bank's examples."""
        return self._of(BANK_NAMES)

    def _of(self, names: tuple[str, ...]) -> str:
        return next((self.by_name[name] for name in names if name in self.by_name), self.default)

    @property
    def config(self) -> dict[str, Any]:
        """The entries of `config_sentence_transformers.json`."""
        return {"prompts": dict(self.by_name), "default_prompt_name": self.default_name}


def single_prompt(prompt: str) -> Prompts:
    """Return the prompts of an encoder with the same prefix for queries and documents."""
    return Prompts({"default": prompt}, "default") if prompt else Prompts()


@dataclass
class SavedPrompts:
    """The entries of config_sentence_transformers.json that are used."""

    prompts: dict[str, Annotated[str, Field(max_length=10_000)]] | None = None
    default_prompt_name: str | None = None


def read_prompts(saved: SavedPrompts, file: Path) -> Prompts:
    """Return the prompts of an encoder's folder; `file` is named in messages.

    Raises:
        UserError: the default prompt does not exist.
    """
    by_name = saved.prompts or {}
    default_name = saved.default_prompt_name
    if default_name is not None and default_name not in by_name:
        raise UserError(
            f"{file}: default_prompt_name is {default_name[:40]!r}, which is none of its "
            f"prompts {str(list(by_name))[:200]}"
        )
    prompts = Prompts(by_name, default_name)
    if any(by_name.values()) and not (prompts.query or prompts.bank):
        log.warning(
            "%s: none of the prompts %s is used: none is called %s or %s, and there is no default; "
            "rename those of queries and of documents",
            file,
            ", ".join(by_name),
            " or ".join(QUERY_NAMES),
            " or ".join(BANK_NAMES),
        )
    return prompts
