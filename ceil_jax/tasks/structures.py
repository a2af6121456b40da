"""The local structures of a program.

Its names and its parent–child edges (Levy, Bogin and Berant, ACL 2023).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from ceil_jax.tasks.example import Example

Structures = Callable[[str], frozenset[str]]
"""A parser: the text of a program → the set of its names and of its edges `parent>child`."""

_OPEN = "(["
_CLOSE = ")]"
_VALUE = re.compile(r"""-?\d+(\.\d+)?L?|".*"|'.*'""", re.DOTALL)
_NAMED = re.compile(r"[(,][\w.]+=[\w*]")
"""Pattern of a named argument."""
_WORD = re.compile(r"\*?[\w.]+(?![\w.]*=)")
"""Pattern of a word in a program of named arguments, with COGS' mark of a definite noun."""
_TOKEN = re.compile(
    r"""\s+|,|[()\[\]]|"[^"]*"|(?P<role>[\w.]+)=(?=[\w*"])|(?P<word>[^\s()\[\],"=]+=*)|="""
)


def bracketed(program: str) -> frozenset[str]:
    """Return the structures of a program written with brackets.

    Such as `f(a,b)`, `(f a b)` or `[f words [g words]]`.

    A named argument (`agent=Emma`) is a node between its call and its value; numbers and quoted
    texts count as one name, `value`; in square brackets, all words but the first are words of the
    question and are left out.

    >>> sorted(bracketed("answer(loc(m0))"))
    ['answer', 'answer>loc', 'loc', 'loc>m0', 'm0']
    """
    structures: set[str] = set()
    heads: list[str] = []  # one for each open bracket; "" if its head is not read yet
    opened: list[str] = []  # the open brackets
    role = ""  # the role of a named argument, until its value is read
    last = ""  # the last name, which is the head of a bracket that follows it at once
    end = -1  # where that name ends
    for token in _TOKEN.finditer(program):
        mark = token[0]
        if mark in _OPEN:
            heads.append(last if end == token.start() else "")
            opened.append(mark)
        elif mark in _CLOSE:
            # slices, because a program may close more brackets than it opens
            del heads[-1:]
            del opened[-1:]
        elif token["word"] or token["role"] or mark[0] == '"':
            name = "value" if _VALUE.fullmatch(mark) else token["role"] or mark
            if opened[-1:] == ["["] and heads[-1]:
                continue  # a word of the question
            parent = role or next((head for head in reversed(heads) if head), "")
            structures |= {name, f"{parent}>{name}"} if parent else {name}
            role = name if token["role"] else ""
            if heads and not heads[-1]:
                heads[-1] = name
            last = name
            end = token.end()
    return frozenset(structures)


_SQL_TOKEN = re.compile(
    r"""(?P<value>'[^']*'|"[^"]*"|\b\d+(\.\d+)?\b)|(?P<name>[A-Za-z_`]\w*`?)|[<>!]\s?=|<>|[()*=<>+/-]"""
)
_CLAUSES = re.compile("select|from|join|on|where|group|having|order|limit|union|intersect|except")
_KEYWORDS = re.compile(
    f"{_CLAUSES.pattern}|and|or|not|in|like|between|distinct|asc|desc|exists|is|null|all|by|as"
)


def sql(query: str) -> frozenset[str]:
    """Return the structures of a SQL query.

    They are clauses, names, operators and functions, each with an edge from its clause or call.

    Table prefixes (`t.` in `t.column`), aliases and case are ignored; all values count as one name,
    `value`.

    >>> sorted(sql("SELECT count(*) FROM head"))
    ['*', 'count', 'count>*', 'from', 'from>head', 'head', 'select', 'select>count']
    """
    structures: set[str] = set()
    # for each open bracket: the head outside it, and the clause that is being read
    above = [""]
    clauses = [""]
    previous = ""
    for token in _SQL_TOKEN.finditer(re.sub(r"\b[A-Za-z_]\w*`?\s*\.\s*(?=[\w*`])", "", query)):
        name = "value" if token["value"] else token[0].strip("`").lower().replace(" ", "")
        if name == "(":
            call = previous.isidentifier() and not _KEYWORDS.fullmatch(previous)
            above.append(previous if call else clauses[-1])
            clauses.append(above[-1])
        elif name == ")":
            if len(above) > 1:
                above.pop()
                clauses.pop()
        elif previous != "as" and name not in ("as", "by"):
            clause = _CLAUSES.fullmatch(name)
            parent = above[-1] if clause else clauses[-1]
            structures |= {name, f"{parent}>{name}"} if parent else {name}
            if clause:
                clauses[-1] = name
        previous = name
    return frozenset(structures)


PARSERS: dict[str, Structures] = {"bracketed": bracketed, "sql": sql}
"""The parsers by name, as in saved heads and in keys."""


def structure_parser_of(bank: Sequence[Example]) -> Structures | None:
    """Return the parser for a bank's outputs.

    None unless nine tenths of them are programs of one kind.

    About 500 examples are sampled.
    """
    outputs = [example.output for example in bank[:: max(1, len(bank) // 500)]]
    for parser, fits in ((sql, _is_sql), (bracketed, _is_bracketed)):
        if outputs and sum(map(fits, outputs)) >= 0.9 * len(outputs):
            return parser
    return None


def programs(queries: Sequence[Example], bank: Sequence[Example]) -> Int[np.ndarray, " n"] | None:
    """Return an integer for each query, equal for queries with the same gold program.

    None if the bank's outputs are not programs.

    Two programs are the same if they have the same names and edges, whatever their values. If
    arguments are named, as in COGS, the names inside the brackets are words of the sentence, and
    programs that differ only in these are the same.
    """
    parser = structure_parser_of(bank)
    if parser is None:
        return None
    with_names = sum(_NAMED.search(example.output) is not None for example in bank)
    if with_names >= 0.9 * len(bank):
        forms = [form_without_words(query.output) for query in queries]
    else:
        forms = [" ".join(sorted(parser(query.output))) for query in queries]
    return np.unique(forms, return_inverse=True)[1]


def form_without_words(program: str) -> str:
    """Return a program of named arguments with each word replaced by `_`.

    So roles and brackets are left.

    >>> form_without_words("lend(agent=Emma,theme=*cookie(nmod.in=box))")
    '_(agent=_,theme=_(nmod.in=_))'
    """
    return _WORD.sub("_", program)


def _is_sql(output: str) -> bool:
    return (
        re.match(r"\(*\s*(select|with)\b.*\bfrom\b", output, re.IGNORECASE | re.DOTALL) is not None
    )


def _is_bracketed(output: str) -> bool:
    """Return whether the whole output is one pair of brackets, possibly with a name before it."""
    program = re.sub(r"^[\w.*:]*", "", re.sub(r'"[^"]*"', "", output.strip()))
    depths = list(itertools.accumulate((mark in _OPEN) - (mark in _CLOSE) for mark in program))
    return bool(depths) and depths[-1] == 0 and min(depths[:-1], default=0) > 0
