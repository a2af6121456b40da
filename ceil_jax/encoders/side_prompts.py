"""The prompts of an encoder's folder: texts that are put before every query and every document.

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
from typing import Any

from ceil_jax.errors import UserError

log = logging.getLogger(__name__)

QUERY_NAMES = ("query",)
BANK_NAMES = ("document", "passage", "corpus")
"""Names of the prompt of a side; the first one that a folder has is used, else its default
prompt."""


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
    """Return the prompts of an encoder that puts the same text before queries and documents."""
    return Prompts({"default": prompt}, "default") if prompt else Prompts()


def read_prompts(config: Mapping[str, Any], file: Path) -> Prompts:
    """Return the prompts in the contents of a `config_sentence_transformers.json`.

    Raises:
        UserError: a prompt is not a text, or the default prompt does not exist.
    """
    by_name = config.get("prompts") or {}
    default_name = config.get("default_prompt_name")
    if not isinstance(by_name, dict) or not all(
        isinstance(prompt, str) for prompt in by_name.values()
    ):
        raise UserError(f"{file}: prompts is {str(by_name)[:80]}; expected texts by their names")
    if default_name is not None and default_name not in by_name:
        raise UserError(
            f"{file}: default_prompt_name is {str(default_name)[:40]!r}, which is none of its "
            f"prompts {list(by_name)}"
        )
    prompts = Prompts(by_name, default_name)
    if any(by_name.values()) and not (prompts.query or prompts.bank):
        log.warning(
            "%s: none of the prompts %s is used: they are called neither %s nor %s, and there is no "
            "default; rename those of queries and of documents",
            file,
            ", ".join(by_name),
            " or ".join(QUERY_NAMES),
            " or ".join(BANK_NAMES),
        )
    return prompts
