"""Skills written from gold outputs: an upper bound for Skill-KNN, as if its rewriter were never
wrong.

This is an oracle for bank and queries, because a rewriter sees inputs only. The wording is that of
the project's demonstrations (`demonstrations/sql.json`, `cogs.json`), as far as an output
determines it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ceil_jax.dpp.kernel import similarity
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.methods.registry import register_retriever
from ceil_jax.retrieval.nearest import nearest_drawn
from ceil_jax.retrieval.retriever import Choice, Needs, Parts, Queries, RetrieverArguments
from ceil_jax.skills.sketches import PARTS, sql_bare
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.families.cogs import Call, parse_call

_SETS = {
    "INTERSECT": "take the intersection of two selections",
    "EXCEPT": "take one selection except the rows of another",
    "UNION": "take the union of two selections",
}
_AGGREGATES = {
    "COUNT": "a count",
    "SUM": "a sum",
    "AVG": "an average",
    "MIN": "a minimum",
    "MAX": "a maximum",
}
_CONDITIONS = {
    r"\bNOT\s+IN\b": "that are not in the result of a nested query",
    r"(?<!NOT)\s+IN\b": "that are in the result of a nested query",
    r"\bNOT\s+LIKE\b": "whose text does not match a pattern",
    r"(?<!NOT)\s+LIKE\b": "whose text matches a pattern",
    r"\bBETWEEN\b": "where a column lies between two bounds",
    r"[<>](?!\s*>)(?<!<>)(?<!<\s>)": "where a column is less or greater than a value",
    r"!=|<>": "where a column differs from a value",
    r"(?<![<>!])=": "that meet an equality condition",
}
_WORDS = ("no", "one", "two", "three", "four", "five")


def sql_tables(query: str) -> frozenset[str]:
    """Return the tables after FROM and JOIN in lower case, those of nested queries included."""
    ends = "on|join|where|group|order|having|limit|union|intersect|except|select"
    clauses = re.findall(rf"(?is)\b(?:from|join)\b(.*?)(?=\b(?:{ends})\b|[()]|$)", sql_bare(query))
    names = [re.search(r"\w+", table) for clause in clauses for table in clause.split(",")]
    return frozenset(name[0].lower() for name in names if name)


def sql_skill(query: str) -> str:
    """Return the skill that a SQL query shows, without its names and values.

    For example `The query must join two tables, group rows, return one column and a count, …`, in a
    fixed order.

    The conditions of a nested query count, its columns do not. If there are several selections
    (UNION and the like), the columns of the first are counted.
    """
    bare = re.sub(r"\s+", " ", sql_bare(query)).upper()
    phrases = [phrase for word, phrase in _SETS.items() if re.search(rf"\b{word}\b", bare)]
    tables = len(sql_tables(query))
    if tables > 1:
        phrases.append(f"{'join' if 'JOIN' in bare else 'use'} {_number(tables)} tables")
    if "GROUP BY" in bare:
        phrases.append("group rows")
    if "HAVING" in bare:
        having = bare.partition("HAVING")[2].partition("ORDER BY")[0]
        what = next((name for word, name in _AGGREGATES.items() if word in having), "a column")
        phrases.append(f"keep the groups where {what} meets a condition")
    phrases.append("return " + _returned(bare))
    where = " ".join(re.findall(r"\bWHERE\b(.*?)(?=\bGROUP BY\b|\bORDER BY\b|\bLIMIT\b|$)", bare))
    conditions = [phrase for pattern, phrase in _CONDITIONS.items() if re.search(pattern, where)]
    if conditions:
        joined = " or " if re.search(r"\bOR\b", where) else " and "
        phrases[-1] += " of rows " + joined.join(conditions)
    if "ORDER BY" in bare:
        order = bare.rpartition("ORDER BY")[2]
        direction = "descending" if "DESC" in order else "ascending"
        by = next(
            (name for word, name in _AGGREGATES.items() if f"{word}(" in order.replace(" (", "(")),
            "a column",
        )
        phrases.append(f"sort in {direction} order by {by}")
    limit = re.search(r"\bLIMIT (\d+)", bare)
    if limit:
        phrases.append("keep the first one" if limit[1] == "1" else "keep the first few rows")
    return f"The query must {', '.join(phrases)}."


def _returned(bare: str) -> str:
    """The columns of the first selection in words."""
    columns = bare.partition("SELECT")[2].partition(" FROM ")[0]
    distinct = " without repeated values" if "DISTINCT" in columns else ""
    parts = re.sub(r"\([^()]*\)", "", columns).split(",")
    aggregates = [name for word, name in _AGGREGATES.items() if re.search(rf"\b{word}\b", columns)]
    plain = sum(not re.search(rf"\b({'|'.join(_AGGREGATES)})\b", part) for part in parts)
    if columns.strip().removeprefix("DISTINCT").strip() == "*":
        return "all columns" + distinct
    phrases = [f"{_number(plain)} column{'s' * (plain > 1)}"] if plain else []
    return " and ".join([*phrases, *aggregates]) + distinct


def _number(count: int) -> str:
    return _WORDS[count] if count < len(_WORDS) else "several"


_ROLES = {"agent": "one who acts", "theme": "a thing acted upon", "recipient": "a recipient"}


def cogs_skill(form: str) -> str:
    """Return the skill that a COGS form shows.

    For example `A verb with a thing acted upon, a recipient; the thing acted upon has a place
    phrase.`

    Roles stand in the form's order, which is the sentence's: a passive's agent is its last. A word
    on its own is `A single word.`
    """
    if "=" not in form:
        return "A single word."
    return "A verb with " + _arguments(parse_call(form)) + "."


def _arguments(call: Call) -> str:
    roles = [_ROLES[role] for role, _ in call.arguments if role in _ROLES]
    parts = [", ".join(roles) or "no argument of its own"]
    for role, inner in call.arguments:
        if role in _ROLES:
            depth = _places(inner)
            if depth:
                inner_phrase = " that holds another place phrase" * (depth > 1)
                parts.append(
                    f"{_ROLES[role].replace('a ', 'the ', 1)} has a place phrase{inner_phrase}"
                )
        elif role == "xcomp":
            parts.append("it governs an infinitive with " + _arguments(inner))
        elif role == "ccomp":
            parts.append("it governs a clause after 'that', a verb with " + _arguments(inner))
    return "; ".join(parts)


def _places(noun: Call) -> int:
    """The depth of nested place phrases."""
    return max(
        (1 + _places(inner) for role, inner in noun.arguments if role.startswith("nmod")), default=0
    )


GOLD_SKILLS: dict[Parts, Callable[[str], str]] = {
    PARTS["sql"]: sql_skill,
    PARTS["cogs"]: cogs_skill,
}
"""The skill that an output shows, by what gives the parts of such outputs."""


def gold_skills(arguments: RetrieverArguments, examples: Sequence[Example]) -> list[str]:
    """Return the skills that the gold outputs show."""
    assert arguments.sketch is not None, "declared in Needs"
    return [GOLD_SKILLS[arguments.sketch](example.output) for example in examples]


class NearestGoldSkills:
    """Skill-KNN on gold skills (oracle)."""

    def __init__(self, arguments: RetrieverArguments) -> None:
        assert arguments.encoder is not None, "declared in Needs"
        self._arguments = arguments
        self._encoder = arguments.encoder
        self._items = unit_rows(self._encoder.bank.encode(gold_skills(arguments, arguments.bank)))

    def choose(self, queries: Queries, k: int) -> Choice:
        skills = gold_skills(self._arguments, queries.examples)
        queries = queries._replace(vectors=unit_rows(self._encoder.query.encode(skills)))
        cosines, positions = nearest_drawn(queries, self._items, k, self._arguments.seed)
        relevance = similarity(cosines)
        return Choice(positions, relevance, relevance)


def register() -> None:
    """Make `target_skill` known as a retriever."""
    needs = Needs(encoder=True, gold_outputs=True, sketch=True, text=False)
    title = "Skill-KNN on gold skills (oracle)"
    register_retriever("target_skill", NearestGoldSkills, needs, title, replace=True)
