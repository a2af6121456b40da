"""Language models (LMs) behind one class of strings and numpy, and the prompts they are given.

What is done with their scores and answers is in `training` and `pipeline`.

- `base`: `LanguageModel`, the class of all of them
- `answers`: what an LM answered and why it ended; `options`: which of some options an answer means
- `registry`: `load_lm`, a name to a language model
- `prompts`: examples and a query as one text, under a token budget; `token_budget`: which of the
  chosen examples stay
- `lazy`: prompts that are made when they are read
- `tokens`: text to token ids, and which of them belong to the continuation
- `tiny`: a deterministic LM without weights, for tests
- `readings`: what LMs have read, by content, in one SQLite file; `readings_file`: that file, and
  what is saved of a damaged one; `ray_reading`: reading on a Ray cluster
- `price`: prices of tokens
- `counting`: an LM that only counts tokens, for dry runs
- `torch`: causal LMs of transformers
- `openai`: LMs behind an OpenAI-compatible server
"""

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.registry import load_lm
from ceil_jax.lm.tiny import TinyLM

__all__ = ["LanguageModel", "TinyLM", "load_lm"]
