"""Loading of language models from folders and hub ids, and the speed of this machine.

A dtype and a device are chosen for the weights.
"""

from __future__ import annotations

import re
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ceil_jax.errors import UserError
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.tokens import loading_errors, pair_tokenizer
from ceil_jax.lm.torch.model import TorchLM, context_length, reads_trees

SHARE = {"cpu": 0.85, "cuda": 0.4}
"""The reading speed of an LM as a share of the speed of a matrix product: measured with
SmolLM2-135M on a CPU, a guess on a GPU."""


def load_torch(source: str, name: str, dtype: str, device_map: str | None) -> TorchLM:
    """Return the LM from a folder or hub id.

    Weights must be safetensors, and no code of the repository is run.

    Args:
        source: a folder or a hub id.
        name: the LM's name in messages and keys, to which the dtype is added.
        dtype: "auto" (bfloat16 if the machine supports it), "bfloat16", "float16" or "float32".
        device_map: transformers' device_map; None for one device, a GPU if there is one.

    Raises:
        UserError: there is no such LM, its files cannot be read, weights are missing, or the dtype
            is unknown.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    precision = _precision(dtype)
    _check_causal(source)
    with loading_errors("the language model", source):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=precision,
            device_map=device_map,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    model, found = loaded
    if missing := sorted(found["missing_keys"]):
        # transformers would go on with random numbers in their place
        raise UserError(
            f"{source} has no weights for {len(missing)} parameters of a language model, such as "
            f"{missing[0]}: it may be an encoder, or only the body of a model; give the folder or "
            "hub id of a complete causal language model"
        )
    if device_map is None:
        model.to(_device())
    return TorchLM(model, tokenizer, name=name_with_dtype(name, dtype))


class Outline(NamedTuple):
    """The properties of an LM that are known without its weights."""

    name: str
    context_length: int
    parameters: int
    count_tokens: Callable[[Sequence[str]], np.ndarray]
    """A function from texts to the number of tokens of each, int [N]."""
    template: Callable[[Messages], str]
    """The LM's chat template, as in `LanguageModel.chat`."""
    takes_system: bool
    reads_rows: bool
    """Whether it would read padded rows on this machine, and not prefix trees
    (`model.reads_trees`)."""


def outline(source: str, name: str, dtype: str) -> Outline:
    """Return the properties of an LM, without loading its weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    _check_causal(source)
    tokenizer = pair_tokenizer(source)
    with loading_errors("the configuration of", source):
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return Outline(
        name=name_with_dtype(name, dtype),
        context_length=context_length(config),
        parameters=model.num_parameters(),
        count_tokens=tokenizer.count,
        template=tokenizer.chat,
        takes_system=tokenizer.takes_system,
        reads_rows=not reads_trees(model, _device()),
    )


def _check_causal(source: str) -> None:
    """Raise a UserError for a masked language model such as BERT.

    It has a head over tokens too, but reads in both directions, so that it neither writes nor has
    log-probabilities of a text.
    """
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

    with loading_errors("the language model", source):
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    is_masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    reads_forward = any(
        getattr(config, name, False) for name in ("is_decoder", "is_encoder_decoder", "causal")
    )
    if is_masked and not reads_forward:
        raise UserError(
            f"{source} is a masked language model ({config.model_type}), which reads in both "
            "directions and cannot write: it can be --encoder; --lm takes a causal language model"
        )


def name_with_dtype(name: str, dtype: str) -> str:
    """Return the name of an LM with the dtype of its weights on this machine.

    Args:
        name: the LM's name without it.
        dtype: as in `load_torch`.

    Raises:
        UserError: the dtype is unknown.
    """
    return f"{name}@{str(_precision(dtype)).removeprefix('torch.')}"


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _precision(dtype: str) -> torch.dtype:
    """The dtype with a name.

    "auto" is bfloat16 if the processor supports it (2-3 × faster), else float32.
    """
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype == "auto":
        return torch.bfloat16 if _device().type == "cuda" or _cpu_has_bfloat16() else torch.float32
    if dtype not in known:
        raise UserError(f"unknown dtype {dtype!r}; known: auto, {', '.join(known)}")
    return known[dtype]


def _cpu_has_bfloat16() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    known = cpuinfo.read_text() if cpuinfo.exists() else ""  # only on Linux
    return re.search(r"^flags.*\b(avx512_bf16|amx_bf16)\b", known, re.MULTILINE) is not None


def reading_speed() -> float:
    """Return the estimated reading speed of an LM on this machine.

    It is in parameters × tokens per second, from a matrix product, which takes a second or two.
    """
    device = _device()
    precision = _precision("auto")
    # 1,024 tokens through a layer of SmolLM2-135M
    rows = 1024
    inner = 576
    columns = 1536
    left = torch.ones(rows, inner, dtype=precision, device=device)
    right = torch.ones(inner, columns, dtype=precision, device=device)
    # reading one value waits for a GPU
    fastest = min(timeit.repeat(lambda: (left @ right)[0, 0].item(), number=1, repeat=50))
    # two operations for each parameter and token
    return SHARE[device.type] * rows * inner * columns / fastest
