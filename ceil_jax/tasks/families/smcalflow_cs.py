"""SMCalFlow-CS (Yin et al. 2021): a bank of single-domain utterances, queries that combine two domains."""

from __future__ import annotations

from ceil_jax.tasks.spec import TaskSpec, pair_task


def _variant(suffix: str, queries: str, shots: int) -> TaskSpec:
    """Return an entry. 0.S: single-domain queries; 0.C: cross-domain; k.C: k of those open each prompt."""
    return pair_task(
        name=f"smcalflow_cs.{suffix}",
        columns=("user_utterance", "lispress"),
        folder="smcalflow_cs",
        validation=(queries,),
        few_shot=f"{shots}_shot" if shots else None,
        max_new_tokens=300,
        note="as the released code: the few-shot block comes first, last example first",
    )


TASKS = (
    _variant("0s", "valid_iid", 0),
    _variant("0c", "valid_cross", 0),
    *(_variant(f"{shots}c", "valid_cross", shots) for shots in (8, 16, 32)),
)
