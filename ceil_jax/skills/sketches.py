"""Sketches of programs for Skill-KNN's target-sketch oracle.

A sketch has a program's keywords or roles, without names and values.
"""

from __future__ import annotations

import re

from ceil_jax.retrieval.retriever import Parts
from ceil_jax.tasks.families.cogs import Call, parse_call
from ceil_jax.tasks.sql_text import bare

_WORDS = """
SELECT WHERE GROUP HAVING ORDER DESC ASC LIMIT JOIN DISTINCT INTERSECT EXCEPT UNION NOT IN OR AND BETWEEN EXISTS LIKE
COUNT AVG MIN MAX SUM
"""
SQL_WORDS = frozenset(_WORDS.split())
SQL_SIGNS = frozenset("*=><!+-")


def sql_sketch(query: str) -> frozenset[str]:
    """Return the paper's keywords and signs in a SQL query.

    Quoted text and names after a dot are not read.

    `>=` counts as > and =, `<>` as < and >.
    """
    text = sql_bare(query)
    words = {word.upper() for word in re.findall(r"\w+", text)}
    return (SQL_WORDS & words) | (SQL_SIGNS & set(text))


def sql_bare(query: str) -> str:
    """Return the query without quoted text and without names after a dot."""
    return re.sub(r"\.\s*\w+", " ", bare(query))


def cogs_sketch(form: str) -> frozenset[str]:
    """Return the semantic roles in a COGS logical form, each with the roles that contain it.

    The form is in COGS' compact notation. Words and prepositions are left out.

    `give(agent=Emma,theme=*cake(nmod.on=table))` has agent, theme and theme/nmod; a word on its own
    (`box(a)`, `Paula`) has none.
    """
    if "=" not in form:
        return frozenset()

    def roles(call: Call, above: str) -> set[str]:
        paths = set()
        for role, inner in call.arguments:
            path = above + role.partition(".")[0]
            paths |= {path} | roles(inner, path + "/")
        return paths

    return frozenset(roles(parse_call(form), ""))


def cogs_parts(form: str) -> dict[str, int]:
    """Return the words and roles of a compact COGS form, with their weights.

    The weights are those of the structural similarity of two forms.

    An et al. (ACL 2023) count 100 for each shared primitive, which is a word, and 1 for each shared
    partial structure, for which we take the roles of `cogs_sketch`. A variable (`cry(agent=a)`) is
    not a word.
    """
    words = re.findall(r"[\w.]{2,}(?![\w.]*=)", form)
    return dict.fromkeys(cogs_sketch(form), 1) | {f"word {word}": 100 for word in words}


PARTS: dict[str, Parts] = {
    "sql": lambda query: dict.fromkeys(sql_sketch(query), 1),
    "cogs": cogs_parts,
}
"""The parts of outputs that the target-sketch oracle compares, by `Task.language`."""
