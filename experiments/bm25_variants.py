"""Comparison of two variants of BM25 without an LM: ours, and Okapi's as in CEIL's released code.

    python experiments/bm25_variants.py --data-dir DATA --tasks nl2bash mtop

Ours is Lucene's, on lower-cased words. The release has Okapi's, where words of more than half of
the bank count next to nothing (rank_bm25: a quarter of the mean idf in place of a negative one),
with case and punctuation. Of the four nearest examples of every query: how many both choose, and
how much their outputs share with the gold one (F1 of the tokens, percent).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness.command import script
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from ceil_jax.metrics.bootstrap import bootstrap_interval
from ceil_jax.report.table import Number, Table, signed
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.retrieval.words import words
from ceil_jax.tasks.load import load_task

K = 4
K1 = 1.5
B = 0.75


def with_case(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, without changing their case."""
    return re.findall(r"\w+|[^\w\s]", text)


def okapi(texts: list[str], queries: list[str], split: Callable[[str], list[str]]) -> np.ndarray:
    """Return Okapi's BM25 of every text for every query, float [Q, N]."""
    counter = CountVectorizer(tokenizer=split, token_pattern=None, lowercase=False)
    counts = counter.fit_transform(texts).tocsr()
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    length = counts.sum(axis=1).A1
    idf = np.log((len(texts) - documents + 0.5) / (documents + 0.5))
    idf = np.where(idf < 0, 0.25 * idf.mean(), idf)
    saturation = K1 * (1 - B + B * length / length.mean())
    rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
    weights = idf[counts.indices] * counts.data * (K1 + 1) / (counts.data + saturation[rows])
    scored = csr_matrix((weights, counts.indices, counts.indptr), counts.shape)
    return (counter.transform(queries) @ scored.T).toarray()


def f1(output: str, gold: str) -> float:
    words_of_output = Counter(output.split())
    words_of_gold = Counter(gold.split())
    return (
        200
        * sum((words_of_output & words_of_gold).values())
        / (sum(words_of_output.values()) + sum(words_of_gold.values()))
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["nl2bash", "mtop"])
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args(arguments)
    body = []
    for name in options.tasks:
        task = load_task(name, options.data_dir)
        texts = [example.input for example in task.train]
        queries = [example.input for example in task.validation]
        index = LexicalIndex(texts)
        scores = {
            "Lucene, lower case (ours)": np.stack([index.scores(query) for query in queries]),
            "Okapi, lower case": okapi(texts, queries, words),
            "Okapi, case and punctuation (release)": okapi(texts, queries, with_case),
        }
        chosen = {
            variant: np.argsort(-values, axis=1, kind="stable")[:, :K]
            for variant, values in scores.items()
        }
        ours, *_ = chosen.values()
        shared = {
            variant: np.array(
                [
                    np.mean([f1(task.train[i].output, query.output) for i in row])
                    for row, query in zip(rows, task.validation, strict=True)
                ]
            )
            for variant, rows in chosen.items()
        }
        base, *_ = shared.values()
        for variant, rows in chosen.items():
            same = 100 * np.mean([len({*a} & {*b}) / K for a, b in zip(rows, ours, strict=True)])
            less = (
                signed(bootstrap_interval(shared[variant] - base))
                if variant != next(iter(chosen))
                else None
            )
            body.append(
                [name, variant, Number(float(same)), Number(float(shared[variant].mean())), less]
            )
    header = ["task", "BM25", "examples as ours, %", "F1 of the outputs", "less ours"]
    print(Table(header, body).markdown())


if __name__ == "__main__":
    script(main)
