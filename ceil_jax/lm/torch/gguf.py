"""Converting packaged GGUF weights, once, into a safetensors folder that loads in a second."""

from __future__ import annotations

import logging
from pathlib import Path

from ceil_jax.errors import UserError
from ceil_jax.tasks import assets

log = logging.getLogger(__name__)

PACKAGED = ("SmolLM2-135M-Instruct", "gemma-3-270m")
"""The language models that need no hub: names in `tasks.assets` whose packages contain a GGUF
file."""


def converted(name: str) -> Path:
    """Return the cached folder of a packaged model.

    It has the configuration, safetensors in float32 and the tokenizer.
    """
    return assets.once(f"lm/{name}", lambda folder: _convert(name, assets.fetch(name), folder))


def _convert(name: str, source: Path, folder: Path) -> None:
    """Write the folder. The quantised weights are expanded to float32, exactly.

    transformers reads GGUF slowly and then refuses to save the model, so its weights are copied
    into a fresh one.
    """
    try:
        import accelerate  # noqa: F401  (transformers needs both, and its own message is less clear)
        import gguf  # noqa: F401
    except ImportError as missing:
        raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[lm]'") from None
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig

    [file] = source.glob("*.gguf")
    log.info("converting %s, once (about a minute)", file.name)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    if name.startswith("SmolLM2"):
        # the file says that digits are split before anything else (`tokenizer.ggml.pre = smollm`);
        # transformers ignores it, which changes the white space before a number
        backend = tokenizer.backend_tokenizer
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
    tokenizer.save_pretrained(folder)
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype="float32")
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    config: PreTrainedConfig = type(read.config).from_dict(settings)
    model = AutoModelForCausalLM.from_config(config, dtype=read.dtype)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
