"""The number of the 50 nearest examples that fit into a prompt, compared with #ICE of the paper's
Table 1, without LM calls.

    python experiments/examples_that_fit.py FOLDER --data-dir DATA

FOLDER holds the vocabulary of GPT-2's tokenizer, which is GPT-Neo's too: `vocab.json` or `encoder.json`, and
`merges.txt` or `vocab.bpe`. Each column is a limit of the whole prompt: 1,600 tokens are those of the released
scripts (`n_tokens`), 2,048 less the longest answer are what the LM could read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import tyro
from tokenizers.implementations import ByteLevelBPETokenizer

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel
from ceil_jax.lm.prompts import Prompt, PromptBuilder, answer_reserve
from ceil_jax.report.table import Number, Table, Value
from ceil_jax.retrieval.index import top_k
from ceil_jax.tasks.load import load_task

SHOTS = 50

PAPER = {
    "sst5": 40,
    "mrpc": 27,
    "mnli": 40,
    "qnli": 27,
    "cmsqa": 50,
    "swag": 50,
    "webqs": 50,
    "geoquery": 50,
    "nl2bash": 43,
    "break": 28,
    "mtop": 41,
    "smcalflow": 22,
}
"""#ICE of Table 1, with GPT-Neo. The paper calls SWAG HellaSwag (docs/fidelity.md)."""


class Counting(LanguageModel):
    """An LM that has GPT-Neo's context length and tokenizer, but no weights."""

    name = "gpt-neo-tokens"
    context_length = 2048
    tokens_read = 0

    def __init__(self, folder: Path) -> None:
        files = []
        for names in (("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")):
            there = [folder / name for name in names if (folder / name).is_file()]
            if not there:
                raise UserError(f"{folder} holds neither {' nor '.join(names)}")
            files.append(str(there[0]))
        vocabulary, merges = files
        self.tokenizer = ByteLevelBPETokenizer(vocabulary, merges)

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(encoded.ids) for encoded in self.tokenizer.encode_batch(list(texts))])


@dataclass(frozen=True)
class Options:
    tokenizer: tyro.conf.Positional[Path]
    data_dir: Path
    tasks: tuple[str, ...] = field(default=tuple(PAPER))
    limit: int = 200
    bank_limit: int = 10_000
    encoder: str = "all-MiniLM-L6-v2"


def examples_that_fit(lm: LanguageModel, options: Options, name: str) -> list[float]:
    """Return the mean number of the 50 nearest examples that fit into a task's prompts, for each limit."""
    task = load_task(name, options.data_dir, options.limit, bank_limit=options.bank_limit)
    encoder = load_encoder(options.encoder)
    bank = encoder.encode([example.input for example in task.train])
    queries = encoder.encode([query.input for query in task.validation])
    similarity, nearest = top_k(queries, bank, SHOTS)
    prompt = Prompt(task.template)
    reserve = answer_reserve(lm, prompt, task.validation, task.max_new_tokens)
    means = []
    for limit in (1600, None):
        builder = PromptBuilder(lm, replace(prompt, token_budget=limit), reserve)
        counts = [
            len(builder.build(query, [task.train[i] for i in row], relevance).order)
            for query, row, relevance in zip(task.validation, nearest, similarity, strict=True)
        ]
        means.append(float(np.mean(counts)))
    return means


def main(options: Options) -> None:
    lm = Counting(options.tokenizer)
    rows: list[list[Value]] = []
    for name in options.tasks:
        means = examples_that_fit(lm, options, name)
        rows.append([name, PAPER[name], *(Number(mean, 1) for mean in means)])
        print(name, PAPER[name], *(f"{mean:.1f}" for mean in means), flush=True)
    header = ["task", "the paper's #ICE", "1,600 tokens", "2,048 less the answer"]
    print(Table(header, rows).markdown())


if __name__ == "__main__":
    main(tyro.cli(Options))
