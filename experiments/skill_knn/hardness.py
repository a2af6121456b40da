"""Spider's hardness of a SQL query (Yu et al. 2018b), for Figure 4, which takes medium examples
only.

Spider's evaluation counts three things in the parsed query; here they are counted in its text:

- clauses: WHERE, GROUP BY, ORDER BY and LIMIT, each table that is joined beyond the first, each OR,
  each LIKE;
- nested: INTERSECT, UNION or EXCEPT, and each query inside a condition; these are not looked into;
- other: more than one aggregate, returned column, condition or column to group by. (Aggregates in
  HAVING do not count there, and a NOT does.)

On Spider's development set this gives 248 easy, 446 medium, 174 hard and 166 extra-hard queries, as
published.
"""

from __future__ import annotations

import re

HARDNESS = ("easy", "medium", "hard", "extra")
"""The levels of hardness, from the easiest to the hardest."""

_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")
_AGGREGATE = r"\b(?:MAX|MIN|COUNT|SUM|AVG)\s*\("


def hardness(query: str) -> str:
    """Return a SQL query's hardness: easy, medium, hard or extra."""
    outer, nested = _outer(query)
    clauses = _clauses(outer)
    where = clauses["WHERE"]
    having = clauses["HAVING"]
    on = clauses["FROM"]
    conditions = f"{where} {having} {on}"
    count = sum(bool(clauses[name]) for name in ("WHERE", "GROUP BY", "ORDER BY", "LIMIT"))
    count += len(re.findall(r"\bJOIN\b|,", on))
    count += len(re.findall(r"\bOR\b|\bLIKE\b", conditions))
    aggregates = sum(len(re.findall(_AGGREGATE, clauses[name])) for name in ("SELECT", "ORDER BY"))
    aggregates += len(re.findall(r"\bNOT\b", f"{where} {having}"))
    other = int(aggregates > 1)
    other += "," in re.sub(r"\([^()]*\)", "", clauses["SELECT"])
    other += bool(re.search(r"\b(?:AND|OR)\b", re.sub(r"\bBETWEEN\b.*?\bAND\b", "", where)))
    other += "," in clauses["GROUP BY"]
    return _level(count, nested, other)


def _level(clauses: int, nested: int, other: int) -> str:
    """Spider's table of the three counts."""
    if clauses <= 1 and other == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((other <= 2 and clauses <= 1) or (clauses <= 2 and other < 2)):
        return "medium"
    if nested == 0 and ((other > 2 and clauses <= 2) or (2 < clauses <= 3 and other <= 2)):
        return "hard"
    return "hard" if clauses <= 1 and other == 0 and nested <= 1 else "extra"


def _bare(query: str) -> str:
    """The query in capitals, with one blank between words and without quoted text."""
    return re.sub(r"\s+", " ", re.sub(r"""'[^']*'|"[^"]*"|`[^`]*`""", " ", query)).upper().strip()


def _outer(query: str) -> tuple[str, int]:
    """The first query of a chain without the queries in its brackets, and the number of queries
    nested in it."""
    bare = _bare(query)
    while match := re.search(r"\(\s*SELECT\b", bare):
        within = "TABLE" if re.search(r"\b(?:FROM|JOIN)\s*$", bare[: match.start()]) else "NESTED"
        bare = f"{bare[: match.start()]} {within} {bare[_closing(bare, match.start()) + 1 :]}"
    first, *rest = re.split(r"\b(?:INTERSECT|UNION|EXCEPT)\b", bare, maxsplit=1)
    return first, len(rest) + len(re.findall(r"\bNESTED\b", first))


def _closing(text: str, start: int) -> int:
    """The place of the bracket that closes the one at `start`; the end of a text that never closes
    it."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def _clauses(outer: str) -> dict[str, str]:
    """Each clause's text; "" for one that is not there."""
    spans = sorted(
        (match.start(), match.end(), name)
        for name in _CLAUSES
        if (match := re.search(rf"\b{name}\b", outer))
    )
    ends = [start for start, _, _ in spans[1:]] + [len(outer)]
    texts = {
        name: outer[end:stop].strip() for (_, end, name), stop in zip(spans, ends, strict=True)
    }
    return {name: texts.get(name, "") for name in _CLAUSES}
