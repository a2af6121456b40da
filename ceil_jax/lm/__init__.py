"""Language models (LMs) with one interface, and prompts.

An LM takes strings, and returns strings and numpy arrays.

Their scores and answers are used in `training` and `pipeline`.

- `base`: `LanguageModel`, the base class of all LMs
- `answers`: an LM's answer and why it ended; `options`: which of some options an answer means
- `registry`: `load_lm`, a name to a language model
- `messages`: the messages of a chat as a prompt; `prompts`: an instruction, examples and a query
  as a prompt; `token_budget`: cutting examples to a token budget
- `letters`: letters in place of labels that a chat cannot tell apart
- `on_access`: prompts that are made when they are read
- `tokens`: text to token ids, and which of them belong to the continuation
- `tiny`: a deterministic LM without weights, for tests
- `request`: a request to an LM, and its reading
- `readings`: everything that LMs have read, by content; `readings_file`: its SQLite file
- `cached`: an LM with a cache of its outputs (readings); `ray_reading`: reading on a Ray cluster
- `price`: prices of tokens
- `counting`: an LM that only counts tokens, for dry runs
- `torch`: causal LMs of transformers
- `openai`: LMs behind an OpenAI-compatible server
"""

from ceil_jax.lm.base import LanguageModel
from ceil_jax.lm.registry import load_lm
from ceil_jax.lm.tiny import TinyLM

__all__ = ["LanguageModel", "TinyLM", "load_lm"]
