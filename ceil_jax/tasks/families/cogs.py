"""COGS (Kim & Linzen 2020): sentences to logical forms, tested on new combinations of known words."""

from __future__ import annotations

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.families.cogs_form import function_call
from ceil_jax.tasks.spec import FieldError, Row, TaskSpec, text

SUBSTITUTION = (
    "subj_to_obj_common",
    "subj_to_obj_proper",
    "obj_to_subj_common",
    "obj_to_subj_proper",
    "prim_to_subj_common",
    "prim_to_subj_proper",
    "prim_to_obj_common",
    "prim_to_obj_proper",
    "prim_to_inf_arg",
)
ALTERNATION = (
    "active_to_passive",
    "passive_to_active",
    "obj_omitted_transitive_to_transitive",
    "unacc_to_transitive",
    "do_dative_to_pp_dative",
    "pp_dative_to_do_dative",
)
"""Skill-KNN does not list its cases. Ours are COGS' own groups: primitive substitution (P.S.) is "novel
combination of familiar primitives and grammatical roles", primitive structural alternation (P.A.) is "verb
argument structure alternation"."""


def _cogs(id: str, row: Row) -> Example:
    try:
        answer = function_call(text(row, "logical_form"))
    except ValueError as error:
        raise FieldError("logical_form", "a logical form of COGS", str(error)) from None
    return Example(id, text(row, "sentence"), answer)


def _entry(suffix: str, cases: tuple[str, ...]) -> TaskSpec:
    return TaskSpec(
        name=f"cogs.{suffix}",
        template=Template("{input}\t{output}"),
        metric="exact_match",
        example=_cogs,
        columns=("sentence", "logical_form", "distribution"),
        folder="cogs",
        validation=("gen",),
        keep=lambda row: row["distribution"] in cases,
        bank_size=2_000,
        max_new_tokens=200,
        language="cogs",
        note="the answer is the compact function call of `cogs_form`; the bank is 2,000 of train",
    )


TASKS = (_entry("ps", SUBSTITUTION), _entry("pa", ALTERNATION))
