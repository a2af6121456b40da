"""Log-probabilities of tokens, and hidden states, from passes of a causal LM over a prefix tree on a CPU.

Each token of the tree is read once, there is no padding, and logits are computed only where they
are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ceil_jax.lm.tokens import PairTokens
from ceil_jax.lm.torch.layers import two_layers
from ceil_jax.lm.torch.prefix_tree import Trie, common_prefix
from ceil_jax.lm.torch.tree_attention import Layers, PassAttention, attending

LOGITS_AT_ONCE = 2**25
"""The most logits kept at one time: 128 MiB in float32."""

_READ_TWICE = 32
"""The longest common prefix of neighbouring rows that two cores may both read."""


class TreeReader:
    """Scores rows of tokens as a prefix tree, in passes of at most `budget` tokens, with a model
    that `tree_attention.use` has prepared. The keys and values of one pass and of the path before
    it are in memory."""

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget
        self._rows_at_once = max(LOGITS_AT_ONCE // model.get_output_embeddings().weight.shape[0], 1)

    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens, and the number of tokens
        read."""
        return self._by_core(self._each, rows)

    def states(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the hidden states of each row's last token, float32 [2, D], in the layers of
        `two_layers`, and the number of tokens read."""
        return self._by_core(self._states, rows)

    def _by_core(
        self,
        read: Callable[[Sequence[PairTokens]], tuple[list[np.ndarray], int]],
        rows: Sequence[PairTokens],
    ) -> tuple[list[np.ndarray], int]:
        """The result of reading each row, and the number of tokens read. Each core reads its own
        share of the rows, because cores that share a pass wait for one another at every product.
        """
        cores = torch.get_num_threads()
        parts = _shares(rows, 1 if _one_at_a_time(self.model) else cores, max(1, self.budget // 2))
        if len(parts) == 1:
            return read(rows)
        try:
            with ThreadPoolExecutor(
                len(parts), "lm", torch.set_num_threads, (cores // len(parts),)
            ) as pool:
                results = list(
                    pool.map(read, [[rows[number] for number in part] for part in parts])
                )
        finally:
            torch.set_num_threads(cores)
        values = [np.zeros(0)] * len(rows)
        for part, (of_part, _) in zip(parts, results, strict=True):
            for number, value in zip(part, of_part, strict=True):
                values[number] = value
        return values, sum(count for _, count in results)

    def _each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        scored_rows = [row for row in rows if row.scored]
        if not scored_rows:
            return [np.zeros(0)] * len(rows), 0
        trie = Trie([row.ids[:-1] for row in scored_rows])
        # for each scored token of each row, the token of the trie before it
        after = np.concatenate(
            [path[row.start - 1 :] for path, row in zip(trie.paths, scored_rows, strict=True)]
        )
        token = np.concatenate([row.ids[row.start :] for row in scored_rows])
        log_probs = np.zeros(len(token))
        nodes, of_node = np.unique(after, return_inverse=True)
        for first, last, predicted in self._passes(trie, nodes, self._predicted):
            in_pass = (first <= of_node) & (of_node < last)
            log_probs[in_pass] = predicted.numpy()[of_node[in_pass] - first, token[in_pass]]
        return np.split(log_probs, np.cumsum([row.scored for row in rows])[:-1]), len(trie)

    def _states(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        trie = Trie([row.ids for row in rows])
        nodes, of_row = np.unique([path[-1] for path in trie.paths], return_inverse=True)
        passes = self._passes(trie, nodes, self._seen)
        states = torch.cat([of_pass for _, _, of_pass in passes]).numpy()
        return [states[number] for number in of_row], len(trie)

    def _predicted(self, inputs: Mapping[str, torch.Tensor], wanted: torch.Tensor) -> torch.Tensor:
        """The log-probabilities of the next token after some positions, float32 [n, vocabulary]."""
        logits = self.model(**inputs, use_cache=False, logits_to_keep=wanted).logits[0].float()
        return logits.sub_(logits.logsumexp(-1, keepdim=True))

    def _seen(self, inputs: Mapping[str, torch.Tensor], wanted: torch.Tensor) -> torch.Tensor:
        """The hidden states of two layers at some positions, float32 [n, 2, D]."""
        layers = two_layers(self.model, inputs)
        return torch.stack([layer[0, wanted].float() for layer in layers], dim=1)

    @torch.inference_mode()
    def _passes(
        self,
        trie: Trie,
        nodes: np.ndarray,
        read: Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor],
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Read a trie pass by pass. Each pass yields the range of `nodes` in it, as first and
        last + 1, and what `read` gives for them.

        Args:
            trie: the tokens.
            nodes: the tokens that something is wanted of, ascending.
            read: the model's inputs of a pass, and the n positions that are wanted of it → their
                values, [n, …].
        """
        carried: Layers = {}
        start = 0
        while start < len(trie):
            first = int(np.searchsorted(nodes, start))
            beyond = first + self._rows_at_once
            limit = int(nodes[beyond]) if beyond < len(nodes) else len(trie)
            stop = min(start + self.budget, limit, len(trie))
            last = int(np.searchsorted(nodes, stop))
            inputs = trie.ids[start:stop], trie.depths[start:stop], nodes[first:last] - start
            ids, depths, wanted = map(torch.from_numpy, inputs)
            attention = PassAttention(trie, start, stop, carried)
            with attending(attention):
                values = read({"input_ids": ids[None], "position_ids": depths[None]}, wanted)
            yield first, last, values
            carried = attention.carry()
            start = stop


def _shares(rows: Sequence[PairTokens], cores: int, least: int) -> list[list[int]]:
    """The numbers of the rows for each core: parts with about as many tokens, at least `least`. The
    sorted rows are cut at the first position after an even share where neighbours have no long
    common prefix.
    """
    order = sorted(range(len(rows)), key=lambda number: rows[number].ids)
    ends = np.cumsum([len(rows[number].ids) for number in order])
    parts = []
    start = 0
    for part in range(1, min(cores, int(ends[-1] if len(ends) else 0) // least)):
        stop = max(start, int(np.searchsorted(ends, ends[-1] * part / cores))) + 1
        while stop < len(order) and (
            common_prefix(rows[order[stop - 1]].ids, rows[order[stop]].ids) > _READ_TWICE
        ):
            stop += 1
        parts.append(order[start:stop])
        start = stop
    return [part for part in (*parts, order[start:]) if part] or [[]]


def _one_at_a_time(model: Any) -> bool:
    """Return whether a model must be used from one thread only, because it changes its rotary
    frequencies with the length."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(value.get("rope_type") in ("dynamic", "longrope") for value in kinds)
