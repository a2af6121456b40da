"""The tiny test LM.

Its probabilities come from counts of the prompt's words, so they can be worked out by hand.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from ceil_jax.lm.answers import Answer, first_stop
from ceil_jax.lm.base import Continuations, LanguageModel, check_lengths
from ceil_jax.tasks.draws import text_rng

BIGRAM = 0.6
UNIGRAM = 0.3
BASE = 0.1
VOCABULARY = 1000

_TOKEN = re.compile(r" ?\w+| ?[^\w\s]|\s")


class TinyLM(LanguageModel):
    """A `LanguageModel` without weights: deterministic, in numpy, for tests.

    A token is a word or a punctuation mark together with one space before it, or any other
    white-space character. After the tokens h₁ … hₙ, with weights wᵢ = 1 + i/n that favour recent
    tokens a little,

        P(t) = 0.6 · B(t) + 0.3 · U(t) + 0.1 · base(t)
        B(t) = Σ wᵢ [hᵢ₋₁ = hₙ, hᵢ = t] / Σ wᵢ [hᵢ₋₁ = hₙ]    bigrams: what has followed hₙ
        U(t) = Σ wᵢ [hᵢ = t] / Σ wᵢ                           unigrams: what has been read at all
        base(t) = (1 + u(t)) / 1500, u(t) = crc32(t) / 2³²    about 1/1000 each; breaks ties

    so an answer that appears in the examples becomes more likely, and more so after the same word.
    If nothing has followed hₙ yet, or nothing has been read, that part's weight goes to the base.

    Generation chooses among the tokens read so far: the most likely one (in a tie, the first read),
    or one sampled from P^(1/temperature). An empty prompt gives an empty text. A text ends at its
    limit, at the context length or at a stop string, never by itself. Each prompt has its own
    random generator, seeded by `seed` and its text.
    """

    name = "tiny"
    tokens_read = 0

    def __init__(self, context_length: int = 4096):
        self.context_length = context_length

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(_TOKEN.findall(text)) for text in texts], dtype=np.int64)

    def scores(self, continuations: Continuations) -> tuple[list[float], list[int]]:
        scored = [self._scored(*choice) for choice in zip(*continuations, strict=True)]
        scores = [score for score, _ in scored]
        lengths = [length for _, length in scored]
        self.tokens_read += int(self.count_tokens(continuations.distinct_prompts()).sum())
        self.tokens_read += sum(lengths)
        return scores, lengths

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        answers: list[Answer] = []
        self.tokens_read += int(self.count_tokens(list(dict.fromkeys(prompts))).sum())
        for row, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            read = _TOKEN.findall(prompt)
            check_lengths(self, [len(read) + 1], [row])
            draw = text_rng(prompt, seed)
            answers.append(self._continued(read, limit, stop, temperature, draw))
        return answers

    def _scored(self, row: int, prompt: str, continuation: str) -> tuple[float, int]:
        matches = list(_TOKEN.finditer(prompt + continuation))
        check_lengths(self, [len(matches)], [row])
        tokens = [match.group() for match in matches]
        start = sum(match.end() <= len(prompt) for match in matches)
        log_probs = [
            _log_probs(tokens[:position], [tokens[position]])[0]
            for position in range(start, len(tokens))
        ]
        return float(sum(log_probs)), len(log_probs)

    def _continued(
        self,
        read: list[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        draw: np.random.Generator,
    ) -> Answer:
        begin = len(read)
        while read and len(read) - begin < limit and len(read) < self.context_length:
            candidates = list(dict.fromkeys(read))
            log_probs = _log_probs(read, candidates)
            if temperature:
                weights = np.exp((log_probs - log_probs.max()) / temperature)
                read.append(candidates[draw.choice(len(candidates), p=weights / weights.sum())])
            else:
                read.append(candidates[log_probs.argmax()])
            self.tokens_read += 1
            if first_stop("".join(read[begin:]), stop) is not None:
                return Answer("".join(read[begin:]))
        return Answer("".join(read[begin:]), "length" if read else "stop")


def _log_probs(read: Sequence[str], tokens: Sequence[str]) -> np.ndarray:
    """Return log P of each of some tokens after `read`, float64 [len(tokens)], in nats.

    P is a mixture of how often the token has been read, of how often it has followed the last one,
    and of a base rate, which is a hash of the token. Later positions of `read` weigh more.
    """
    number = {token: position for position, token in enumerate(dict.fromkeys([*tokens, *read]))}
    base = np.array(
        [(1 + zlib.crc32(token.encode()) / 2**32) / (1.5 * VOCABULARY) for token in tokens]
    )
    if not read:
        return np.log(base)
    ids = np.array([number[token] for token in read])
    n = len(read)
    weights = 1 + np.arange(1, n + 1) / n
    # the positions after earlier occurrences of the last token
    after = 1 + np.flatnonzero(ids[:-1] == ids[-1])
    # by token: the weight of its positions, and of those of them that follow the last token;
    # bincount and cumsum add in the order of reading
    stands = np.bincount(ids, weights, len(number))
    follows = np.bincount(ids[after], weights[after], len(number))
    followed = weights[after].cumsum()[-1] if len(after) else 0.0
    numbers = [number[token] for token in tokens]
    # Σ wᵢ = n + (n + 1)/2
    unigram = stands[numbers] / (n + (n + 1) / 2)
    bigram = follows[numbers] / (followed or 1.0)
    return np.log(BIGRAM * bigram + UNIGRAM * unigram + (BASE + (0 if followed else BIGRAM)) * base)
