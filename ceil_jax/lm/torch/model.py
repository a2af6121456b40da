"""A causal LM of transformers as a `LanguageModel`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from ceil_jax.errors import UserError
from ceil_jax.lm.answers import Answer
from ceil_jax.lm.base import Continuations, LanguageModel, check_lengths
from ceil_jax.lm.messages import Messages
from ceil_jax.lm.tokens import PairTokenizer
from ceil_jax.lm.torch import tree_attention
from ceil_jax.lm.torch.generation import Session, Writer, write_all
from ceil_jax.lm.torch.padded import PaddedReader, by_token_budget
from ceil_jax.lm.torch.scoring import TreeReader
from ceil_jax.tasks.draws import text_rng

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHED = {"cpu": 16, "cuda": 2}
"""The maximum number of tokens, future ones included, of texts that are generated together, by
device and in units of the token budget. Their prompts are read at once, and their keys and values
are kept in memory."""

_LEAST = 512
"""A budget below this many tokens is not halved again if a GPU runs out of memory."""


class TorchLM(LanguageModel):
    """A causal model and a fast tokenizer of transformers.

    In float32, a result does not depend on the other texts of a pass, except for rounding (1e-4 for
    a continuation). In bfloat16, different passes round differently, which changes a
    log-probability by a few hundredths. `tokens_read` counts tokens that go into the model; a
    continuation's last token is scored but not read. On a CPU, where the cost is in the number of
    tokens, a shared prefix is read once (`scoring.TreeReader`). A GPU is fastest with one large
    product, so it reads padded rows (`padded.PaddedReader`), where a prompt shares a row with all
    its choices of a single token.

    Args:
        model: a causal model of transformers.
        tokenizer: its fast tokenizer.
        name: the LM's name in messages and keys.
        token_budget: the most tokens in a pass; by default 32,768 on a GPU and 1,024 on a CPU.

    Raises:
        UserError: the tokenizer is not a fast one; or the configuration has no context length.
    """

    tokens_read = 0

    def __init__(self, model: Any, tokenizer: Any, *, name: str, token_budget: int | None = None):
        self.name = name
        self.context_length = context_length(model.config)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self._pairs = PairTokenizer(tokenizer)
        self.takes_system = self._pairs.takes_system
        on_gpu = model.device.type != "cpu"
        # 1,024 on a CPU: a layer's intermediate values stay in the processor's cache
        default_budget = 2**15 if on_gpu else 2**10
        budget = token_budget or default_budget
        if on_gpu:
            # many more, because a pass has more tokens and its rows should have similar lengths
            self.at_once = {"score": 4096, "write": 1024}
        self._reader: TreeReader | PaddedReader = (
            TreeReader(model, budget)
            if reads_trees(model, model.device)
            else PaddedReader(model, budget)
        )

    @property
    def token_budget(self) -> int:
        """The maximum number of tokens in a pass; halved each time a GPU runs out of memory."""
        return self._reader.budget

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return self._pairs.count(texts)

    def chat(self, messages: Messages) -> str:
        return self._pairs.chat(messages)

    def scores(self, continuations: Continuations) -> tuple[np.ndarray, list[int]]:
        pairs = self._pairs.pairs(continuations.prompts, continuations.texts)
        check_lengths(self, [len(pair.ids) for pair in pairs], continuations.numbers)
        log_probs, read = self._within_memory(lambda: self._reader.each(pairs))
        self.tokens_read += read
        return np.array([tokens.sum() for tokens in log_probs]), [pair.scored for pair in pairs]

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        """Generate texts.

        A text also ends at the model's end-of-text token, and when the context is full.

        Args:
            prompts: N prompts.
            limit: the most tokens of a text.
            stop: strings that end a text; it may continue after the first of them.
            temperature: with 0, the most probable token is taken; above 0, tokens are sampled.
            seeds: N seeds. Each prompt has its own random generator, seeded by its seed and its
                text, so that equal prompts with equal seeds give equal samples.
        """
        ids = [pair.ids for pair in self._pairs.pairs(prompts, [""] * len(prompts))]
        check_lengths(self, [len(row) + 1 for row in ids], range(len(ids)))
        limits = [min(limit, self.context_length - len(row)) for row in ids]
        end_ids = self.model.generation_config.eos_token_id
        if not isinstance(end_ids, list):
            end_ids = [end_ids]
        ends = {*end_ids, self.tokenizer.eos_token_id}
        lengths = [len(row) + limit_of_row for row, limit_of_row in zip(ids, limits, strict=True)]

        def written() -> list[Answer]:
            generators = map(text_rng, prompts, seeds)
            writers = [
                Writer(self.tokenizer, prompt, limit_of_row, draw, stop)
                for prompt, limit_of_row, draw in zip(ids, limits, generators, strict=True)
            ]
            cached = CACHED.get(self.model.device.type, CACHED["cuda"]) * self._reader.budget
            for batch in by_token_budget(lengths, cached):
                session = Session(self.model, [ids[number] for number in batch])
                write_all(session, [writers[number] for number in batch], ends, temperature)
                self.tokens_read += session.read
            return [writer.answer() for writer in writers]

        return self._within_memory(written)

    def _within_memory(self, read: Callable[[], T]) -> T:
        """Return `read()`, called again with a smaller token budget if a GPU runs out of memory.

        The budget is halved for good each time, and `read` tried again.
        """
        while True:
            try:
                return read()
            except torch.OutOfMemoryError as error:
                if self._reader.budget < _LEAST:
                    raise UserError(
                        f"{self.name}: the GPU has too little memory for a prompt "
                        f"({str(error).splitlines()[0]}); end other programs on it, or give a "
                        "smaller LM, --dtype bfloat16 or --device-map auto"
                    ) from None
                self._reader.budget //= 2
                log.warning(
                    "the GPU is out of memory: reading %d tokens at a time from now on",
                    self._reader.budget,
                )
            torch.cuda.empty_cache()


def reads_trees(model: Any, device: torch.device) -> bool:
    """Return whether a model reads prefix trees on a device, and prepare its attention for them.

    On a CPU, if its attention can be set.
    """
    return device.type == "cpu" and tree_attention.use(model)


def context_length(config: Any) -> int:
    """Return the context length in a configuration of transformers, in tokens.

    A UserError if it has none.
    """
    text = config.get_text_config()
    for field in ("max_position_embeddings", "n_positions", "seq_length"):
        if isinstance(length := getattr(text, field, None), int):
            return length
    raise UserError(
        f"{config.model_type}: config.json names no context length (max_position_embeddings)"
    )
