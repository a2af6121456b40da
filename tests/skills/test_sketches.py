import pytest

from ceil_jax.skills.sketches import cogs_sketch, sql_sketch


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM singer", "SELECT COUNT *"),
        ("select T1.Max , T1 . count from a as T1", "SELECT"),
        ("SELECT a FROM t WHERE b >= 3 AND c != 'not in < it'", "SELECT WHERE > = AND !"),
        (
            "SELECT a FROM t WHERE b NOT IN (SELECT c FROM u) ORDER BY d DESC LIMIT 1",
            "SELECT WHERE NOT IN ORDER DESC LIMIT",
        ),
        (
            "SELECT avg(a - b) FROM t GROUP BY c HAVING min(a) + 1.5 < 2",
            "SELECT AVG - GROUP HAVING MIN + <",
        ),
        ("SELECT counts, order_id FROM `group`", "SELECT"),
    ],
)
def test_sql(query, expected):
    assert sql_sketch(query) == set(expected.split())


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            "give(agent=Emma,theme=*cake(nmod.on=table),recipient=dog)",
            "agent theme theme/nmod recipient",
        ),
        (
            "hope(agent=Liam,ccomp=want(agent=*boy,xcomp=dance))",
            "agent ccomp ccomp/agent ccomp/xcomp",
        ),
        ("cry(agent=a)", "agent"),
        ("box(a)", ""),
        ("Paula", ""),
    ],
)
def test_cogs(form, expected):
    assert cogs_sketch(form) == set(expected.split())
