"""Utterances to programs: GeoQuery, NL2Bash, Break, MTOP, SMCalFlow and SMCalFlow-CS."""

from __future__ import annotations

import re
from typing import Any

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, pair_task, table2, text


def numbered_steps(decomposition: str) -> str:
    """Return a decomposition of Break as it is written in prompts.

    `return flights ;return #1 from denver` becomes `1#) return flights 2#) return #1 from denver`.
    """
    steps = decomposition.split(";")
    return _one_space(" ".join(f"{i}#) {step.strip()}" for i, step in enumerate(steps, 1)))


def _one_space(words: str) -> str:
    return re.sub(" {2,}", " ", words).strip()


def _break(id: str, row: Row) -> Example:
    return Example(
        id, _one_space(text(row, "question_text")), numbered_steps(text(row, "decomposition"))
    )


def _geoquery(name: str, split: str, **others: Any) -> TaskSpec:
    return pair_task(
        name=name,
        columns=("question", "funql"),
        folder="geoquery",
        train=(f"{split}.train",),
        validation=(f"{split}.validation",),
        note="entities are placeholders m0, m1, … (the preprocessing of NQG)",
        **others,
    )


def _smcalflow_cs(suffix: str, queries: str, shots: int) -> TaskSpec:
    """Return an entry of SMCalFlow-CS: 0s has single-domain queries, 0c cross-domain ones.

    In kc, k examples open each prompt.
    """
    return pair_task(
        name=f"smcalflow_cs.{suffix}",
        columns=("user_utterance", "lispress"),
        folder="smcalflow_cs",
        validation=(queries,),
        few_shot=f"{shots}_shot" if shots else None,
        max_new_tokens=300,
        note="as the released code: the few-shot block comes first, last example first",
    )


ENTRIES = (
    _geoquery(
        "geoquery", "standard", paper=table2(33.93, 62.86, 68.93, 66.43, 66.79, 70.71, 68.57, 73.21)
    ),
    # the compositional splits are in other tables of the paper
    *(_geoquery(f"geoquery.{split}", split) for split in ("template", "tmcd", "length")),
    pair_task(
        name="nl2bash",
        columns=("nl", "bash"),
        metric="char_bleu",
        more_metrics=("exact_match",),
        folder="nl2bash",
        hub=Hub("jiacheng-ye/nl2bash", revision="refs/convert/parquet"),
        paper=table2(34.35, 58.98, 53.69, 54.89, 51.30, 48.99, 56.82, 59.91),
        note="the paper says exact match, the released code computes character BLEU-4: both are "
        "reported",
    ),
    TaskSpec(
        name="break",
        template=Template("{input}\t{output}"),
        metric="lf_em",
        example=_break,
        columns=("question_text", "decomposition"),
        folder="break_data",
        hub=Hub("allenai/break_data", "QDMR"),
        max_new_tokens=256,
        paper=table2(1.70, 26.00, 26.34, 26.58, 26.84, 26.70, 31.90, 34.18),
        note="low-level QDMR; LF-EM is our reimplementation",
    ),
    pair_task(
        name="mtop",
        columns=("question", "logical_form"),
        folder="mtop",
        hub=Hub("KaiLv/UDR_MTOP"),
        paper=table2(7.30, 52.70, 49.84, 47.29, 52.13, 53.14, 64.20, 67.43),
        note="English",
    ),
    pair_task(
        name="smcalflow",
        columns=("user_utterance", "lispress"),
        folder="smcalflow",
        hub=Hub("KaiLv/UDR_SMCalFlow"),
        max_new_tokens=300,
        paper=table2(8.90, 46.10, 43.44, 42.59, 44.63, 43.26, 54.30, 60.73),
        note="the hub's copy has 58 thousand training rows, the paper 102,491",
    ),
    # Yin et al. 2021: a bank of single-domain utterances, queries that combine two domains
    _smcalflow_cs("0s", "valid_iid", 0),
    _smcalflow_cs("0c", "valid_cross", 0),
    *(_smcalflow_cs(f"{shots}c", "valid_cross", shots) for shots in (8, 16, 32)),
)
