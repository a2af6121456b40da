"""Log-probabilities of tokens, from passes of a causal LM over a prefix tree on a CPU.

Each token of the tree is read once, there is no padding, and logits are computed only where they
are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ceil_jax.lm.tokens import PairTokens
from ceil_jax.lm.torch.prefix_tree import Trie, common_prefix
from ceil_jax.lm.torch.tree_attention import Layers, PassAttention, attending

LOGITS_AT_ONCE = 2**25
"""The maximum number of logits kept at one time: 128 MiB in float32."""

_READ_TWICE = 32
"""The length up to which a common prefix of neighbouring rows may be read twice, by two cores."""


class TreeReader:
    """A scorer of rows of tokens as a prefix tree, in passes of at most `budget` tokens.

    The model is one that `tree_attention.use` has prepared. The keys and values of one pass and of
    the path before it are in memory.
    """

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget
        self._rows_at_once = max(LOGITS_AT_ONCE // model.get_output_embeddings().weight.shape[0], 1)

    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens, and the number of tokens read.

        Each core reads its own share of the rows, because cores that share a pass wait for one
        another at every product."""
        cores = torch.get_num_threads()
        most_parts = 1 if _one_at_a_time(self.model) else cores
        # a part is at least half a pass
        parts = _shares(rows, most_parts, least=max(1, self.budget // 2))
        if len(parts) == 1:
            return self._read(rows)
        try:
            with ThreadPoolExecutor(
                len(parts), "lm", torch.set_num_threads, (cores // len(parts),)
            ) as pool:
                results = list(
                    pool.map(self._read, [[rows[number] for number in part] for part in parts])
                )
        finally:
            torch.set_num_threads(cores)
        values = [np.zeros(0)] * len(rows)
        for part, (values_of_part, _) in zip(parts, results, strict=True):
            for number, value in zip(part, values_of_part, strict=True):
                values[number] = value
        return values, sum(count for _, count in results)

    def _read(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        scored_rows = [row for row in rows if row.scored]
        if not scored_rows:
            return [np.zeros(0)] * len(rows), 0
        # a row's last token is scored but not read
        trie = Trie([row.ids[:-1] for row in scored_rows])
        # of all scored tokens, row after row: the token of the trie before it, and its own id
        before = np.concatenate(
            [path[row.start - 1 :] for path, row in zip(trie.paths, scored_rows, strict=True)]
        )
        ids = np.concatenate([row.ids[row.start :] for row in scored_rows])
        # several scored tokens may come after one node
        nodes, node_numbers = np.unique(before, return_inverse=True)
        log_probs = np.zeros(len(ids))
        for first, end, predicted in self._passes(trie, nodes):
            in_pass = (first <= node_numbers) & (node_numbers < end)
            node_in_pass = node_numbers[in_pass] - first
            log_probs[in_pass] = predicted.numpy()[node_in_pass, ids[in_pass]]
        ends_of_rows = np.cumsum([row.scored for row in rows])
        return np.split(log_probs, ends_of_rows[:-1]), len(trie)

    @torch.inference_mode()
    def _passes(self, trie: Trie, nodes: np.ndarray) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Read a trie pass by pass.

        Each pass yields the range of `nodes` in it, as the position of the first one and the
        position after the last one, and the log-probabilities of the token after each of them,
        float32 [n, vocabulary].

        Args:
            trie: the tokens.
            nodes: the tokens after which log-probabilities are wanted, ascending.
        """
        carried: Layers = {}
        start = 0
        while start < len(trie):
            first = int(np.searchsorted(nodes, start))
            # the pass ends before the first node whose logits would be too many
            too_many = first + self._rows_at_once
            limit = int(nodes[too_many]) if too_many < len(nodes) else len(trie)
            stop = min(start + self.budget, limit, len(trie))
            end = int(np.searchsorted(nodes, stop))
            ids = torch.from_numpy(trie.ids[start:stop])
            depths = torch.from_numpy(trie.depths[start:stop])
            wanted = torch.from_numpy(nodes[first:end] - start)
            attention = PassAttention(trie, start, stop, carried)
            with attending(attention):
                output = self.model(
                    input_ids=ids[None],
                    position_ids=depths[None],
                    use_cache=False,
                    logits_to_keep=wanted,
                )
            logits = output.logits[0].float()
            yield first, end, logits.sub_(logits.logsumexp(-1, keepdim=True))
            carried = attention.carry()
            start = stop


def _shares(rows: Sequence[PairTokens], cores: int, least: int) -> list[list[int]]:
    """Return the row numbers for each core, in parts of about equally many tokens, at least `least`.

    The sorted rows are cut at the first position after an even share where neighbours have no long
    common prefix.
    """
    order = sorted(range(len(rows)), key=lambda number: rows[number].ids)
    # the number of tokens up to the end of each row
    ends = np.cumsum([len(rows[number].ids) for number in order])
    total = int(ends[-1]) if len(ends) else 0
    parts = []
    start = 0
    for part in range(1, min(cores, total // least)):
        stop = max(start, int(np.searchsorted(ends, total * part / cores))) + 1
        while stop < len(order) and (
            common_prefix(rows[order[stop - 1]].ids, rows[order[stop]].ids) > _READ_TWICE
        ):
            stop += 1
        parts.append(order[start:stop])
        start = stop
    parts.append(order[start:])
    return [part for part in parts if part] or [[]]


def _one_at_a_time(model: Any) -> bool:
    """Return whether a model must be used from one thread only.

    Such a model changes its rotary frequencies with the length.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    # either the settings of all layers, or a mapping from each type of layer to its settings
    settings = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(of_layers.get("rope_type") in ("dynamic", "longrope") for of_layers in settings)
