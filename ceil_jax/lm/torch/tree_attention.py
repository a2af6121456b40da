"""Attention over a pass of a prefix tree, in any model of transformers whose attention can be set.

The tokens of a pass stand in one row, without padding, and each sees only its ancestors, in the pass and before
it. A block of queries is multiplied only with keys that one of them sees, and the query heads that share a key
head are stacked, so that the products are larger: for bfloat16 on a CPU, this is about three times as fast as
torch's fused attention. Scores are rounded to the model's dtype before the softmax, as in the `eager` attention
of transformers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from ceil_jax.lm.torch.prefix_tree import Block, Pass

NAME = "ceil_jax_tree"
QUERIES = {"cpu": 64, "cuda": 1024}
"""Queries of a block by device. More queries compute more scores that are masked; fewer make smaller products.
On a GPU, starting a product costs more than the masked scores."""

Layers = Mapping[int, tuple[torch.Tensor, torch.Tensor]]
"""Layer → its keys and its values, each [key heads, tokens, width]."""


class PassAttention:
    """The attention of one pass.

    Args:
        read: the pass.
        carried: keys and values of the ancestors of its first token, by depth; empty for the first pass.
        device: where the model is.
    """

    def __init__(self, read: Pass, carried: Layers, device: torch.device):
        self._carried = carried
        self._kept = _index(read.kept(), device)
        self._device = device
        self._blocks = read.blocks(QUERIES.get(device.type, QUERIES["cuda"]))
        self._keys: dict[int | None, list[_Keys]] = {}
        # each layer's keys and values, the carried ones first
        self._seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def carry(self) -> Layers:
        """Return the keys and values that the next pass needs: one path, so never more tokens than one row."""
        return {
            layer: (_columns(keys, self._kept).clone(), _columns(values, self._kept).clone())
            for layer, (keys, values) in self._seen.items()
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
        """Return softmax(q kᵀ) v of the pass in one layer, [tokens, heads, width].

        Args:
            layer: the number of the layer.
            query: [heads, tokens, width], already scaled.
            key: [key heads, tokens, width].
            value: [key heads, tokens, width].
            window: the layer's sliding window in tokens; None for none.
            softcap: scores s become softcap · tanh(s / softcap); None for none.
        """
        before = self._carried.get(layer)
        if before is not None:
            key, value = torch.cat([before[0], key], 1), torch.cat([before[1], value], 1)
        key, value = key.contiguous(), value.contiguous()
        self._seen[layer] = key, value
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
    """A block's indices and mask as tensors."""

    queries: slice
    columns: slice | torch.Tensor
    first_hidden: int
    """The first column that some query does not see."""
    hidden: torch.Tensor
    """bool [queries, columns from first_hidden on]: which query does not see which key."""

    @classmethod
    def of(cls, block: Block, device: torch.device) -> _Keys:
        by_all = np.asarray(block.visible.all(axis=0))
        first = len(by_all) if by_all.all() else int(by_all.argmin())
        hidden = torch.from_numpy(~block.visible[:, first:]).to(device)
        return cls(block.queries, _index(block.columns, device), first, hidden)


class _Active(threading.local):
    attention: PassAttention | None = None


_active = _Active()


@contextmanager
def attending(attention: PassAttention) -> Iterator[None]:
    """Make models that were given to `use` attend this way, in this thread and within the block."""
    _active.attention = attention
    try:
        yield
    finally:
        _active.attention = None


def use(model: Any) -> bool:
    """Let a model attend as `attending` says, and outside of it through torch's `sdpa` as before.

    Returns:
        Whether the model can: it attends through `sdpa` and its layers are full or sliding attention.
    """
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
    mixed = _active.attention(
        module.layer_idx, scaled, key[0], value[0], rest.get("sliding_window"), rest.get("softcap")
    )
    return mixed[None], None


def _mask(*arguments: Any, **settings: Any) -> Any:
    """No mask while an attention is active, which knows what is seen; else the mask of sdpa."""
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(*arguments, **settings) if _active.attention is None else None


def _index(columns: np.ndarray, device: torch.device) -> slice | torch.Tensor:
    if len(columns) and (np.diff(columns) == 1).all():
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return torch.from_numpy(columns).to(device)


def _columns(layer: torch.Tensor, columns: slice | torch.Tensor) -> torch.Tensor:
    return layer[:, columns] if isinstance(columns, slice) else layer.index_select(1, columns)
