import json
import math
from dataclasses import replace

import numpy as np
import pytest
from films import SMALL, films
from skill_knn.analysis import SelectionMeasures, by_frequency, mean_selected, plane, recall_at, selected
from skill_knn.command import FigureOptions, RecallOptions, SkillOptions, main
from skill_knn.comparison import score_of
from skill_knn.hardness import hardness

from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import open_run
from ceil_jax.retrieval.registry import Retrieved
from ceil_jax.skills.sketches import cogs_sketch, sql_sketch
from ceil_jax.tasks.example import Example

SQL = ["SELECT a FROM t", "SELECT count(*) FROM t JOIN u", "SELECT a FROM v WHERE b = 1"]
DATABASES = ["one", "one", "two"]
SCHEMAS = ["t [a, b], u [c]", "t [a, b], u [c]", "v [a, b]"]


def example(i, split="train"):
    return Example(f"{split}-{i}", "", SQL[i], fields={"db_id": DATABASES[i], "schema": SCHEMAS[i]})


def picks(*positions):
    return [Retrieved(f"train-{p}", p, 0.0, 0.0) for p in positions]


def test_selected_by_hand():
    bank, queries = [example(i) for i in range(3)], [example(0, "q"), example(2, "q")]
    found = selected(queries, [picks(0, 1), picks(1, 2)], bank, language="sql", sketch=sql_sketch)
    # sketches: {SELECT}, {SELECT COUNT * JOIN}, {SELECT WHERE =}
    overlaps = [1, 1 / 4, 1 / 6, 1]
    assert found.overlap == pytest.approx(100 * sum(overlaps) / 4)
    assert found.databases == (1 + 2) / 2
    # the first query's SELECT is there; the second's three are in its second example
    assert found.coverage == 100
    assert found.tables == (2 + 2 + 2 + 1) / 4
    assert found.length == (4 + 6 + 6 + 8) / 4


def test_cogs_has_no_databases():
    bank = [Example("train-0", "", "box(a)"), Example("train-1", "", "cry(agent=Emma)")]
    found = selected([Example("q", "", "Paula")], [picks(0, 1)], bank, language="cogs", sketch=cogs_sketch)
    assert found.overlap == 50  # two empty sketches are equal, an empty and another have nothing in common
    assert math.isnan(found.databases)
    assert math.isnan(found.tables)


def test_mean_over_repeats():
    assert mean_selected(
        [SelectionMeasures(10, 50, 1, 2, 3), SelectionMeasures(20, 70, 2, 2, 6)]
    ) == SelectionMeasures(15, 60, 1.5, 2, 4.5)


@pytest.mark.parametrize(
    ("level", "query"),
    [
        ("easy", "SELECT count(*) FROM singer"),
        ("easy", "SELECT name FROM singer WHERE age > 20"),
        # two columns; a join and a condition
        ("medium", "SELECT name, age FROM singer WHERE age > 20"),
        ("medium", "SELECT T1.name FROM a AS T1 JOIN b AS T2 ON T1.x = T2.x WHERE T2.y = 'or, like'"),
        # one nested query; three clauses
        ("hard", "SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer)"),
        ("hard", "SELECT a FROM t JOIN u WHERE b = 1 ORDER BY c"),
        ("hard", "SELECT a FROM t EXCEPT SELECT a FROM t JOIN u WHERE b = 1 OR c = 2"),
        # a query in FROM is no condition
        ("easy", "SELECT count(*) FROM (SELECT a FROM t INTERSECT SELECT b FROM t)"),
        ("extra", "SELECT a, b FROM t WHERE c NOT IN (SELECT c FROM u) AND d = 1"),
        ("extra", "SELECT a FROM t JOIN u GROUP BY b HAVING count(*) > 1 ORDER BY count(*) DESC LIMIT 1"),
    ],
)
def test_hardness(level, query):
    assert hardness(query) == level


def test_samples_by_frequency():
    assert by_frequency(["b", "a", "c", "a", "c", "d"]) == ["a", "c", "b", "d"]


def test_recall_by_hand():
    samples = [["x", "y", "y"], ["y", "x", "z"], ["z", "z", "z"], ["x", "x", "y"]]
    gold = ["x", "z", "y", "x"]
    asked = []

    def right(answers, owners):
        asked.append(list(zip(owners, answers, strict=True)))
        return [answer == gold[owner] for answer, owner in zip(answers, owners, strict=True)]

    # by frequency: y x | y x z | z | x y: right at place 2, 3, never, 1
    assert recall_at(samples, right, (1, 2, 3)) == {1: 25.0, 2: 50.0, 3: 75.0}
    assert asked == [[(0, "y"), (0, "x"), (1, "y"), (1, "x"), (1, "z"), (2, "z"), (3, "x"), (3, "y")]]


def test_the_plane_keeps_neighbours_together():
    pytest.importorskip("sklearn")
    centres = np.repeat(np.eye(8)[:2], 12, axis=0)
    vectors = centres + 0.01 * np.random.default_rng(0).normal(size=centres.shape)
    points = plane(vectors.astype(np.float32), seed=0)
    assert points.shape == (24, 2)
    np.testing.assert_array_equal(points, plane(vectors.astype(np.float32), seed=0))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + np.diag([np.inf] * 24)
    assert [int(nearest) // 12 for nearest in distance.argmin(axis=1)] == [0] * 12 + [1] * 12


def test_the_score_of_repeats_is_their_mean(tmp_path):
    records = [evaluate(*open_run(replace(SMALL, out=tmp_path), films(20, 6)), name) for name in ("zero", "random")]
    found = score_of(records)
    assert found.interval.low <= found.mean == pytest.approx(np.mean([one.value for one in records]))


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (SkillOptions(("cogs.ps",), ("epr", "skill_base"), ("tiny",), scorer="tiny", seeds=1), {"md", "png"}),
        (RecallOptions(("cogs.ps",), ("topk",), samples=2), {"md"}),
        (FigureOptions(("cogs.ps",)), {"png"}),
    ],
    ids=["scored by another LM", "recall", "figure"],
)
def test_the_commands_write_their_pages(options, files, tmp_path, registrations_undone):
    if isinstance(options, FigureOptions):
        pytest.importorskip("sklearn")
    form = "{0} ( x _ 1 ) AND {1} . theme ( x _ 2 , x _ 1 )"
    words = [(noun, verb) for noun in ("cobra", "dog", "rose", "cake") for verb in ("grew", "slept", "froze")]
    rows = [
        {"sentence": f"A {one} {two} .", "logical_form": form.format(one, two), "distribution": "prim_to_inf_arg"}
        for one, two in words
    ]
    for split, some in (("train", rows), ("gen", rows[:3])):
        file = tmp_path / "data" / "cogs" / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    small = ["--lm", "tiny", "--encoder", "tiny", "--epr.instances", "8", "--skills.orders", "1"]
    given = ["--scale", "tiny", "--data-dir", f"{tmp_path}/data", "--out", f"{tmp_path}/runs", *small]
    assert main(options, "page", given) == 0
    assert {file.suffix[1:] for file in tmp_path.glob("runs/page-*/*")} == files
