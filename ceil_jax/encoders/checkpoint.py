"""The parts of a Hugging Face folder other than an encoder's parameters.

They are kept so that the folder can be written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ceil_jax.encoders.hf_names import hugging_face_name, turned
from ceil_jax.encoders.side_prompts import Prompts
from ceil_jax.encoders.tokenizers import PretrainedTokenizer, Tokenizer
from ceil_jax.encoders.transformer import TransformerConfig
from ceil_jax.store.folder import write_json


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a Hugging Face folder except the parameters and the tokenizer."""

    network: TransformerConfig
    config: Mapping[str, Any]
    """The contents of config.json."""
    pooler: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    """BERT's pooler. No vector depends on it, but transformers' models have it, so it is written
    back."""
    prompts: Prompts = field(default_factory=Prompts)
    """Prefixes that are put before queries, documents and other texts."""

    def write(
        self,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int,
        folder: Path,
    ) -> None:
        """Write an encoder into a folder, in the layout of sentence-transformers.

        Args:
            params: the encoder's parameters by dotted path.
            tokenizer: the encoder's tokenizer, from a Hugging Face folder.
            max_length: the number of tokens to which texts are cut.
            folder: an existing folder.
        """
        network = self.network
        assert isinstance(tokenizer, PretrainedTokenizer)
        tensors = dict(self.pooler)
        for name, value in params.items():
            tensors[hugging_face_name(name, network.family)] = turned(
                name, np.asarray(value, np.float32)
            )
        arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
        tokenizer.save(folder)
        # the folder and the kind of each module, in the order of their use
        modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
        if network.normalize:
            modules.append(("2_Normalize", "Normalize"))
        # the weights are written as float32, also those of another type; code is not written
        left_out = ("dtype", "torch_dtype", "auto_map")
        config = {key: value for key, value in self.config.items() if key not in left_out}
        contents = {
            "config.json": config | {"dtype": "float32"},
            "sentence_bert_config.json": {
                "max_seq_length": max_length,
                "do_lower_case": tokenizer.lower_case,
            },
            "config_sentence_transformers.json": self.prompts.config,
            "modules.json": [
                {
                    "idx": i,
                    "name": str(i),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for i, (path, kind) in enumerate(modules)
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": network.width,
                "pooling_mode_cls_token": network.pooling == "cls",
                "pooling_mode_mean_tokens": network.pooling == "mean",
                "pooling_mode_max_tokens": False,
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
        }
        for name, content in contents.items():
            write_json(folder / name, content)
        if network.normalize:
            (folder / "2_Normalize").mkdir(exist_ok=True)
