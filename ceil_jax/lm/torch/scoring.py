"""Passes of a causal LM over tokens, and the log-probabilities they give.

Tokens are what costs, so each is read once: rows that begin alike share what they begin with, nothing is
padded, and logits are made only where something is scored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from ceil_jax.lm.tokens import Tokens
from ceil_jax.lm.torch.generation import Session
from ceil_jax.lm.torch.prefix_tree import Pass, Trie, shares
from ceil_jax.lm.torch.tree_attention import Layers, PassAttention, attending

LOGITS_AT_ONCE = 2**25
"""Logits kept at one time: 128 MiB in float32."""

T = TypeVar("T")


class Reader:
    """Reads `budget` tokens in a pass, and keeps the keys and values of that pass and of one path before it.

    Every method may be called from several threads.
    """

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget
        self._wanted = threading.local()
        self._head = model.get_output_embeddings()
        self._head.register_forward_pre_hook(self._keep_wanted)
        self._rows_at_once = max(LOGITS_AT_ONCE // self._head.weight.shape[0], 1)

    def scores(self, rows: Sequence[Tokens]) -> tuple[np.ndarray, int]:
        """float64 [N]: each row's log-likelihood, Σ log P of its scored tokens; and how many tokens were read."""
        found, read = self.each(rows)
        return np.array([tokens.sum() for tokens in found]), read

    def each(self, rows: Sequence[Tokens]) -> tuple[list[np.ndarray], int]:
        """The log-probabilities of each row's scored tokens; and how many tokens were read.

        On a CPU each core reads a share of its own, cut where rows begin differently: cores that share a pass
        wait for one another at every product, and long when something else runs beside them.
        """
        scores = [np.zeros(0)] * len(rows)
        asked = [row for row, tokens in enumerate(rows) if tokens.scored]
        cores = self.cores()
        parts = shares([rows[row].ids[:-1] for row in asked], cores, self.budget // 2)
        done = self.side_by_side(lambda part: self._each([rows[asked[place]] for place in part]), parts)
        for part, (found, _) in zip(parts, done, strict=True):
            for place, log_probs in zip(part, found, strict=True):
                scores[asked[place]] = log_probs
        return scores, sum(read for _, read in done)

    def session(self, prompts: Sequence[list[int]], room: int) -> Session:
        """The prompts, read, to be continued by `room` tokens each at most."""
        return Session(self, prompts, room)

    def cores(self) -> int:
        """How many shares may be read side by side."""
        if self.model.device.type != "cpu" or _depends_on_length(self.model.config):
            return 1
        return torch.get_num_threads()

    def side_by_side(self, work: Callable[[list[int]], T], parts: Sequence[list[int]]) -> list[T]:
        """`work` of each part, in order, each with its share of the cores."""
        if len(parts) < 2:
            return [work(part) for part in parts]
        cores = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(len(parts), "lm", torch.set_num_threads, (cores // len(parts),)) as pool:
                return list(pool.map(work, parts))
        finally:
            torch.set_num_threads(cores)

    def _each(self, rows: Sequence[Tokens]) -> tuple[list[np.ndarray], int]:
        trie = Trie([row.ids[:-1] for row in rows])
        # after which token of the trie each scored token of each row stands
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
        """Reads a trie, pass by pass: which of the `places` (tokens, ascending) lie in the pass, what is
        predicted after each, float32 [places, vocabulary] log-probabilities, and the pass's keys."""
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
            with attending(attention):
                predicted = self.log_probs(
                    trie.ids[read.start : stop],
                    trie.depths[read.start : stop],
                    places[first:last] - read.start,
                )
            yield first, last, predicted, attention
            carried = attention.carry()

    def log_probs(self, ids: np.ndarray, positions: np.ndarray, wanted: np.ndarray) -> torch.Tensor:
        """float32 [wanted, vocabulary]: what the model predicts after some of the tokens it reads."""
        device = self.model.device
        self._wanted.places = torch.from_numpy(wanted).to(device)
        try:
            logits = (
                self.model(
                    input_ids=torch.from_numpy(ids).to(device)[None],
                    position_ids=torch.from_numpy(positions).to(device)[None],
                    use_cache=False,
                )
                .logits[0]
                .float()
            )
        finally:
            self._wanted.places = None
        return logits.sub_(logits.logsumexp(-1, keepdim=True))

    def _keep_wanted(self, _head: Any, hidden: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        """Before the network's head: only the hidden states that are asked for go on, so no other logits are
        made."""
        places = getattr(self._wanted, "places", None)
        return None if places is None else (hidden[0][:, places],)


def _depends_on_length(config: Any) -> bool:
    """Some models recompute their rotary frequencies, in place, for each batch's length."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    by_layer = [settings for settings in rope.values() if isinstance(settings, dict)]
    return any(settings.get("rope_type") in ("dynamic", "longrope") for settings in [rope, *by_layer])
