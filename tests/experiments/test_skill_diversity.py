import numpy as np
import pytest
from skill_knn.diversity import register

from ceil_jax.methods.build import build_retriever
from ceil_jax.methods.registry import ROWS
from ceil_jax.tasks.example import Example

PLACES = {"count": [1.0, 0.0], "sort": [0.8, 0.6], "join": [0.6, -0.8], "all": [-1.0, 0.0]}


class Plane:
    dim = 2
    name = "plane"

    def encode(self, texts, **_):
        return np.array([PLACES[text] for text in texts], np.float32)


BANK = [
    Example(f"{skill}-{i}", "", "", fields={"skill": skill})
    for skill, times in (("count", 5), ("sort", 3), ("join", 2), ("all", 1))
    for i in range(times)
]


@pytest.fixture(autouse=True)
def registered():
    register()


@pytest.fixture
def ask():

    def asked(k, **options):
        retriever = build_retriever(
            "skill_map",
            BANK,
            encoder=Plane(),
            rewrite=lambda examples: [[example.fields["skill"]] for example in examples],
            **options,
        )
        queries = [
            Example(f"q{i}", f"a question {i}", "", fields={"skill": "count"}) for i in range(20)
        ]
        return retriever.retrieve(queries, k)

    return asked


def test_a_skill_is_taken_once_while_others_are_left(ask):
    rows = ask(3, trade_off=0.5)
    assert {row[0].id[:-2] for row in rows} == {"count"}
    assert all(len({pick.id[:-2] for pick in row}) == 3 for row in rows)
    # which of the five that count is drawn for each query
    assert len({row[0].id for row in rows}) > 2
    expected = [(1 + PLACES[pick.id[:-2]][0]) / 2 for pick in rows[0]]
    assert [pick.relevance for pick in rows[0]] == pytest.approx(expected)


def test_the_nearest_fill_what_is_left(ask):
    # there are four different skills; the nearest of the other examples fills the fifth place
    for row in ask(5, trade_off=0.5, shortlist=1):
        kinds = [pick.id[:-2] for pick in row]
        assert len({pick.id for pick in row}) == 5
        assert kinds[0] == "count"
        assert set(kinds[4:]) == {"count"}


def test_what_they_need():
    assert ROWS["skill_map"].needs.skills == "one"
    assert ROWS["target_skill_map"].needs.gold_outputs
    assert ROWS["target_skill_map"].encodes
    assert not ROWS["target_skill_map"].trains
