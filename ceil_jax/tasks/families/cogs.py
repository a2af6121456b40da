"""COGS (Kim & Linzen 2020): sentences to logical forms, tested on new combinations of known words.

Its logical forms are written as compact function calls.

    * cookie ( x _ 4 ) ; lend . agent ( x _ 2 , Emma ) AND lend . theme ( x _ 2 , x _ 4 )
    lend(agent=Emma,theme=*cookie)

`*` marks a definite noun and `nmod.in` a modifier, as in the original. A variable's number is the
position of its word in the sentence, so the numbers can be restored. The unspoken subject of an
`xcomp` ("wanted to eat") is the agent of its governor and is not repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ceil_jax.tasks.example import Example, Template
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
"""The Skill-KNN paper does not list its cases. Ours are COGS' own groups: primitive substitution
(P.S.) is "novel combination of familiar primitives and grammatical roles", primitive structural
alternation (P.A.) is "verb argument structure alternation"."""

_TERM = re.compile(r"(?P<head>\S+)(?: \. (?P<role>[\w .]+?))? \( (?P<args>[^()]+) \)")


@dataclass
class Call:
    """A noun, name or verb with its arguments in the order of the logical form."""

    word: str
    definite: bool = False
    arguments: list[tuple[str, Call]] = field(default_factory=list)

    def __str__(self) -> str:
        word = f"*{self.word}" if self.definite else self.word
        if not self.arguments:
            return word
        inside = ",".join(f"{role}={call}" for role, call in self.arguments)
        return f"{word}({inside})"


def function_call(logical_form: str) -> str:
    """Return the compact form of a logical form. A ValueError if it is not one of COGS."""
    if " " not in logical_form:
        return logical_form  # a name alone
    calls: dict[str, Call] = {}
    inner: set[str] = set()  # variables that stand inside another call
    for term in re.split(r" ; | AND ", re.sub(r"LAMBDA \w \. ", "", logical_form)):
        match = _TERM.fullmatch(term.removeprefix("* "))
        if match is None:
            raise ValueError(f"not a term of a COGS logical form: {term!r}")
        variable, *others = match["args"].split(" , ")
        call = calls.setdefault(variable, Call(""))
        call.word = match["head"]
        call.definite |= term.startswith("* ")
        for other in others:
            inner.add(other)
            # a variable stands for its word until its own term gives that
            argument = calls.setdefault(other, Call(other))
            call.arguments.append((match["role"].replace(" ", ""), argument))
    roots = [(variable, call) for variable, call in calls.items() if variable not in inner]
    if len(roots) != 1:
        raise ValueError(f"{len(roots)} predicates are outermost in {logical_form!r}, expected one")
    [(variable, root)] = roots
    if logical_form.startswith("LAMBDA") and not root.arguments:
        return f"{root.word}({variable})"  # a noun alone
    _drop_controlled(root)
    return str(root)


def _drop_controlled(call: Call) -> None:
    """Remove the agents of xcomps, because they repeat the agents of their governors."""
    for role, inner in call.arguments:
        if role == "xcomp":
            inner.arguments = [(name, value) for name, value in inner.arguments if name != "agent"]
        _drop_controlled(inner)


def parse_call(compact: str) -> Call:
    """Return the compact form of a sentence as a tree."""
    outside = Call("")  # its only argument is the sentence
    open_calls = [outside]
    # each word with its role and its star, and the bracket that it opens or those that it closes
    for role, star, word, brackets in re.findall(
        r"(?:([\w.]+)=)?(\*?)([^\s(),=*]+)([()]*)", compact
    ):
        call = Call(word, bool(star))
        open_calls[-1].arguments.append((role, call))
        if brackets == "(":
            open_calls.append(call)
        else:
            del open_calls[len(open_calls) - len(brackets) :]
    _, sentence = outside.arguments[0]
    return sentence


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
        note="the answer is the compact function call of `cogs`; the bank is 2,000 of train",
    )


ENTRIES = (_entry("ps", SUBSTITUTION), _entry("pa", ALTERNATION))
