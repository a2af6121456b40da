"""Passes of a causal LM over batches of tokens, and the log-probabilities they give.

Tokens are what costs, so each is read once: the options of a prompt share one pass over it, rows of near
equal length are read together, and logits are made only where something is scored.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from transformers import DynamicCache

from ceil_jax.lm.batching import by_token_budget
from ceil_jax.lm.tokens import Tokens, shared_prefix

LOGITS_AT_ONCE = 2**25
"""Logits kept at one time: 128 MiB in float32."""
CACHED = 4
"""A pass over few tokens behind many cached ones may hold this many times the budget of tokens."""

T = TypeVar("T")


class Reader:
    """Reads batches of `budget` tokens, padding included. Every method may be called from several threads."""

    def __init__(self, model: Any, budget: int):
        self.model = model
        self.budget = budget
        self._wanted = threading.local()
        self._head = model.get_output_embeddings()
        self._head.register_forward_pre_hook(self._keep_wanted)

    def whole(self, pairs: Sequence[Tokens]) -> np.ndarray:
        """Each pair's log-likelihood, each read from its beginning."""
        scores = np.zeros(len(pairs))
        asked = [row for row, pair in enumerate(pairs) if pair.scored]
        for rows, found in self._side_by_side(
            lambda rows: self._read([pairs[row] for row in rows]),
            self._batches(
                asked, [len(pairs[row].ids) for row in asked], [pairs[row].scored for row in asked]
            ),
        ):
            scores[rows] = found
        return scores

    def each(self, pairs: Sequence[Tokens]) -> list[np.ndarray]:
        """The log-probability of each pair's every scored token."""
        scores = [np.zeros(0)] * len(pairs)
        asked = [row for row, pair in enumerate(pairs) if pair.scored]
        lengths, logits = [len(pairs[row].ids) for row in asked], [pairs[row].scored for row in asked]
        for rows, (owners, found) in self._side_by_side(
            lambda rows: self._read_each([pairs[row] for row in rows]), self._batches(asked, lengths, logits)
        ):
            for place, row in enumerate(rows):
                scores[row] = found[np.array(owners) == place]
        return scores

    def options(self, groups: Sequence[Sequence[Tokens]]) -> list[np.ndarray]:
        """Log-likelihoods of each prompt's options, the tokens they share read once.

        Prompts whose options are all of one token need no second pass and keep no cache. Options that share
        nothing (an empty prompt, say) are read whole.
        """
        prefixes = [shared_prefix(group) for group in groups]
        short: list[int] = []
        long: list[int] = []
        scores: list[np.ndarray] = [np.zeros(0)] * len(groups)
        for row, (group, prefix) in enumerate(zip(groups, prefixes, strict=True)):
            if prefix == 0:
                scores[row] = self.whole(group)
            elif max(len(option.ids) for option in group) <= prefix + 1:
                short.append(row)
            else:
                long.append(row)
        batches = [
            batch for rows in (short, long) for batch in self._batches(rows, [prefixes[row] for row in rows])
        ]
        for batch, found in self._side_by_side(
            lambda rows: self._read_shared([groups[r] for r in rows], [prefixes[r] for r in rows]), batches
        ):
            for row, score in zip(batch, found, strict=True):
                scores[row] = score
        return scores

    def padded(self, rows: Sequence[Sequence[int]], *, left: bool = False) -> torch.Tensor:
        """int64 [rows, longest]: zeros fill the right, or the left."""
        width = max(map(len, rows), default=0)
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for row, values in enumerate(rows):
            start = width - len(values) if left else 0
            padded[row, start : start + len(values)] = values
        return torch.from_numpy(padded).to(self.model.device)

    def side_by_side(self, work: Callable[[list[int]], T], batches: Sequence[list[int]]) -> list[T]:
        """`work` of each batch, in order. On a CPU each core takes batches of its own: cores that share a
        batch wait for one another at every product, and long when something else runs beside them."""
        cores = torch.get_num_threads()
        workers = min(cores, len(batches))
        if workers < 2 or self.model.device.type != "cpu" or _depends_on_length(self.model.config):
            return [work(batch) for batch in batches]
        try:
            with ThreadPoolExecutor(workers, "lm", torch.set_num_threads, (cores // workers,)) as pool:
                return list(pool.map(work, batches))
        finally:
            torch.set_num_threads(cores)

    def _side_by_side(
        self, work: Callable[[list[int]], T], batches: Sequence[list[int]]
    ) -> Iterable[tuple[list[int], T]]:
        return zip(batches, self.side_by_side(work, batches), strict=True)

    @torch.inference_mode()
    def _read_shared(self, groups: Sequence[Sequence[Tokens]], prefixes: Sequence[int]) -> list[np.ndarray]:
        """One batch of prompts: the prefix's last logits give each option's first token; options of more
        tokens are read on from the prefix's keys and values."""
        prompts = [group[0].ids[:prefix] for group, prefix in zip(groups, prefixes, strict=True)]
        options = [(r, option.after(prefixes[r])) for r, group in enumerate(groups) for option in group]
        scores = np.zeros(len(options))
        long = [place for place, (_, option) in enumerate(options) if len(option.ids) > 1]
        mask = self.padded([[1] * length for length in prefixes], left=True)
        prefix = _Prefix(DynamicCache(config=self.model.config), mask)
        if long:
            log_probs = self._log_probs(
                [(r, max(prefixes) - 1) for r in range(len(groups))],
                input_ids=self.padded(prompts, left=True),
                attention_mask=mask,
                position_ids=positions(mask),
                past_key_values=prefix.cache,
                use_cache=True,
            )
        else:  # pad tokens on the right are never seen: no mask, no cache
            last = [(r, length - 1) for r, length in enumerate(prefixes)]
            log_probs = self._log_probs(last, input_ids=self.padded(prompts))
        first = [place for place, (_, option) in enumerate(options) if option.start == 0 and option.ids]
        scores[first] = _picked(
            log_probs, [options[place][0] for place in first], [options[place][1].ids[0] for place in first]
        )
        lengths = [len(options[place][1].ids) for place in long]
        cached = [max(prefixes) + length for length in lengths]
        for batch in self._batches(long, cached, lengths, CACHED * self.budget):
            owners = [options[place][0] for place in batch]
            scores[batch] += self._read([options[place][1] for place in batch], prefix.of(owners))
        return np.split(scores, np.cumsum([len(group) for group in groups])[:-1])

    @torch.inference_mode()
    def _read(self, rows: Sequence[Tokens], behind: _Prefix | None = None) -> np.ndarray:
        """Σ log P of each row's scored tokens but its very first, which nothing in the row stands before."""
        owners, found = self._read_each(rows, behind)
        return np.bincount(owners, weights=found, minlength=len(rows))

    @torch.inference_mode()
    def _read_each(
        self, rows: Sequence[Tokens], behind: _Prefix | None = None
    ) -> tuple[list[int], np.ndarray]:
        """The row of each scored token but a row's very first, and its log-probability.

        Pad tokens follow a row's own, where a causal LM cannot see them, so no mask is needed. Behind a
        prefix there is one: the prefix is padded on the left, so that tokens lie at their true distance
        (sliding windows count on it).
        """
        inputs: dict[str, Any] = {"input_ids": self.padded([row.ids[:-1] for row in rows])}
        if behind is not None:
            own = torch.ones_like(inputs["input_ids"])
            mask = torch.cat([behind.mask, own], dim=1)
            inputs["attention_mask"] = mask
            inputs["position_ids"] = positions(mask)[:, -own.shape[1] :]
            inputs |= {"past_key_values": behind.cache, "use_cache": True}
        scored = [(r, c) for r, row in enumerate(rows) for c in range(max(row.start, 1), len(row.ids))]
        log_probs = self._log_probs([(r, c - 1) for r, c in scored], **inputs)
        found = _picked(log_probs, range(len(scored)), [rows[r].ids[c] for r, c in scored])
        return [r for r, _ in scored], found

    def _log_probs(self, wanted: Sequence[tuple[int, int]], **inputs: Any) -> torch.Tensor:
        """float32 [n, vocabulary]: what the model predicts after each wanted (row, column) of its input."""
        places = torch.tensor(wanted, dtype=torch.int64, device=self.model.device).reshape(-1, 2)
        self._wanted.places = places.unbind(1)
        try:
            logits = self.model(**{"use_cache": False, **inputs}).logits[0].float()
        finally:
            self._wanted.places = None
        return logits.sub_(logits.logsumexp(-1, keepdim=True))

    def _keep_wanted(self, _head: Any, hidden: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        """Before the network's head: only the hidden states that are asked for go on, as one row, so no other
        logits are made. (`logits_to_keep` can only take the same columns of every row.)"""
        places = getattr(self._wanted, "places", None)
        return None if places is None else (hidden[0][places][None],)

    def _batches(
        self, rows: Sequence[int], lengths: Sequence[int], logits: Sequence[int] = (), budget: int = 0
    ) -> list[list[int]]:
        """`rows` in batches within the budget of tokens and within LOGITS_AT_ONCE (one a row by default)."""
        budget = budget or self.budget
        per_logit = budget * self._head.weight.shape[0] / LOGITS_AT_ONCE
        wanted = logits or [1] * len(rows)
        sizes = [max(length, math.ceil(n * per_logit)) for length, n in zip(lengths, wanted, strict=True)]
        return [[rows[place] for place in batch] for batch in by_token_budget(sizes, budget)]


class _Prefix(NamedTuple):
    """Prompts that were read, left-padded: what their options are read behind."""

    cache: Any
    mask: torch.Tensor

    def of(self, rows: Sequence[int]) -> _Prefix:
        """The prompts of these rows, repeats allowed; the cache given stays as it is."""
        kept = torch.tensor(rows, dtype=torch.int64, device=self.mask.device)
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        cache.batch_select_indices(kept)
        return _Prefix(cache, self.mask[kept])


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Positions of left-padded tokens: 0 at each row's first real one."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def _picked(log_probs: torch.Tensor, rows: Iterable[int], tokens: Iterable[int]) -> np.ndarray:
    """float64: the log-probability of a token in each row named."""
    places = torch.tensor([list(rows), list(tokens)], dtype=torch.int64, device=log_probs.device)
    return log_probs[places[0], places[1]].double().cpu().numpy()


def _depends_on_length(config: Any) -> bool:
    """Some models recompute their rotary frequencies, in place, for each batch's length."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    by_layer = [settings for settings in rope.values() if isinstance(settings, dict)]
    return any(settings.get("rope_type") in ("dynamic", "longrope") for settings in [rope, *by_layer])
