import numpy as np
import pytest
from skill_knn.gold import cogs_skill, register, sql_skill, sql_tables

from ceil_jax.methods.build import build_retriever
from ceil_jax.skills.sketches import PARTS
from ceil_jax.tasks.example import Example


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM singer", "return a count"),
        ("SELECT * FROM t", "return all columns"),
        ("SELECT DISTINCT a FROM t", "return one column without repeated values"),
        ("SELECT max(a) , min(a) , b FROM t", "return one column and a minimum and a maximum"),
        (
            "select a from t where b = 'x < y or z' and c > 3",
            "return one column of rows where a column is less or greater than a value and that "
            "meet an equality condition",
        ),
        (
            "SELECT a FROM t WHERE b != 1",
            "return one column of rows where a column differs from a value",
        ),
        (
            "SELECT a FROM t WHERE b <> 1",
            "return one column of rows where a column differs from a value",
        ),
        (
            "SELECT a FROM t WHERE b = 1 OR c LIKE '%d%'",
            "return one column of rows whose text matches a pattern or that meet an equality "
            "condition",
        ),
        (
            "SELECT a , b FROM t ORDER BY c LIMIT 3",
            "return two columns, sort in ascending order by a column, keep the first few rows",
        ),
        (
            "SELECT T1.a FROM t AS T1 JOIN u AS T2 ON T1.i = T2.i GROUP BY T1.i ORDER BY count(*) "
            "DESC LIMIT 1",
            "join two tables, group rows, return one column, sort in descending order by a count, "
            "keep the first one",
        ),
        (
            "SELECT a FROM t GROUP BY a HAVING avg(b) > 10",
            "group rows, keep the groups where an average meets a condition, return one column",
        ),
        (
            "SELECT a FROM t WHERE b NOT IN (SELECT b FROM u)",
            "use two tables, return one column of rows that are not in the result of a nested "
            "query",
        ),
        (
            "SELECT a FROM t WHERE b = 1 EXCEPT SELECT a FROM t WHERE b = 2",
            "take one selection except the rows of another, return one column of rows that meet "
            "an equality condition",
        ),
    ],
)
def test_sql(query, expected):
    assert sql_skill(query) == f"The query must {expected}."


def test_names_and_values_do_not_matter():
    one = "SELECT name FROM singer WHERE age = 20"
    assert sql_skill(one) == sql_skill("SELECT  T1.id FROM car AS T1 WHERE T1.maker = 'ORDER BY x'")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("Paula", "A single word."),
        ("box(a)", "A single word."),
        ("give(recipient=Eleanor,theme=*balloon)", "A verb with a recipient, a thing acted upon."),
        ("eat(agent=Liam,theme=box)", "A verb with one who acts, a thing acted upon."),
        ("eat(theme=box,agent=Liam)", "A verb with a thing acted upon, one who acts."),
        (
            "dust(agent=Emma,theme=*cake(nmod.in=box(nmod.on=table)))",
            "A verb with one who acts, a thing acted upon; the thing acted upon has a place "
            "phrase that holds another place phrase.",
        ),
        (
            "want(agent=James,xcomp=walk)",
            "A verb with one who acts; it governs an infinitive with no argument of its own.",
        ),
        (
            "like(agent=Liam,ccomp=sell(theme=box(nmod.in=car)))",
            "A verb with one who acts; it governs a clause after 'that', a verb with a thing "
            "acted upon; the thing acted upon has a place phrase.",
        ),
    ],
)
def test_cogs(form, expected):
    assert cogs_skill(form) == expected


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT a FROM T", {"t"}),
        ("SELECT T1.a FROM t AS T1 JOIN u T2 ON T1.i = T2.i join t AS T3 on 1", {"t", "u"}),
        ("SELECT a FROM t , u AS x WHERE b = 'from v'", {"t", "u"}),
        ("SELECT a FROM (SELECT b FROM t) WHERE c IN (SELECT d FROM u)", {"t", "u"}),
        ("SELECT 1", set()),
    ],
)
def test_tables(query, tables):
    assert sql_tables(query) == tables


class Counts:
    def encode(self, texts):
        return np.array([(1, 0) if "a count" in text else (0, 1) for text in texts], np.float32)


def test_the_nearest_gold_skills():
    register()
    bank = [
        Example(f"train-{i}", "", f"SELECT {one} FROM t") for i, one in enumerate(["a", "count(*)"])
    ]
    retriever = build_retriever("target_skill", bank, encoder=Counts(), sketch=PARTS["sql"])
    [found] = retriever.retrieve([Example("q", "how many", "SELECT count(b) FROM u")], 2)
    assert [(pick.id, pick.relevance) for pick in found] == [("train-1", 1), ("train-0", 0.5)]
