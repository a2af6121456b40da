"""An LM that counts the tokens that a server would bill: the whole of every prompt, and every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ceil_jax.lm.answers import Answer
from ceil_jax.lm.base import Continuations, LanguageModel
from ceil_jax.lm.tokens import PairTokenizer, PairTokens
from ceil_jax.lm.torch.prefix_tree import Trie
from ceil_jax.lm.torch.scoring import TreeReader
from ceil_jax.tasks.example import Example, Task

WRONG = "?"
"""The text that stands for an answer that is none of the accepted ones."""


class CountedLM(LanguageModel):
    """A local LM whose `tokens_read` are the tokens of prompts and answers, shared prefixes included
    each time.

    Where the metric asks whether an answer is one of the accepted ones and the LM reads on a CPU,
    it is not let write: one pass over prompt and answer shows whether every token of the answer,
    and the line's end behind it, is the one that greedy decoding would write. That is the same
    verdict for a tenth of the time; where tokens are cut otherwise, the LM does write. What else it
    would have written stays unknown, and is `WRONG`; it counts as many tokens as the right answer.

    Args:
        lm: reads; one of torch where answers are checked.
        task: whose queries it is asked.
        queries: all of them; a query is found by the end of a prompt.
    """

    def __init__(self, lm: LanguageModel, task: Task, queries: Sequence[Example]) -> None:
        self.lm: Any = lm
        self.name = lm.name
        self.context_length = lm.context_length
        self.at_once = {"score": 64, "write": 64}
        self._read = 0
        self._template = task.template
        self._checks = task.metric in ("exact_match", "squad_em") and _reads_on_cpu(lm)
        self._queries: Mapping[str, Example] = {task.template.query(q): q for q in queries}

    @property
    def tokens_read(self) -> int:
        return self._read

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.lm.count_tokens(texts))

    def scores(self, continuations: Continuations) -> tuple[np.ndarray, list[int]]:
        values, lengths = self.lm.scores(continuations)
        self._read += int(self.count_tokens(continuations.distinct_prompts()).sum()) + sum(lengths)
        return values, lengths

    def write(
        self,
        prompts: Sequence[str],
        limit: int,
        stop: Sequence[str],
        temperature: float,
        seeds: list[int],
    ) -> list[Answer]:
        answers = self._written(prompts, limit, stop, temperature, seeds)
        texts = [
            self._query_of(prompt).output if self._checks and answer.text == WRONG else answer.text
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        self._read += int(self.count_tokens([*prompts, *texts]).sum())
        return answers

    def _written(self, prompts: Sequence[str], *settings: Any) -> list[Answer]:
        write = self._checked if self._checks else self.lm.write
        return list(write(prompts, *settings))

    def _checked(self, prompts: Sequence[str], *settings: Any) -> list[Answer]:
        """Return for each prompt the accepted answer that greedy decoding would write, or WRONG."""
        rows: list[PairTokens] = []
        of_row: list[tuple[int, str]] = []
        pairs = PairTokenizer(self.lm.tokenizer)
        for position, prompt in enumerate(prompts):
            query = self._query_of(prompt)
            golds = list(dict.fromkeys(query.references or (query.output,)))
            texts = [self._template.continuation(query, gold) + "\n" for gold in golds]
            rows += pairs.pairs([prompt] * len(texts), texts)
            of_row += [(position, gold) for gold in golds]
        written, _ = GreedyReader(self.lm.model, self.lm.token_budget).each(rows)
        answers = [Answer(WRONG)] * len(prompts)
        unsure: list[int] = []
        for (position, gold), row, tokens in zip(of_row, rows, written, strict=True):
            verdict = self._verdict(row.ids[row.start :], tokens.tolist())
            if verdict:
                answers[position] = Answer(gold)
            elif verdict is None:
                unsure.append(position)
        open_ = [position for position in dict.fromkeys(unsure) if answers[position].text == WRONG]
        for position, answer in zip(
            open_, self.lm.write([prompts[position] for position in open_], *settings), strict=True
        ):
            answers[position] = answer
        return answers

    def _verdict(self, wanted: list[int], written: list[int]) -> bool | None:
        """Return whether greedy decoding writes an answer and then ends the line.

        None where that cannot be said: it writes another token that begins like the rest of the
        answer, such as two brackets for three, and may come to the same text.

        Args:
            wanted: the tokens of the answer and the line's end.
            written: the token that greedy decoding writes in place of each.
        """
        decode = self.lm.tokenizer.decode
        for position, (right, token) in enumerate(zip(wanted, written, strict=True)):
            if token == right:
                continue
            rest = decode(wanted[position:])
            begins = decode([token])
            if rest == "\n" and (
                begins.startswith("\n") or token == self.lm.tokenizer.eos_token_id
            ):
                return True
            alike = bool(begins) and (rest.startswith(begins) or begins.startswith(rest))
            return None if alike else False
        return True

    def _query_of(self, prompt: str) -> Example:
        """Return the query with which a prompt ends, after the separator of its examples."""
        start = 0
        while prompt[start:] not in self._queries:
            start = prompt.index(self._template.separator, start) + len(self._template.separator)
        return self._queries[prompt[start:]]


def _reads_on_cpu(lm: LanguageModel) -> bool:
    """Return whether `GreedyReader` can read with an LM: it is torch's, on a CPU."""
    return getattr(getattr(lm, "model", None), "device", None) == torch.device("cpu")


class GreedyReader(TreeReader):
    """Reads rows as its base class does, but returns tokens in place of log-probabilities."""

    def _read(self, rows: Sequence[PairTokens]) -> tuple[list[np.ndarray], int]:
        """Return the token that greedy decoding would write at each scored place of each row, int64,
        and the number of tokens read."""
        trie = Trie([row.ids[:-1] for row in rows])
        after = np.concatenate(
            [path[row.start - 1 :] for path, row in zip(trie.paths, rows, strict=True)]
        )
        best = np.zeros(len(after), np.int64)
        places, of_place = np.unique(after, return_inverse=True)
        for first, last, predicted in self._passes(trie, places):
            here = (first <= of_place) & (of_place < last)
            best[here] = predicted.argmax(-1).numpy()[of_place[here] - first]
        return np.split(best, np.cumsum([row.scored for row in rows])[:-1]), len(trie)
