"""The error message for a folder without a model in safetensors.

Weights are read from safetensors. Pickles (`pytorch_model.bin`) may run code when they are read, so
they are never opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ceil_jax.errors import UserError
from ceil_jax.store.hub import hub_name

Use = Literal["lm", "encoder"]
"""The use of a model, which is also the flag that names it."""

_CLASSES: dict[Use, str] = {"lm": "AutoModelForCausalLM", "encoder": "AutoModel"}

_NAMED = 3
"""The maximum number of a folder's files that the message names."""


def no_model(folder: Path, use: Use) -> UserError:
    """Return the error for a folder without a model's configuration, or without safetensors."""
    # weights and folders come first, because a user looks for them
    names = sorted((path.name for path in folder.iterdir()), key=lambda n: (".json" in n, n))
    held = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    name = hub_name(folder)
    model = name if "/" in name else str(folder)
    return UserError(
        f"{folder} holds no config.json and model.safetensors, but {held or 'nothing'}. "
        "Name the folder of a complete model, merge an adapter into its model (merge_and_unload), or "
        'convert weights of another format, if you trust them: python -c "from transformers import '
        f"{_CLASSES[use]} as M; M.from_pretrained('{model}', use_safetensors=False)"
        f".save_pretrained('converted')\", and its tokenizer in the same way; then --{use} ./converted"
    )
