"""Small random causal LMs, and a tokenizer with hand-written merges."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

WORDS = [" good", " great", " bad", " is", " It", " film", "; ", ";\n", "film", " so"]


def tokenizer(*, bos: bool = False) -> PreTrainedTokenizerFast:
    """Return a tokenizer of bytes with a token for each of WORDS, merged from the left; `bos` puts
    <s> first."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocabulary = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in WORDS:
        [(spelt, _)] = byte_level.pre_tokenize_str(word)
        for end in range(1, len(spelt)):
            if spelt[: end + 1] not in vocabulary:
                vocabulary.append(spelt[: end + 1])
                merges.append((spelt[:end], spelt[end]))
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges))
    backend.pre_tokenizer = byte_level
    backend.decoder = decoders.ByteLevel()
    # trimmed offsets are common, and would hide a line break at a token's end
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    if bos:
        start = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        backend.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=True), start]
        )
    first = {"bos_token": "<s>"} if bos else {}
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", **first)


def model(kind: str, context: int = 96, **settings):
    """Return a random model whose predictions are far from uniform."""
    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
    shared = {"vocab_size": len(tokenizer()), "initializer_range": 0.3, **ids}
    if kind == "gpt2":
        config = GPT2Config(
            **shared, n_positions=context, n_embd=32, n_layer=2, n_head=4, **settings
        )
        return GPT2LMHeadModel(config).eval()
    if kind == "gpt_neo":
        # its attention is its own; the second layer sees the last 8 tokens only
        layers = {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 8}
        config = GPTNeoConfig(
            **shared,
            **layers,
            hidden_size=32,
            num_heads=4,
            max_position_embeddings=context,
            **settings,
        )
        return GPTNeoForCausalLM(config).eval()
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": context,
        "head_dim": 8,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**shared, **shape, **settings)).eval()
    # every other layer sees the last 8 tokens only
    sliding = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
    return Gemma3ForCausalLM(Gemma3TextConfig(**shared, **shape, **sliding, **settings)).eval()
