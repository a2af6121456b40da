"""Attention over a pass of a trie of tokens, in any model of transformers that lets its attention be set.

The tokens of a pass stand in one row, without padding. Each sees its ancestors only, in the pass and before
it. A block of queries meets only keys that one of them sees, and the query heads that share a key head are
laid one under the other, so that the products are larger: for bfloat16 on a CPU about three times as fast as
torch's fused attention. Scores are rounded to the model's dtype before the softmax, as in transformers'
`eager` attention.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ceil_jax.lm.torch.prefix_tree import Block, Pass

NAME = "ceil_jax_tree"
QUERIES = {"cpu": 64, "cuda": 1024}
"""A block's queries: more of them compute more that is not seen, fewer make smaller products. On a GPU,
starting a product costs more than what it computes in vain."""

Layers = Mapping[int, tuple[torch.Tensor, torch.Tensor]]
"""For each layer the keys and values, [key heads, tokens, width]."""


class Attention(Protocol):
    """How a model attends while it is active."""

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        window: int | None,
        softcap: float | None,
    ) -> torch.Tensor:
        """softmax(q kᵀ) v of the new tokens, [heads, tokens, width] and [key heads, tokens, width], as
        [tokens, heads, width]; q is scaled already."""
        ...


class PassAttention:
    """One pass's attention.

    Args:
        read: the pass.
        carried: keys and values of the ancestors of its first token, by depth; none where it begins the trie.
    """

    def __init__(self, read: Pass, carried: Layers, device: torch.device):
        self.read = read
        self._carried = carried
        self._kept = _index(read.kept(), device)
        self._device = device
        self._blocks = read.blocks(QUERIES.get(device.type, QUERIES["cuda"]))
        self._keys: dict[int | None, list[_Keys]] = {}
        self.seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Each layer's keys and values, those carried first."""

    def carry(self) -> Layers:
        """What the next pass stands behind: one path, so never more tokens than a prompt has."""
        return {
            layer: (_columns(keys, self._kept).clone(), _columns(values, self._kept).clone())
            for layer, (keys, values) in self.seen.items()
        }

    def __call__(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        window: int | None,
        softcap: float | None,
    ) -> torch.Tensor:
        before = self._carried.get(layer)
        if before is not None:
            key, value = torch.cat([before[0], key], 1), torch.cat([before[1], value], 1)
        key, value = key.contiguous(), value.contiguous()
        self.seen[layer] = key, value
        heads, length, width = query.shape
        mixed = query.new_empty(length, heads, value.shape[2])
        for block in self._within(window):
            part = query[:, block.queries]
            keys, values = _columns(key, block.columns), _columns(value, block.columns)
            scores = part.reshape(len(keys), -1, width).bmm(keys.transpose(1, 2))
            if softcap is not None:
                scores = torch.tanh(scores / softcap) * softcap
            by_query = scores.view(heads, part.shape[1], -1)
            by_query[..., block.first_hidden :].masked_fill_(block.hidden, float("-inf"))
            out = scores.softmax(-1).bmm(values)
            mixed[block.queries] = out.view(heads, part.shape[1], -1).transpose(0, 1)
        return mixed

    def _within(self, window: int | None) -> list[_Keys]:
        if window not in self._keys:
            self._keys[window] = [_Keys.of(block.within(window), self._device) for block in self._blocks]
        return self._keys[window]


class _Keys(NamedTuple):
    """A block, ready for torch."""

    queries: slice
    columns: slice | torch.Tensor
    first_hidden: int
    """All queries see the columns before it."""
    hidden: torch.Tensor
    """bool [queries, columns from first_hidden on]."""

    @classmethod
    def of(cls, block: Block, device: torch.device) -> _Keys:
        by_all = np.asarray(block.visible.all(axis=0))
        first = len(by_all) if by_all.all() else int(by_all.argmin())
        hidden = torch.from_numpy(~block.visible[:, first:]).to(device)
        return cls(block.queries, _index(block.columns, device), first, hidden)


class _Active(threading.local):
    attention: Attention | None = None


_active = _Active()


@contextmanager
def attending(attention: Attention) -> Iterator[None]:
    """Within, in this thread, models that were given to `use` attend so."""
    _active.attention = attention
    try:
        yield
    finally:
        _active.attention = None


def use(model: Any) -> bool:
    """Lets a model that attends through torch's `sdpa` attend as `attending` says, and otherwise as before;
    whether it can."""
    from transformers import AttentionInterface, AttentionMaskInterface

    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if (
        model.config._attn_implementation not in ("sdpa", NAME)
        or not model._can_set_attn_implementation()
        or not kinds <= {"full_attention", "sliding_attention"}
    ):
        return False
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)
    model.set_attn_implementation(NAME)
    return True


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    if _active.attention is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **rest)
    scaled = query[0] * (query.shape[3] ** -0.5 if scaling is None else scaling)
    window, softcap = rest.get("sliding_window"), rest.get("softcap")
    return _active.attention(module.layer_idx, scaled, key[0], value[0], window, softcap)[None], None


def _mask(*arguments: Any, **settings: Any) -> Any:
    """None where the active attention knows what is seen."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*arguments, **settings) if _active.attention is None else None


def _index(columns: np.ndarray, device: torch.device) -> slice | torch.Tensor:
    if len(columns) and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return torch.from_numpy(columns).to(device)


def _columns(layer: torch.Tensor, columns: slice | torch.Tensor) -> torch.Tensor:
    return layer[:, columns] if isinstance(columns, slice) else layer.index_select(1, columns)
