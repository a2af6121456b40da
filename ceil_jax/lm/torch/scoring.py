"""Log-probabilities of tokens, by passes of a causal LM over a prefix tree.

The cost is in the tokens, so each is read once: rows that begin alike share their common prefix, nothing is
padded, and logits are computed only where a token is scored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ceil_jax.lm.tokens import PairTokens
from ceil_jax.lm.torch.prefix_tree import Pass, Trie, shares
from ceil_jax.lm.torch.tree_attention import Layers, PassAttention, attending

LOGITS_AT_ONCE = 2**25
"""The most logits kept at one time: 128 MiB in float32."""


class TreeReader:
    """Reads rows of tokens as one prefix tree, pass by pass.

    It keeps the keys and values of one pass and of the one path before it. Every method may be called from
    several threads.

    Args:
        model: a causal LM that was given to `tree_attention.use`.
        budget: the most tokens of a pass.
    """

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget
        self._wanted = threading.local()
        self._head = model.get_output_embeddings()
        self._head.register_forward_pre_hook(self._keep_wanted)
        self._rows_at_once = max(LOGITS_AT_ONCE // self._head.weight.shape[0], 1)

    def each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the log-probabilities of each row's scored tokens, and the number of tokens read.

        On a CPU, each core reads a share of the rows, cut where they begin differently. Cores that share a pass
        would wait for one another at every matrix product, and long when something else runs beside them.
        """
        scores = [np.zeros(0)] * len(rows)
        asked = [row for row, tokens in enumerate(rows) if tokens.scored]
        alone = self.model.device.type != "cpu" or _depends_on_length(self.model.config)
        cores = 1 if alone else torch.get_num_threads()
        parts = shares([rows[row].ids[:-1] for row in asked], cores, self.budget // 2)
        done = self._side_by_side([[rows[asked[place]] for place in part] for part in parts])
        for part, (found, _) in zip(parts, done, strict=True):
            for place, log_probs in zip(part, found, strict=True):
                scores[asked[place]] = log_probs
        return scores, sum(read for _, read in done)

    def _side_by_side(self, parts: Sequence[list[PairTokens]]) -> list[tuple[list[np.ndarray], int]]:
        """What `_each` gives of each part, in order, each with its share of the cores."""
        if len(parts) < 2:
            return [self._each(part) for part in parts]
        cores = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(len(parts), "lm", torch.set_num_threads, (cores // len(parts),)) as pool:
                return list(pool.map(self._each, parts))
        finally:
            torch.set_num_threads(cores)

    def _each(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        trie = Trie([row.ids[:-1] for row in rows])
        # the token of the trie behind which each scored token of each row stands
        after = np.concatenate([path[row.start - 1 :] for path, row in zip(trie.paths, rows, strict=True)])
        token = np.concatenate([row.ids[row.start :] for row in rows])
        log_probs = np.zeros(len(token))
        places, of_place = np.unique(after, return_inverse=True)
        for first, last, predicted, _ in self.passes(trie, places):
            here = (first <= of_place) & (of_place < last)
            picked = torch.from_numpy(np.stack([of_place[here] - first, token[here]])).to(predicted.device)
            log_probs[here] = predicted[picked[0], picked[1]].double().cpu().numpy()
        return np.split(log_probs, np.cumsum([row.scored for row in rows])[:-1]), len(trie)

    @torch.inference_mode()
    def passes(
        self, trie: Trie, places: np.ndarray
    ) -> Iterator[tuple[int, int, torch.Tensor, PassAttention]]:
        """Read a trie, pass by pass.

        Args:
            trie: the tokens.
            places: int [n], the tokens after which a prediction is wanted, ascending.

        Yields:
            For each pass: the range of the `places` that lie in it, as first and last + 1; float32
            [places, vocabulary], the log-probabilities after each of them; and the keys and values of the pass.
        """
        carried: Layers = {}
        stop = 0
        while stop < len(trie):
            first = int(np.searchsorted(places, stop))
            beyond = first + self._rows_at_once
            limit = int(places[beyond]) if beyond < len(places) else len(trie)
            read = Pass(trie, stop, min(stop + self.budget, limit, len(trie)))
            stop = read.stop
            last = int(np.searchsorted(places, stop))
            attention = PassAttention(read, carried, self.model.device)
            now = slice(read.start, stop)
            with attending(attention):
                predicted = self.log_probs(trie.ids[now], trie.depths[now], places[first:last] - read.start)
            yield first, last, predicted, attention
            carried = attention.carry()

    def log_probs(self, ids: np.ndarray, positions: np.ndarray, wanted: np.ndarray) -> torch.Tensor:
        """Return float32 [wanted, vocabulary], log-probabilities of the next token, while `attending`.

        Args:
            ids: int [tokens], what the model reads.
            positions: int [tokens], where each token stands in its row.
            wanted: int [wanted], the places in `ids` after which a prediction is wanted.
        """
        device = self.model.device
        self._wanted.places = torch.from_numpy(wanted).to(device)
        try:
            read = torch.from_numpy(ids).to(device)[None]
            stand = torch.from_numpy(positions).to(device)[None]
            logits = self.model(input_ids=read, position_ids=stand, use_cache=False).logits[0].float()
        finally:
            self._wanted.places = None
        return logits.sub_(logits.logsumexp(-1, keepdim=True))

    def _keep_wanted(self, _head: Any, hidden: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        """Pass on only the hidden states that are wanted to the network's head, so no other logits are computed."""
        places = getattr(self._wanted, "places", None)
        return None if places is None else (hidden[0][:, places],)


def _depends_on_length(config: Any) -> bool:
    """Whether the model recomputes its rotary frequencies, in place, for the length of each batch."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    by_layer = [settings for settings in rope.values() if isinstance(settings, dict)]
    return any(settings.get("rope_type") in ("dynamic", "longrope") for settings in [rope, *by_layer])
