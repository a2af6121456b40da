"""Skill-KNN and the oracles in the retrievers' protocol."""

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.methods.build import build_retriever
from ceil_jax.retrieval import nearest
from ceil_jax.retrieval.nearest import drawn_order
from ceil_jax.skills.sketches import PARTS
from ceil_jax.tasks.example import Example

COMPASS = {"e": (1, 0), "ne": (1, 1), "n": (0, 1), "nw": (-1, 1), "w": (-1, 0)}
SKILLS = {"q": "e n", "a": "ne ne", "b": "w n", "c": "e w", "d": "nw nw"}
BANK = [Example(f"train-{name}", name, "") for name in "abcd"]
QUERY = Example("q", "q", "")


class Compass:
    def encode(self, texts):
        return np.array([COMPASS[text] for text in texts], np.float32)


def rewrite(examples):
    return [SKILLS[example.input].split() for example in examples]


def ask(name, bank, query, k, **options):
    return build_retriever(name, bank, encoder=Compass(), **options).retrieve([query], k)[0]


@pytest.mark.parametrize(
    ("name", "cosines"),
    [
        # of q's first skill, east, and a's ne, b's w, c's e, d's nw
        ("skill_base", {"c": 1, "a": 0.5**0.5, "d": -(0.5**0.5), "b": -1}),
        # q's mean points north-east; a's ne, b's nw, c's is 0, d's nw
        ("skill_consistency", {"a": 1, "b": 0, "c": 0, "d": 0}),
        # north and north, east and east; ne and either; nw and north
        ("skill_distinct", {"b": 1, "c": 1, "a": 0.5**0.5, "d": 0.5**0.5}),
    ],
)
def test_skill_knn_by_hand(name, cosines):
    found = ask(name, BANK, QUERY, 4, rewrite=rewrite)
    assert {pick.id: pick.relevance for pick in found} == {
        f"train-{item}": pytest.approx((1 + cos) / 2, abs=1e-6) for item, cos in cosines.items()
    }
    assert [pick.relevance for pick in found] == sorted(
        (pick.relevance for pick in found), reverse=True
    )
    best = max(cosines.values())
    assert found[0].id in {f"train-{item}" for item, cos in cosines.items() if cos == best}


def test_which_of_equal_skills_is_drawn_for_each_query():
    bank = [Example(f"train-{i}", "c", "") for i in range(20)] + [Example("train-other", "a", "")]
    queries = [Example(f"q{i}", "q", "") for i in range(30)]
    chosen = {}
    for seed in (0, 0, 1):
        retriever = build_retriever(
            "skill_base", bank, encoder=Compass(), rewrite=rewrite, seed=seed
        )
        rows = [[pick.id for pick in row] for row in retriever.retrieve(queries, 4)]
        assert chosen.setdefault(seed, rows) == rows
        assert all(len(set(row)) == 4 and "train-other" not in row for row in rows)
        assert rows[7] == [pick.id for pick in retriever.retrieve(queries[7:8], 4)[0]]
    # 120 draws of 20 leave one of them out with probability 20 × 0.8^30 = 2 %; the seed is fixed
    assert {id for row in chosen[0] for id in row} == {f"train-{i}" for i in range(20)}
    assert chosen[0] != chosen[1]


def test_a_large_bank_is_compared_with_a_few_queries_at_a_time(monkeypatch):
    queries = [Example(f"q{i}", "q", "") for i in range(7)]
    retriever = build_retriever("skill_base", BANK, encoder=Compass(), rewrite=rewrite)
    together = retriever.retrieve(queries, 4)
    held = []
    map_batches = nearest.map_batches

    def watched(function, rows, shared, **options):
        held.append(len(rows[0]) * len(shared[0]))
        return map_batches(function, rows, shared, **options)

    monkeypatch.setattr(nearest, "map_batches", watched)
    monkeypatch.setattr(nearest, "SCORES_AT_ONCE", 15)
    assert retriever.retrieve(queries, 4) == together
    # there is room for 3 queries' scores: 2, a power of two
    assert held == [8, 8, 8, 4]
    monkeypatch.setattr(nearest, "SCORES_AT_ONCE", 1)
    assert retriever.retrieve(queries, 4) == together


def test_a_draw_decides_between_equals_only():
    scores = np.array([0.5, 0.9, 0.5 + 3e-7, 0.9 - 3e-7, 0.4, 0.95], np.float32)
    orders = {
        tuple(drawn_order(scores, 4, np.random.default_rng(seed)).tolist()) for seed in range(40)
    }
    assert orders == {(5, *high, low) for high in ((1, 3), (3, 1)) for low in (0, 2)}


@pytest.mark.parametrize("name", ["skill_base", "skill_consistency", "skill_distinct"])
def test_an_example_of_the_bank_never_gets_itself(name):
    for query in BANK:
        ids = [pick.id for pick in ask(name, BANK, query, 3, rewrite=rewrite)]
        assert len(set(ids)) == 3
        assert query.id not in ids


def test_target_knn_compares_outputs():
    bank = [Example(f"train-{way}", "e", way) for way in ("w", "ne", "n")]
    found = ask("target_knn", bank, Example("q", "w", "n"), 3)
    assert [pick.id for pick in found] == ["train-n", "train-ne", "train-w"]


SQL = [
    "SELECT a FROM t",
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM t WHERE a = 1",
    "SELECT count(*) FROM u",
    "SELECT max(a) FROM t",
]


def test_target_sketch_by_hand():
    bank = [Example(f"train-{i}", f"question {i}", query) for i, query in enumerate(SQL)]
    query = Example("q", "another question", "SELECT count(*) FROM v")
    orders = set()
    for seed in range(8):
        found = ask("target_sketch", bank, query, 5, sketch=PARTS["sql"], seed=seed)
        # of SELECT, COUNT, *: three in 1, 3 and 2, of which 2 has WHERE and = beside; SELECT alone
        # in 0 and 4
        assert [pick.relevance for pick in found] == [3, 3, 3, 1, 1]
        assert {found[0].position, found[1].position} == {1, 3}
        assert [pick.position for pick in found[2:]] == [2, 0, 4]
        assert [pick.id for pick in found] == [f"train-{pick.position}" for pick in found]
        orders.add(found[0].position)
    assert orders == {1, 3}
    itself = ask("target_sketch", bank, bank[1], 4, sketch=PARTS["sql"])
    assert itself[0].position == 3
    assert 1 not in [pick.position for pick in itself]


def test_structural_similarity_of_cogs_by_hand():
    forms = [
        "eat(agent=Emma,theme=cake)",
        "cry(agent=Emma)",
        "give(agent=dog,theme=*cake,recipient=Al)",
        "Al",
    ]
    bank = [Example(f"train-{i}", f"sentence {i}", form) for i, form in enumerate(forms)]
    query = Example("q", "another", "eat(agent=*boy,theme=cake(nmod.on=table))")
    found = ask("target_sketch", bank, query, 4, sketch=PARTS["cogs"])
    # eat and cake, agent and theme; cake, agent and theme; agent; nothing
    assert [(pick.position, pick.relevance) for pick in found] == [
        (0, 202),
        (2, 102),
        (1, 1),
        (3, 0),
    ]


def test_what_they_need():
    with pytest.raises(UserError, match="'skill_base' compares skills: give it a rewrite"):
        build_retriever("skill_base", BANK, encoder=Compass())
    with pytest.raises(UserError, match="7 examples asked for from a bank of 4"):
        ask("target_sketch", BANK, QUERY, 7, sketch=PARTS["sql"])
