"""A causal LM of transformers, read by torch: the only file of the package that imports torch.

Tokens are what costs, so each is read once: the options of a prompt share one pass over it, rows of near equal
length are read together, and logits are made only where something is scored.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from ceil_jax.errors import UserError
from ceil_jax.lm.batching import by_token_budget
from ceil_jax.lm.stopping import check_stop, cut, first_stop
from ceil_jax.lm.tokens import Tokeniser, Tokens, shared_prefix

LOGITS_AT_ONCE = 2**25
"""Logits kept at one time: 128 MiB in float32."""
CACHED_TOKENS = 8
"""Budget of a pass that reads few tokens after many cached ones, in units of the budget of one that reads all."""


class TorchLM:
    """The `LanguageModel` protocol by a model and a fast tokenizer of transformers.

    In float32 a result does not depend on what it is batched with beyond rounding (1e-4 per continuation); in
    bfloat16 the sums of another batch are rounded elsewhere, which moves a log-probability by about 0.01.
    `tokens_read` counts what goes in: a continuation's last token is scored, not read.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str, token_budget: int | None = None):
        self.name = name
        self.context_length = _context_length(model.config)
        self.tokens_read = 0
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._tokens = Tokeniser(tokenizer)
        self._budget = token_budget or (2**15 if model.device.type == "cuda" else 2**11)

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self._tokens.count(texts), dtype=np.int64)

    @torch.inference_mode()
    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        pairs = self._tokens.pairs(prompts, continuations)
        self._must_fit([len(pair.ids) for pair in pairs], range(len(pairs)))
        return self._read_whole(pairs)

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        return self._choices(prompts, choices)[0]

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        scores, lengths = self._choices(prompts, choices)
        if per_token:
            scores = [score / np.maximum(n, 1) for score, n in zip(scores, lengths, strict=True)]
        return np.array([score.argmax() for score in scores], dtype=np.int64)

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """As the protocol says; ends at the model's end of text too, and where the context is full.

        Each prompt draws from its own generator, seeded by `seed` and its text: equal prompts give equal
        samples, so draw another one with another seed.
        """
        check_stop(stop)
        if temperature < 0:
            raise UserError(f"temperature is {temperature}; it must be 0 (greedy) or more")
        ids = self._tokens.prompts(prompts)
        self._must_fit([len(row) + 1 for row in ids], range(len(ids)))
        limits = [min(max_new_tokens, self.context_length - len(row)) for row in ids]
        texts = [""] * len(ids)
        sizes = [len(row) + limit for row, limit in zip(ids, limits, strict=True)]
        for batch in by_token_budget(sizes, 2 * self._budget):
            writers = [_Writer(self._tokenizer, ids[row], limits[row], stop) for row in batch]
            draws = [_generator(seed, prompts[row]) for row in batch] if temperature else None
            self._continue(writers, draws, temperature)
            for row, writer in zip(batch, writers, strict=True):
                texts[row] = cut(writer.text(), stop)
        return texts

    def _choices(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Log-likelihood and number of tokens of each prompt's options."""
        if empty := [row for row, options in enumerate(choices) if not len(options)]:
            raise UserError(f"prompt {empty[0]} has no choices; give at least one")
        groups = self._option_tokens(prompts, choices)
        prefixes = [shared_prefix(group) for group in groups]
        scores = [np.zeros(0)] * len(groups)
        # one token each: the prefix's last logits say all. Nothing shared: read each option whole
        one, many, apart = [], [], []
        for row, (group, prefix) in enumerate(zip(groups, prefixes, strict=True)):
            short = all(len(option.ids) <= prefix + 1 for option in group)
            (apart if prefix == 0 else one if short else many).append(row)
        for rows in (one, many):
            for batch in self._batches([prefixes[row] for row in rows], [1] * len(rows)):
                chosen = [rows[place] for place in batch]
                found = self._read_shared([groups[r] for r in chosen], [prefixes[r] for r in chosen])
                for row, score in zip(chosen, found, strict=True):
                    scores[row] = score
        for row in apart:
            scores[row] = self._read_whole(groups[row])
        return scores, [np.array([option.scored for option in group]) for group in groups]

    @torch.inference_mode()
    def _read_whole(self, pairs: Sequence[Tokens]) -> np.ndarray:
        """Each pair's log-likelihood, each read from its beginning."""
        scores = np.zeros(len(pairs))
        lengths = [len(pair.ids) - 1 for pair in pairs]
        for batch in self._batches(lengths, [pair.scored for pair in pairs]):
            rows = [pairs[place] for place in batch]
            scored = [(r, c) for r, row in enumerate(rows) for c in range(row.start, len(row.ids))]
            # pad tokens stand after a row's own, where a causal LM cannot see them: no mask is needed
            log_probs = self._log_probs(
                [(r, c - 1) for r, c in scored],
                input_ids=self._padded([row.ids[:-1] for row in rows], "right"),
            )
            targets = [rows[r].ids[c] for r, c in scored]
            found = _picked(log_probs, range(len(scored)), targets)
            scores[batch] = np.bincount([r for r, _ in scored], weights=found, minlength=len(rows))
            self.tokens_read += sum(lengths[place] for place in batch)
        return scores

    @torch.inference_mode()
    def _read_shared(self, groups: Sequence[Sequence[Tokens]], prefixes: Sequence[int]) -> list[np.ndarray]:
        """Log-likelihood of every option, each prompt's shared prefix read once.

        The prefix's last logits give each option's first token; options of more tokens are read on from the
        prefix's keys and values, right-padded behind a left-padded prefix, so that what a token sees lies at
        its true distance (sliding windows count on it).
        """
        scores = [np.zeros(len(group)) for group in groups]
        prompts = [group[0].ids[:prefix] for group, prefix in zip(groups, prefixes, strict=True)]
        options = [(r, c) for r, group in enumerate(groups) for c in range(len(group))]
        long = [(r, c) for r, c in options if len(groups[r][c].ids) > prefixes[r] + 1]
        self.tokens_read += sum(prefixes)
        if not long:
            inputs = {"input_ids": self._padded(prompts, "right")}
            last = [(r, prefix - 1) for r, prefix in enumerate(prefixes)]
        else:
            mask = self._padded([[1] * prefix for prefix in prefixes], "left")
            cache = DynamicCache(config=self._model.config)
            inputs = {
                "input_ids": self._padded(prompts, "left"),
                "attention_mask": mask,
                "position_ids": _positions(mask),
                "past_key_values": cache,
                "use_cache": True,
            }
            last = [(r, max(prefixes) - 1) for r in range(len(groups))]
        log_probs = self._log_probs(last, **inputs)
        first = [
            (r, c)
            for r, c in options
            if groups[r][c].start == prefixes[r] and len(groups[r][c].ids) > prefixes[r]
        ]
        found = _picked(log_probs, [r for r, _ in first], [groups[r][c].ids[prefixes[r]] for r, c in first])
        for (r, c), score in zip(first, found, strict=True):
            scores[r][c] = score
        if not long:
            return scores

        rest = [groups[r][c].ids[prefixes[r] : -1] for r, c in long]
        sizes = [max(prefixes) + len(ids) for ids in rest]
        for batch in self._batches(sizes, [len(ids) for ids in rest], CACHED_TOKENS * self._budget):
            owners = [long[place][0] for place in batch]
            inputs_ids = self._padded([rest[place] for place in batch], "right")
            rows = torch.tensor(owners, device=mask.device)
            starts = torch.tensor([prefixes[r] for r in owners], device=mask.device)
            wanted = [
                (p, prefixes[r] + c)
                for p, (r, o) in enumerate(long[place] for place in batch)
                for c in range(len(rest[batch[p]]))
                if prefixes[r] + c + 1 >= groups[r][o].start
            ]
            log_probs = self._log_probs(
                [(p, c - prefixes[owners[p]]) for p, c in wanted],
                input_ids=inputs_ids,
                attention_mask=torch.cat([mask[rows], torch.ones_like(inputs_ids)], dim=1),
                position_ids=starts[:, None] + torch.arange(inputs_ids.shape[1], device=mask.device),
                past_key_values=_selected(cache, rows),
                use_cache=True,
            )
            targets = [groups[long[batch[p]][0]][long[batch[p]][1]].ids[c + 1] for p, c in wanted]
            for (p, _), score in zip(wanted, _picked(log_probs, range(len(wanted)), targets), strict=True):
                r, o = long[batch[p]]
                scores[r][o] += score
            self.tokens_read += sum(len(rest[place]) for place in batch)
        return scores

    def _continue(
        self, writers: Sequence[_Writer], draws: list[np.random.Generator] | None, temperature: float
    ) -> None:
        """Lets all writers write until each is done; rows that are done leave once they are half."""
        alive = list(range(len(writers)))
        alive = [row for row in alive if not writers[row].done]
        if not alive:
            return
        inputs = self._padded([writers[row].prompt for row in alive], "left")
        mask = self._padded([[1] * len(writers[row].prompt) for row in alive], "left")
        positions = _positions(mask)
        self.tokens_read += int(mask.sum())
        cache = DynamicCache(config=self._model.config)
        ends = _end_tokens(self._model, self._tokenizer)
        while True:
            logits = (
                self._model(
                    input_ids=inputs,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
                .logits[:, -1]
                .float()
            )
            if draws is None:
                chosen = logits.argmax(-1)
            else:
                chosen = _sampled(logits / temperature, [draws[row].random() for row in alive])
            for row, token in zip(alive, chosen.tolist(), strict=True):
                writers[row].write(token, token in ends)
            going = [place for place, row in enumerate(alive) if not writers[row].done]
            if not going:
                return
            if 2 * len(going) <= len(alive):
                kept = torch.tensor(going, device=mask.device)
                cache.batch_select_indices(kept)
                alive = [alive[place] for place in going]
                mask, positions, chosen = mask[kept], positions[kept], chosen[kept]
            inputs = chosen[:, None]
            mask = torch.cat([mask, torch.ones_like(inputs)], dim=1)
            positions = positions[:, -1:] + 1
            self.tokens_read += len(going)

    def _log_probs(self, wanted: Sequence[tuple[int, int]], **inputs: Any) -> torch.Tensor:
        """float32 [n, vocabulary]: what the model predicts after each wanted (row, column) of its input.

        The head of the network is shown the hidden states of those places alone, so logits of no others are
        made (`logits_to_keep` can only take the same columns of every row).
        """
        rows, columns = torch.tensor(wanted, device=self._model.device).reshape(-1, 2).unbind(1)
        head = self._model.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, hidden: (hidden[0][rows, columns][None],))
        try:
            logits = self._model(**{"use_cache": False, **inputs}).logits[0].float()
        finally:
            hook.remove()
        return logits.sub_(logits.logsumexp(-1, keepdim=True))

    def _batches(self, lengths: Sequence[int], logits: Sequence[int], budget: int = 0) -> list[list[int]]:
        """Batches within the budget of tokens and within LOGITS_AT_ONCE."""
        budget = budget or self._budget
        per_logit = budget * self._model.get_output_embeddings().weight.shape[0] / LOGITS_AT_ONCE
        sizes = [max(length, math.ceil(n * per_logit)) for length, n in zip(lengths, logits, strict=True)]
        return by_token_budget(sizes, budget)

    def _padded(self, rows: Sequence[Sequence[int]], side: str) -> torch.Tensor:
        """int64 [rows, longest], zeros on the side named."""
        padded = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        for row, values in enumerate(rows):
            padded[
                row, slice(len(values)) if side == "right" else slice(padded.shape[1] - len(values), None)
            ] = values
        return torch.from_numpy(padded).to(self._model.device)

    def _option_tokens(self, prompts: Sequence[str], choices: Sequence[Sequence[str]]) -> list[list[Tokens]]:
        owners = [row for row, options in enumerate(choices) for _ in options]
        flat = self._tokens.pairs(
            [prompts[row] for row in owners], [option for options in choices for option in options]
        )
        self._must_fit([len(option.ids) for option in flat], owners)
        groups: list[list[Tokens]] = [[] for _ in choices]
        for row, option in zip(owners, flat, strict=True):
            groups[row].append(option)
        return groups

    def _must_fit(self, lengths: Iterable[int], prompts: Iterable[int]) -> None:
        for row, length in zip(prompts, lengths, strict=True):
            if length > self.context_length:
                raise UserError(
                    f"prompt {row} is {length} tokens with its continuation, more than the {self.context_length} "
                    f"that {self.name} reads; shorten its input or take an LM with a longer context"
                )


class _Writer:
    """One prompt's continuation as it grows."""

    def __init__(self, tokenizer: Any, prompt: list[int], limit: int, stop: Sequence[str]):
        self.prompt = prompt
        self.done = limit <= 0
        self._tokenizer = tokenizer
        self._limit = limit
        self._stop = stop
        self._written: list[int] = []
        # a few tokens before, because some tokenizers decode a text's first token without its space
        self._before = prompt[-4:]
        self._skip = len(self._decode(self._before))

    def write(self, token: int, end: bool) -> None:
        """The next token; after the last one nothing more is taken."""
        if self.done:
            return
        if not end:
            self._written.append(token)
        full = len(self._written) >= self._limit
        self.done = end or full or bool(self._stop) and first_stop(self.text(), self._stop) is not None

    def text(self) -> str:
        return self._decode(self._before + self._written)[self._skip :]

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _picked(log_probs: torch.Tensor, rows: Iterable[int], tokens: Iterable[int]) -> np.ndarray:
    """float64: the log-probability of a token in each row named."""
    places = torch.tensor([list(rows), list(tokens)], dtype=torch.int64, device=log_probs.device)
    return log_probs[places[0], places[1]].double().cpu().numpy()


def _positions(mask: torch.Tensor) -> torch.Tensor:
    """Positions of left-padded tokens: 0 at each row's first real one."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def _selected(cache: Any, rows: torch.Tensor) -> Any:
    """A cache of the rows named, repeats allowed; the one given stays as it is."""
    selected = copy.copy(cache)
    selected.layers = [copy.copy(layer) for layer in cache.layers]
    selected.batch_select_indices(rows)
    return selected


def _sampled(logits: torch.Tensor, uniform: Sequence[float]) -> torch.Tensor:
    """The token at which each row's cumulative probability passes its uniform number."""
    cumulative = logits.double().softmax(-1).cumsum(-1)
    level = torch.tensor(uniform, device=logits.device, dtype=torch.float64)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, level, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)


def _generator(seed: int, prompt: str) -> np.random.Generator:
    digest = hashlib.blake2b(prompt.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    ends = model.generation_config.eos_token_id
    return {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}


def _context_length(config: Any) -> int:
    text = config.get_text_config()
    for field in ("max_position_embeddings", "n_positions", "seq_length"):
        if isinstance(length := getattr(text, field, None), int):
            return length
    raise UserError(f"{config.model_type}: config.json names no context length (max_position_embeddings)")


def load(source: str, name: str, dtype: str, device: str) -> TorchLM:
    """A folder's or hub id's model and tokenizer; safetensors only, no code of the repository's."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = _device(device)
    precision = _dtype(dtype, place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=precision, use_safetensors=True)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load the language model {source}: {reason}") from None
    return TorchLM(model.to(place), tokenizer, name=f"{name}@{str(precision).removeprefix('torch.')}")


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device {device!r} is not there: {str(error).splitlines()[0]}; try 'cpu'") from None


def _dtype(dtype: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 where the processor computes in it (2-3 × faster on such CPUs), else float32."""
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype == "auto":
        fast = device.type == "cuda" or _cpu_has_bfloat16()
        return torch.bfloat16 if fast else torch.float32
    if dtype not in known:
        raise UserError(f"unknown dtype {dtype!r}; known: auto, {', '.join(known)}")
    return known[dtype]


def _cpu_has_bfloat16() -> bool:
    try:
        with open("/proc/cpuinfo") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "").split()
    except OSError:  # not Linux
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
