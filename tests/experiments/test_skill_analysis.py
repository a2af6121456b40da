import importlib
import json
from collections import Counter

import numpy as np
import pytest
from skill_knn.analysis import by_frequency, plane, recall_at
from skill_knn.command import FigureOptions, RecallOptions, SelectedOptions, main
from skill_knn.comparison import skill_experiment, wins
from skill_knn.hardness import hardness
from skill_knn.selection import averaged, selected

from ceil_jax.retrieval.retriever import choice_of
from ceil_jax.tasks.example import Example, Task, Template

SQL = ["SELECT a FROM t", "SELECT count(*) FROM t JOIN u", "SELECT a FROM v WHERE b = 1"]
DATABASES = ["one", "one", "two"]
SCHEMAS = ["t [a, b], u [c]", "t [a, b], u [c]", "v [a, b]"]


def example(i, split="train"):
    return Example(f"{split}-{i}", "", SQL[i], fields={"db_id": DATABASES[i], "schema": SCHEMAS[i]})


def picks(*positions):
    return [(position, 0.0, 0.0) for position in positions]


def of(language, bank, queries):
    return Task("t", bank, queries, Template("{input}{output}"), "exact_match", language=language)


def test_selected_by_hand():
    bank = [example(i) for i in range(3)]
    queries = [example(0, "q"), example(2, "q")]
    found = selected(of("sql", bank, queries), choice_of([picks(0, 1), picks(1, 2)]))
    # sketches: {SELECT}, {SELECT COUNT * JOIN}, {SELECT WHERE =}
    overlaps = [1, 1 / 4, 1 / 6, 1]
    assert list(found.values()) == pytest.approx(
        # the first query's SELECT is covered; the second's three are in its second example
        [100 * sum(overlaps) / 4, 100, (1 + 2) / 2, (2 + 2 + 2 + 1) / 4, (4 + 6 + 6 + 8) / 4]
    )


def test_cogs_has_no_databases():
    bank = [Example("train-0", "", "box(a)"), Example("train-1", "", "cry(agent=Emma)")]
    found = selected(of("cogs", bank, [Example("q", "", "Paula")]), choice_of([picks(0, 1)]))
    assert (
        found["sketch overlap %"] == 50
    )  # two empty sketches are equal, an empty and another share nothing
    assert list(found) == ["sketch overlap %", "sketch coverage %"]


def test_mean_over_repeats():
    assert averaged([{"a": 10, "b": 1}, {"a": 20, "b": 2}]) == {"a": 15, "b": 1.5}


def test_wins_by_hand():
    scores = {"one": {"a": 5.0, "b": 5.0, "o": 4.0}, "two": {"a": 3.0, "b": 2.0, "o": 9.0}}
    assert wins(scores, ["a", "b"], ["o"]) == ({"a": 2, "b": 1}, {"a": 1, "b": 1})
    # a task that failed after its first row; oracles alone
    assert wins({"one": {"b": 1.0}}, ["a", "b"], ["o"]) == ({"a": 0, "b": 1}, {"a": 0, "b": 0})
    assert wins(scores, [], ["o"]) == ({}, {})


@pytest.mark.parametrize(
    ("level", "query"),
    [
        ("easy", "SELECT count(*) FROM singer"),
        ("easy", "SELECT name FROM singer WHERE age > 20"),
        # two columns; a join and a condition
        ("medium", "SELECT name, age FROM singer WHERE age > 20"),
        (
            "medium",
            "SELECT T1.name FROM a AS T1 JOIN b AS T2 ON T1.x = T2.x WHERE T2.y = 'or, like'",
        ),
        # one nested query; three clauses
        ("hard", "SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer)"),
        ("hard", "SELECT a FROM t JOIN u WHERE b = 1 ORDER BY c"),
        ("hard", "SELECT a FROM t EXCEPT SELECT a FROM t JOIN u WHERE b = 1 OR c = 2"),
        # a query in FROM is not a condition
        ("easy", "SELECT count(*) FROM (SELECT a FROM t INTERSECT SELECT b FROM t)"),
        ("extra", "SELECT a, b FROM t WHERE c NOT IN (SELECT c FROM u) AND d = 1"),
        (
            "extra",
            "SELECT a FROM t JOIN u GROUP BY b HAVING count(*) > 1 ORDER BY count(*) DESC LIMIT 1",
        ),
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
    assert asked == [
        [(0, "y"), (0, "x"), (1, "y"), (1, "x"), (1, "z"), (2, "z"), (3, "x"), (3, "y")]
    ]


def test_the_plane_keeps_neighbours_together():
    pytest.importorskip("sklearn")
    centres = np.repeat(np.eye(8)[:2], 12, axis=0)
    vectors = centres + 0.01 * np.random.default_rng(0).normal(size=centres.shape)
    points = plane(vectors.astype(np.float32), seed=0)
    assert points.shape == (24, 2)
    np.testing.assert_array_equal(points, plane(vectors.astype(np.float32), seed=0))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + np.diag([np.inf] * 24)
    assert [int(nearest) // 12 for nearest in distance.argmin(axis=1)] == [0] * 12 + [1] * 12


@pytest.fixture
def flags(tmp_path):
    """The command line of a small run on a COGS of twelve forms, in a folder of its own."""
    form = "{0} ( x _ 1 ) AND {1} . theme ( x _ 2 , x _ 1 )"
    words = [
        (noun, verb)
        for noun in ("cobra", "dog", "rose", "cake")
        for verb in ("grew", "slept", "froze")
    ]
    rows = [
        {
            "sentence": f"A {one} {two} .",
            "logical_form": form.format(one, two),
            "distribution": "prim_to_inf_arg",
        }
        for one, two in words
    ]
    for split, some in (("train", rows), ("gen", rows[:3])):
        file = tmp_path / "data" / "cogs" / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    small = ["--lm", "tiny", "--encoder", "tiny", "--epr.instances", "8", "--skills.orders", "2"]
    return [
        "--scale",
        "tiny",
        "--data-dir",
        f"{tmp_path}/data",
        "--out",
        f"{tmp_path}/runs",
        *small,
    ]


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (SelectedOptions(("cogs.ps",), ("topk", "skill_base", "skill_map")), {"md", "png"}),
        (RecallOptions(("cogs.ps",), ("topk",), samples=2), {"md"}),
        (FigureOptions(("cogs.ps",)), {"png"}),
    ],
    ids=["selected", "recall", "figure"],
)
def test_the_analyses_write_their_pages(options, files, tmp_path, flags):
    if isinstance(options, FigureOptions):
        pytest.importorskip("sklearn")
    assert main(options, "page", flags) == 0
    assert {file.suffix[1:] for file in tmp_path.glob("runs/page-*/*")} == files


def test_a_comparison_repeats_what_is_drawn_and_lets_another_lm_answer(
    tmp_path, flags, monkeypatch, capsys
):
    (tmp_path / "another.py").write_text(
        "from ceil_jax.lm import TinyLM\ndef build():\n    lm = TinyLM()\n    lm.name = 'other'\n "
        "   return lm\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    experiment = skill_experiment(
        "page", "Page", ("cogs.ps",), ("random", "topk", "epr", "skill_base")
    )
    record = tmp_path / "records.jsonl"
    given = [
        "--lms",
        "tiny",
        "another:build",
        "--seeds",
        "0",
        "1",
        "--encoders",
        "tiny",
        "--record",
        str(record),
    ]
    assert experiment.main([*flags, *given]) == 0
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert Counter(line["row"] for line in lines) == {
        f"{row}, {lm}": count
        for lm in ("tiny", "another:build")
        for row, count in {
            "random": 2,
            "dense top-k": 1,
            "dense top-k, tiny": 1,
            "EPR": 2,
            "Skill-KNN": 2,
        }.items()
    }
    # the LM of --lm scores and rewrites whatever answers
    by = {line["row"]: line["trained_by"] for line in lines}
    assert by["EPR, another:build"] == [["cogs.ps", "tiny"]]
    assert by["EPR, tiny"] == by["random, another:build"] == []
    page = capsys.readouterr().out
    assert "sketch overlap %" in page
    assert "above an oracle" in page
    assert "cogs.ps: tiny: " in page
    assert "rewrites failed" in page
    assert "other: " not in page


@pytest.mark.parametrize(
    "name", ["cogs", "spider", "skill_table2", "skill_table3", "skill_diversity"]
)
def test_every_comparison_can_be_planned(name, flags, capsys):
    options = ["--tasks", "cogs.ps", "--lms", "tiny", "--dry-run", "--seeds", "0", "1"]
    assert importlib.import_module(name).EXPERIMENT.main([*flags, *options]) == 0
    assert "rewriting 12 inputs as skills, order 1" in capsys.readouterr().out


def test_a_task_without_skills_is_refused(flags, capsys):
    assert skill_experiment("page", "Page", ("sst5",)).main(flags) == 2
    assert "sst5 is neither a SQL nor a COGS task" in capsys.readouterr().err
