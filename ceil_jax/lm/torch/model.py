"""A causal LM of transformers behind the protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ceil_jax.errors import UserError
from ceil_jax.lm.base import TokenScores
from ceil_jax.lm.stopping import check_sampling
from ceil_jax.lm.tokens import Tokeniser, Tokens
from ceil_jax.lm.torch import tree_attention
from ceil_jax.lm.torch.batching import by_token_budget
from ceil_jax.lm.torch.padded import PlainReader
from ceil_jax.lm.torch.quiet import quiet_if_small
from ceil_jax.lm.torch.scoring import Reader
from ceil_jax.lm.torch.writing import Writer

CACHED = 16
"""Rows are continued together while their tokens, those to come included, are within this many times the
budget of tokens: the keys and values that are kept."""


class TorchLM:
    """The `LanguageModel` protocol by a causal model and a fast tokenizer of transformers.

    In float32 a result does not depend on what it is read with beyond rounding (1e-4 per continuation); in
    bfloat16 another pass rounds elsewhere, which moves a log-probability by a few hundredths. `tokens_read`
    counts what goes in, what rows begin with in common once for each core that reads a share of them; a
    continuation's last token is scored, not read. `token_budget` is the size of a pass.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str, token_budget: int | None = None):
        self.name = name
        self.context_length = _context_length(model.config)
        self.tokens_read = 0
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._tokens = Tokeniser(tokenizer)
        # 1,024 on a CPU: what a layer computes on the way stays in the processor's cache
        budget = token_budget or (2**14 if model.device.type == "cuda" else 2**10)
        self._reader: Reader | PlainReader = (
            Reader(model, budget) if tree_attention.use(model) else PlainReader(model, budget)
        )

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self._tokens.count(texts), dtype=np.int64)

    def log_likelihood(self, prompts: Sequence[str], continuations: Sequence[str]) -> np.ndarray:
        pairs = self._tokens.pairs(prompts, continuations)
        self._must_fit([len(pair.ids) for pair in pairs], range(len(pairs)))
        return self._scores(pairs)

    def choice_log_likelihood(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]]
    ) -> list[np.ndarray]:
        return self._by_prompt(self._options(prompts, choices))

    def choose(
        self, prompts: Sequence[str], choices: Sequence[Sequence[str]], *, per_token: bool = False
    ) -> np.ndarray:
        options = self._options(prompts, choices)
        scores = self._by_prompt(options)
        if per_token:
            lengths = [[max(option.scored, 1) for option in group] for group in options]
            scores = [score / n for score, n in zip(scores, lengths, strict=True)]
        return np.array([score.argmax() for score in scores], dtype=np.int64)

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """As the protocol says; a text also ends at the model's end-of-text token, or with the context.

        Each prompt draws from its own generator, seeded by `seed` and its text: equal prompts give equal
        samples, so draw another one with another seed.
        """
        check_sampling(stop, temperature)
        ids = self._tokens.prompts(prompts)
        self._must_fit([len(row) + 1 for row in ids], range(len(ids)))
        limits = [min(max_new_tokens, self.context_length - len(row)) for row in ids]
        writers = [Writer(self._tokenizer, row, limit, stop) for row, limit in zip(ids, limits, strict=True)]
        draws = [_generator(seed, prompt) for prompt in prompts]
        rows = [row for row, writer in enumerate(writers) if not writer.done]
        room = CACHED * self._reader.budget
        for batch in by_token_budget([len(ids[row]) + limits[row] for row in rows], room):
            some = [rows[place] for place in batch]
            self._write([writers[row] for row in some], [draws[row] for row in some], temperature)
        return [writer.text() for writer in writers]

    def token_log_probs(self, texts: Sequence[str]) -> list[TokenScores]:
        """Every token of each text; the first has no score unless the tokenizer puts one before it."""
        found = self._tokens.whole(texts)
        self._must_fit([len(tokens.ids) for tokens, _ in found], range(len(found)))
        scores, read = self._reader.each([tokens for tokens, _ in found])
        self.tokens_read += read
        return [
            TokenScores(pieces, [*[None] * (len(pieces) - len(score)), *score.tolist()])
            for (_, pieces), score in zip(found, scores, strict=True)
        ]

    def chat_prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """What the model reads of a conversation: by its own template, else the messages line by line."""
        if self._tokenizer.chat_template is None:
            return "\n".join(message["content"] for message in messages)
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        # a tokenizer that puts a start-of-text itself would put a second one
        opened = self._tokenizer.bos_token if self._tokenizer("").input_ids else ""
        return text.removeprefix(opened)

    def _options(self, prompts: Sequence[str], choices: Sequence[Sequence[str]]) -> list[list[Tokens]]:
        """Each prompt's options, each tokenised with the prompt."""
        pairs = list(zip(prompts, choices, strict=True))
        for row, (_, options) in enumerate(pairs):
            if isinstance(options, str) or not options:
                raise UserError(f"prompt {row} has choices {options!r}; give a list of at least one string")
        owners = [row for row, (_, options) in enumerate(pairs) for _ in options]
        tokens = self._tokens.pairs(
            [prompts[row] for row in owners], [option for _, options in pairs for option in options]
        )
        self._must_fit([len(option.ids) for option in tokens], owners)
        rest = iter(tokens)
        return [[next(rest) for _ in options] for _, options in pairs]

    def _by_prompt(self, options: Sequence[Sequence[Tokens]]) -> list[np.ndarray]:
        scores = self._scores([option for group in options for option in group])
        return np.split(scores, np.cumsum([len(group) for group in options])[:-1]) if options else []

    def _scores(self, rows: Sequence[Tokens]) -> np.ndarray:
        scores, read = self._reader.scores(rows)
        self.tokens_read += read
        return scores

    def _write(
        self, writers: Sequence[Writer], draws: Sequence[np.random.Generator], temperature: float
    ) -> None:
        """Lets a batch of writers write until each is done. A row that is done leaves the batch at once."""
        session = self._reader.session([w.prompt for w in writers], max(w.limit for w in writers))
        ends = _end_tokens(self._model, self._tokenizer)
        alive = list(range(len(writers)))
        while True:
            if temperature:
                uniform = [draws[row].random() for row in alive]
                chosen = _sampled(session.predicted / temperature, uniform).tolist()
            else:
                chosen = session.predicted.argmax(-1).tolist()
            for row, token in zip(alive, chosen, strict=True):
                writers[row].write(token, end=token in ends)
            going = _front([not writers[row].done for row in alive])
            if not going:
                break
            if len(going) < len(alive):
                session.keep(going)
                alive, chosen = [alive[place] for place in going], [chosen[place] for place in going]
            session.step(chosen)
        self.tokens_read += session.read

    def _must_fit(self, lengths: Iterable[int], prompts: Iterable[int]) -> None:
        for row, length in zip(prompts, lengths, strict=True):
            if length > self.context_length:
                raise UserError(
                    f"prompt {row} is {length} tokens with its continuation, more than the "
                    f"{self.context_length} that {self.name} reads; shorten its input or take an LM with a "
                    "longer context"
                )


def load(source: str, name: str, dtype: str, device: str, device_map: str | None = None) -> TorchLM:
    """A folder's or hub id's model and tokenizer; safetensors only, no code of the repository's. A device_map
    places the weights, in `device`'s stead."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = _device(device)
    precision = _dtype(dtype, place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        with quiet_if_small(source):
            model: Any = AutoModelForCausalLM.from_pretrained(
                source, dtype=precision, device_map=device_map, use_safetensors=True
            )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"cannot load the language model {source}: {reason}") from None
    if device_map is None:
        model.to(place)
    return TorchLM(model, tokenizer, name=_full_name(name, precision))


def outline(
    source: str, name: str, dtype: str
) -> tuple[str, int, int, Callable[[Sequence[str]], np.ndarray]]:
    """What is known of a model without its weights: the name that `load` would give it, its context length,
    its number of parameters, and a counter of tokens."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    precision = _dtype(dtype, _device("auto"))
    try:
        tokenizer = Tokeniser(AutoTokenizer.from_pretrained(source))
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"cannot read the tokenizer of {source}: {reason}") from None
    with torch.device("meta"):
        parameters = AutoModelForCausalLM.from_config(config).num_parameters()

    def count(texts: Sequence[str]) -> np.ndarray:
        return np.array(tokenizer.count(texts), dtype=np.int64)

    return _full_name(name, precision), _context_length(config), parameters, count


def _full_name(name: str, precision: torch.dtype) -> str:
    return f"{name}@{str(precision).removeprefix('torch.')}"


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
        return torch.bfloat16 if device.type == "cuda" or _cpu_has_bfloat16() else torch.float32
    if dtype not in known:
        raise UserError(f"unknown dtype {dtype!r}; known: auto, {', '.join(known)}")
    return known[dtype]


def _cpu_has_bfloat16() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():  # not Linux
        return False
    flags = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _front(going: Sequence[bool]) -> list[int]:
    """The places that go on, moved into the gaps before them from the end, so that few move."""
    kept = [place for place, on in enumerate(going) if on]
    behind = [place for place in kept if place >= len(kept)]
    return [place if going[place] else behind.pop() for place in range(len(kept))]


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
