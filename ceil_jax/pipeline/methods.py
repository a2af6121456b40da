"""The rows of a comparison."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """How examples are chosen, and with whose encoder."""

    retriever: str
    encoder: str | None
    """base (as loaded) or one of TRAINED; None where no encoder is used."""
    label: str
    sees_text: bool = True
    """Whether --text says what it compares; if not, nothing, always skills, or gold outputs (oracles)."""


TRAINED = ("tst", "epr", "ceil")
"""Encoders that are trained: on outputs, on the LM's scores of single examples, on its scores of sets."""

METHODS = {
    "random": Method("random", None, "random", sees_text=False),
    "bm25": Method("bm25", None, "BM25"),
    "topk": Method("dense", "base", "dense top-k"),
    "mmr": Method("mmr", "base", "MMR"),
    "dpp": Method("dpp", "base", "DPP-MAP"),
    "tst": Method("dense", "tst", "TST"),
    "tst_map": Method("dpp", "tst", "TST + MAP"),
    "epr": Method("dense", "epr", "EPR"),
    "epr_map": Method("dpp", "epr", "EPR + MAP"),
    "ceil_topk": Method("dense", "ceil", "CEIL top-k"),
    "ceil": Method("dpp", "ceil", "CEIL"),
    "skill_base": Method("skill_base", "base", "Skill-KNN", sees_text=False),
    "skill_consistency": Method("skill_consistency", "base", "Skill-KNN, consistency", sees_text=False),
    "skill_distinct": Method("skill_distinct", "base", "Skill-KNN, distinctiveness", sees_text=False),
    "target_knn": Method("target_knn", "base", "target-KNN (oracle)", sees_text=False),
    "target_skill": Method("target_skill", "base", "Skill-KNN on gold skills (oracle)", sees_text=False),
    "target_sketch": Method("target_sketch", None, "target sketch (oracle)", sees_text=False),
}
