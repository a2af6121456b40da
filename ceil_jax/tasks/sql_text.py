"""Tokenization of SQL as in SQLite: whether a query orders its rows, and its normalised text.

SQLite cuts a text into tokens from left to right, so that a quote inside a comment opens no string
and a comment sign inside a string or a name opens no comment. Names may be in double quotes,
backticks or brackets. Tokens and the depth of brackets are enough for that, and a full SQL parser
would refuse some queries that SQLite runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+)
    | (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>'(?:[^']|'')*(?:'|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z)|\[[^\]]*(?:\]|\Z))
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<sign><>|<=|>=|!=|==|<<|>>|\|\||->>|->|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_READ_OTHERWISE = re.compile(r"[<>!]\s+=|curdate", re.IGNORECASE)
"""The parts of a statement that `as_spider` may have to rewrite."""


class Token(NamedTuple):
    """A piece of a query."""

    kind: str
    """The kind of the piece: blank, comment, string, name (in quotes), word (a keyword or an
    unquoted name), number or sign."""
    text: str

    def is_word(self, word: str) -> bool:
        """Return whether the token is a keyword, which is given in upper case."""
        return self.kind == "word" and self.text.upper() == word


def sql_tokens(query: str) -> Iterator[Token]:
    """Yield the tokens of a query. Their texts, joined, give the query back."""
    for piece in _TOKEN.finditer(query):
        yield Token(str(piece.lastgroup), piece[0])


def _without_blanks(query: str) -> list[Token]:
    """The tokens without blanks and comments."""
    return [token for token in sql_tokens(query) if token.kind not in ("blank", "comment")]


def is_ordered(query: str) -> bool:
    """Return whether a query asks for the order of its rows: ORDER BY outside all brackets.

    An ORDER BY in a subquery, a common table expression, a window or an aggregate does not count.

    >>> is_ordered("SELECT a FROM t ORDER /* up */ BY a")
    True
    >>> is_ordered("SELECT [order by], rank() OVER (ORDER BY a) FROM t -- don't order by a")
    False
    """
    if "order" not in query.lower():
        return False
    depth = 0
    previous: Token | None = None
    for token in _without_blanks(query):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif depth == 0 and token.is_word("BY") and previous and previous.is_word("ORDER"):
            return True
        previous = token
    return False


def one_line(query: str) -> str:
    """Return a query on one line: each run of blanks and comments outside quotes becomes one space,
    so that a newline can end an answer.

    >>> one_line("SELECT 'a  b' -- the first\\n  FROM t")
    "SELECT 'a  b' FROM t"
    """
    pieces = [
        " " if token.kind in ("blank", "comment") else token.text for token in sql_tokens(query)
    ]
    joined: list[str] = []
    for piece in pieces:
        if piece != " " or joined[-1:] != [" "]:
            joined.append(piece)
    return "".join(joined).strip()


def bare(query: str) -> str:
    """Return a query with each comment, string and quoted name replaced by a space."""
    quoted = ("comment", "string", "name")
    return "".join(" " if token.kind in quoted else token.text for token in sql_tokens(query))


def as_spider(query: str) -> str:
    """Return a query rewritten where the Spider evaluation is more lenient than SQLite.

    `> =`, `< =` and `! =` are one sign, and YEAR(CURDATE()) is 2020.

    >>> as_spider("SELECT '> =' FROM t WHERE a > = 1 AND year( curdate() ) < b")
    "SELECT '> =' FROM t WHERE a >= 1 AND 2020 < b"
    """
    if not _READ_OTHERWISE.search(query):  # nearly every query, and the very long ones
        return query
    tokens = list(sql_tokens(query))
    out: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        stop = 0
        if token.text in ("<", ">", "!"):
            stop = _end(tokens, position, "=")
            out.append(f"{token.text}=" if stop else token.text)
        elif token.is_word("YEAR"):
            stop = _end(tokens, position, "(", "CURDATE", "(", ")", ")")
            out.append("2020" if stop else token.text)
        else:
            out.append(token.text)
        position = stop or position + 1
    return "".join(out)


def _end(tokens: list[Token], position: int, *expected: str) -> int:
    """Return the position after the `expected` tokens if they follow `position`; else 0.

    Blanks and comments between them do not count.
    """
    for text in expected:
        position += 1
        while position < len(tokens) and tokens[position].kind == "blank":
            position += 1
        if position >= len(tokens) or tokens[position].text.upper() != text:
            return 0
    return position + 1
