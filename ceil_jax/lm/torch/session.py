"""Prompts that a causal LM has read together and continues, one token a row at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ceil_jax.lm.torch.prefix_tree import Trie
from ceil_jax.lm.torch.scoring import TreeReader
from ceil_jax.lm.torch.tree_attention import Heads, PassAttention, attending


class TreeSession:
    """A `generation.Session` that reads, keeps and attends to the opening of all prompts once for all rows.

    The opening is what all prompts begin with. Beyond it, each row has keys and values of its own, which are
    written in place. Memory: the keys and values of the opening, and for each row those of the longest rest of a
    prompt and of `max_new_tokens`.

    Args:
        reader: reads tokens.
        prompts: token ids, at least one each.
        max_new_tokens: the most tokens that a row may get.
    """

    def __init__(self, reader: TreeReader, prompts: Sequence[list[int]], max_new_tokens: int):
        trie = Trie(prompts)
        self.read = len(trie)
        """Tokens read so far."""
        self._reader = reader
        self._attention = _SessionAttention(trie, max_new_tokens, reader.model.device)
        places, of_place = np.unique([path[-1] for path in trie.paths], return_inverse=True)
        parts = []
        for _, _, predicted, attention in reader.passes(trie, places):
            self._attention.take(attention)
            parts.append(predicted)
        self.predicted = torch.cat(parts)[torch.from_numpy(of_place).to(reader.model.device)]
        """float32 [rows, vocabulary]: log-probabilities of each row's next token."""

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> None:
        """Append one token to each row and predict the next one."""
        positions = self._attention.positions()
        with attending(self._attention):
            self.predicted = self._reader.log_probs(
                np.array(tokens, np.int64), positions, np.arange(len(positions))
            )
        self._attention.advance()
        self.read += len(positions)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, in this order. A row may only move towards the front."""
        self.predicted = self.predicted[torch.tensor(rows, device=self.predicted.device)]
        self._attention.keep(rows)


class _SessionAttention:
    """Attention of one new token a row, to the opening and to the row's own tokens."""

    def __init__(self, trie: Trie, max_new_tokens: int, device: torch.device):
        self._paths = trie.paths
        shortest = min(map(len, trie.paths))
        firsts = np.stack([path[:shortest] for path in trie.paths])
        self._opening = int((firsts == firsts[0]).all(axis=0).sum())
        # int [rows]: each row's tokens behind the opening
        self._lengths = np.array([len(path) for path in trie.paths]) - self._opening
        self._capacity = int(self._lengths.max()) + max_new_tokens
        self._device = device
        # each layer's keys and values, of the opening [key heads, opening, width] and of the rows
        # [rows, key heads, capacity, width]
        self._shared: dict[int, list[torch.Tensor]] = {}
        self._own: dict[int, list[torch.Tensor]] = {}

    def positions(self) -> np.ndarray:
        """Return int [rows], the position of each row's next token."""
        return self._opening + self._lengths

    def advance(self) -> None:
        """Count the token that each row has got."""
        self._lengths += 1

    def take(self, attention: PassAttention) -> None:
        """Copy the keys and values of a pass to the rows that they belong to."""
        read = attention.read
        opening = np.arange(read.start, max(min(read.stop, self._opening), read.start))
        rows: list[int] = []
        slots: list[int] = []
        tokens: list[int] = []
        for row, path in enumerate(self._paths):
            rest = path[self._opening :]
            first, last = np.searchsorted(rest, [read.start, read.stop])
            rows += [row] * (last - first)
            slots += range(first, last)
            tokens += rest[first:last].tolist()
        columns = torch.from_numpy(read.column(np.array(tokens, np.int64))).to(self._device)
        for layer, parts in attention.seen.items():
            if layer not in self._own:
                count = len(self._lengths)
                self._shared[layer] = [p.new_empty(len(p), self._opening, p.shape[2]) for p in parts]
                self._own[layer] = [p.new_zeros(count, len(p), self._capacity, p.shape[2]) for p in parts]
            for shared, own, part in zip(self._shared[layer], self._own[layer], parts, strict=True):
                shared[:, opening] = part[:, read.column(opening)]
                own[rows, :, slots] = part[:, columns].transpose(0, 1)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, in this order."""
        for place, row in enumerate(rows):
            if place != row:
                used = self._lengths[row]
                for parts in self._own.values():
                    for own in parts:
                        own[place, :, :used] = own[row, :, :used]
        self._lengths = self._lengths[list(rows)]

    def __call__(self, new: Heads) -> torch.Tensor:
        heads, rows, width = new.query.shape
        shared_keys, shared_values = self._shared[new.layer]
        own_keys, own_values = self._own[new.layer]
        own_keys[range(rows), :, self._lengths] = new.key.transpose(0, 1)
        own_values[range(rows), :, self._lengths] = new.value.transpose(0, 1)
        used = int(self._lengths.max()) + 1
        own_keys, own_values = own_keys[:rows, :, :used], own_values[:rows, :, :used]
        grouped = new.query.reshape(len(new.key), -1, rows, width)
        behind = grouped.flatten(1, 2).bmm(shared_keys.transpose(1, 2))
        # [rows, key heads, queries of a key head, keys]
        behind = behind.view(*grouped.shape[:3], self._opening).permute(2, 0, 1, 3)
        # keys times queries: in the other order, a CPU copies all keys first
        own = (own_keys @ grouped.permute(2, 0, 3, 1)).transpose(2, 3)
        scores = new.capped(torch.cat([behind, own], 3))
        scores.masked_fill_(self._hidden(used, new.window)[:, None, None], float("-inf"))
        weights = scores.softmax(-1)
        by_head = weights[..., : self._opening].permute(1, 2, 0, 3).flatten(1, 2)
        mixed = by_head.bmm(shared_values).unflatten(1, grouped.shape[1:3]).permute(2, 0, 1, 3)
        mixed = mixed + weights[..., self._opening :] @ own_values
        return mixed.reshape(rows, heads, -1)

    def _hidden(self, used: int, window: int | None) -> torch.Tensor:
        """bool [rows, opening + used]: the keys that a row's new token does not see."""
        distance = self.positions()[:, None] - np.arange(self._opening + used)
        hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
        return torch.from_numpy(hidden).to(self._device)
