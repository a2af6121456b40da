"""Causal LMs of transformers as `LanguageModel`; the only subpackage that imports torch.

- `model`: `TorchLM`, the LM itself
- `loading`: loading a `TorchLM` from a folder or hub id; this machine's reading speed
- `gguf`: packaged weights, converted once to a safetensors folder
- `prefix_tree`: token rows merged into a tree of their prefixes
- `tree_attention`: attention over such a pass
- `scoring`: log-probabilities of tokens, by passes over a prefix tree
- `generation`: generating texts for several prompts together, token by token
- `padded`: scoring in padded batches, on GPUs and for models whose attention cannot be set
"""
