"""Questions to the text of a query, by SQLite's rules of quotes, comments and brackets."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceil_jax.tasks.sql_text import as_spider, bare, is_ordered, one_line, sql_tokens

ORDERED = [
    "SELECT a FROM t ORDER BY a",
    "select a from t order\n\tby a limit 3",
    "SELECT a FROM t ORDER /* by */ BY a",
    "-- it's sorted\nSELECT a FROM t ORDER BY a",
    "SELECT a FROM t -- sorted: it's needed\nORDER BY a",
    "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1",
    "SELECT a FROM (SELECT a FROM t ORDER BY b) ORDER BY a",
    "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY 1",
    "SELECT '(' FROM t ORDER BY a",
    "SELECT [a(] FROM t ORDER BY a",
    "SELECT a /* ( */ FROM t ORDER BY a",
    "SELECT a FROM t WHERE b = 'it''s' ORDER BY a",
]
FREE = [
    "SELECT a FROM t",
    "SELECT a FROM t -- don't ORDER BY a",
    "SELECT a FROM t /* it's not\n ORDER BY a */",
    "SELECT a FROM t /* ORDER BY a",
    "SELECT [order by] FROM t",
    'SELECT "order by" FROM t',
    "SELECT `order by` FROM t",
    "SELECT 'order by' FROM t",
    "SELECT 'it''s order by' FROM t",
    'SELECT "a "" order by" FROM t',
    "SELECT rank() OVER (ORDER BY a) FROM t",
    "SELECT rank() OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY a)",
    "SELECT group_concat(a ORDER BY a) FROM t",
    "SELECT a FROM (SELECT a FROM t ORDER BY a)",
    "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY b LIMIT 3)",
    "WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x",
    "SELECT border, bystander FROM t",
    "SELECT a AS order_by FROM t GROUP BY a",
]


@pytest.mark.parametrize(
    ("query", "ordered"), [*((q, True) for q in ORDERED), *((q, False) for q in FREE)]
)
def test_the_order_of_the_query_itself(query, ordered):
    assert is_ordered(query) == ordered


@given(st.text("-/*'\"`[]() \n\\;=<>!oO rderby1.é{}#$", max_size=60))
def test_tokens_are_the_query_cut_into_pieces(query):
    assert "".join(token.text for token in sql_tokens(query)) == query
    for read in (is_ordered, one_line, bare, as_spider):
        read(query)


PIECES = """
'it''s'|"a ""b"|`c`|[d]|--x\n|/* ' */|  \n |1|1.5e3|a|b|,|''|--'\n|/*"*/
"""


@given(st.lists(st.sampled_from(PIECES.strip().split("|")), max_size=8))
def test_a_query_on_one_line_is_the_same_query(pieces):
    """SQLite itself says so, of queries that it takes."""
    query = "SELECT " + " ".join(pieces) + "\nFROM t"
    with sqlite3.connect(":memory:") as connection:
        connection.execute('CREATE TABLE t (a, b, c, d, "a ""b")')
        connection.execute("INSERT INTO t VALUES (1, 2, 3, 4, 5)")
        try:
            expected = connection.execute(query).fetchall()
        except sqlite3.Error:
            return
        assert connection.execute(one_line(query)).fetchall() == expected
    connection.close()
    assert "\n" not in one_line(query)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("a > = 1 AND b <\n= 2 AND c ! = 3", "a >= 1 AND b <= 2 AND c != 3"),
        ('[a > = b], "c < = d", `e ! = f`', '[a > = b], "c < = d", `e ! = f`'),
        ("a -- > = b\n>= 1", "a -- > = b\n>= 1"),
        ("year ( curdate ( ) ) - b", "2020 - b"),
        ("[YEAR(CURDATE())] + YEAR(CURDATE())", "[YEAR(CURDATE())] + 2020"),
        ("YEAR(a)", "YEAR(a)"),
        ("YEAR", "YEAR"),
        ("a >", "a >"),
    ],
)
def test_what_the_spider_evaluation_reads_otherwise(query, read):
    assert as_spider(query) == read


def test_a_query_without_quoted_texts_names_and_comments():
    assert bare("SELECT 'a', \"b\", [c], `d` FROM t -- e") == "SELECT  ,  ,  ,   FROM t  "
