"""Causal LMs of transformers as `LanguageModel`; the only room that imports torch.

- `model`: `TorchLM`, the LM itself
- `loading`: a folder or hub id to a `TorchLM`; how fast this machine reads with one
- `gguf`: packaged weights, converted once to a safetensors folder
- `prefix_tree`: token rows merged where they begin alike, and the passes that read them
- `tree_attention`: attention over such a pass
- `scoring`: log-probabilities of tokens, by passes over a prefix tree
- `generation`: prompts read together and continued, token by token, until every text ends
- `padded`: padded batches; scoring in them, for models whose attention cannot be set
"""
