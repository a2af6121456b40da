import numpy as np
import pytest
from selector_words import Words

from ceil_jax.errors import UserError
from ceil_jax.methods.build import build_retriever
from ceil_jax.retrieval.bm25 import LexicalIndex
from ceil_jax.tasks.example import Example

TEXTS = ["the cat sat", "a dog ran", "the cat ran", "birds fly high", "the cat sat", "fish swim"]
BANK = [Example(f"train-{i}", text, "x") for i, text in enumerate(TEXTS)]


def cosines(query):
    vectors = Words().encode([query, *TEXTS])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[0] @ vectors[1:].T


def positions(retriever, query, k):
    return [pick.position for pick in retriever.retrieve([query], k)[0]]


@pytest.mark.parametrize("name", ["random", "bm25", "dense", "mmr", "dpp"])
def test_never_itself_never_twice_and_k_of_them(name):
    retriever = build_retriever(name, BANK, encoder=Words())
    for query, picks in zip(BANK, retriever.retrieve(BANK, 3), strict=True):
        assert len({pick.position for pick in picks}) == 3
        assert all(BANK[pick.position].id == pick.id for pick in picks)
        assert query.id not in {pick.id for pick in picks}


def test_random_depends_on_the_seed_and_the_id_alone():
    alone = build_retriever("random", BANK, seed=1).retrieve([BANK[2]], 4)[0]
    among = build_retriever("random", BANK, seed=1).retrieve(BANK, 4)[2]
    assert alone == among
    draws = [
        build_retriever("random", BANK, seed=seed).retrieve([BANK[2]], 4)[0] for seed in range(10)
    ]
    assert len({tuple(pick.id for pick in draw) for draw in draws}) > 1


def test_bm25_prefers_rare_shared_words_and_breaks_ties_by_position():
    query = Example("q", "cat sat", "x")
    assert positions(build_retriever("bm25", BANK), query, 3) == [0, 4, 2]
    # nothing shared: all scores are 0
    assert positions(build_retriever("bm25", BANK), Example("q", "zebra", "x"), 3) == [0, 1, 2]


def test_bm25_score_by_hand():
    # Lucene's idf = ln(1 + (N - df + 1/2) / (df + 1/2)); tf part = tf / (tf + k1 (1 - b + b len /
    # mean len))
    index = LexicalIndex(["red red blue", "blue green", "green"])
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2))
    assert index.scores("red") == pytest.approx([expected, 0, 0], rel=1e-5)


def test_dense_is_the_order_of_cosines():
    query = Example("q", "the cat fly", "x")
    found = build_retriever("dense", BANK, encoder=Words()).retrieve([query], 6)[0]
    expected = cosines(query.input)
    assert [pick.position for pick in found] == sorted(
        range(6), key=lambda i: (-round(expected[i], 6), i)
    )
    for pick in found:
        assert pick.relevance == pytest.approx((1 + expected[pick.position]) / 2, abs=1e-5)


def test_dpp_takes_a_duplicate_once_where_top_k_takes_both():
    query = Example("q", "the cat sat", "x")
    by_id = {"encoder": Words(), "known_by": "id"}
    assert positions(build_retriever("dense", BANK, **by_id), query, 2) == [0, 4]
    chosen = positions(build_retriever("dpp", BANK, **by_id, trade_off=0.01), query, 2)
    assert chosen[0] == 0
    assert 4 not in chosen


@pytest.mark.parametrize("name", ["random", "bm25", "dense", "mmr", "dpp"])
def test_a_question_is_known_by_its_words_and_not_by_its_id(name, caplog):
    # two rows ask "the cat sat"; train-5 is the id of "fish swim" in this file, and of something
    # else in another
    retriever = build_retriever(name, BANK, encoder=Words(), trade_off=5.0)
    query = Example("train-5", " the  cat\nsat", "x")
    found = positions(retriever, query, 6)
    assert sorted(found) == [1, 2, 3, 5]
    assert sorted(positions(retriever, query, 4)) == [1, 2, 3, 5]
    assert 2 not in positions(retriever, BANK[2], 6)
    assert [record.args[:2] for record in caplog.records] == [(1, 1)]


def test_dpp_says_how_many_it_found():
    # five different texts: the sixth is a combination of the chosen ones
    query = Example("q", "cat", "x")
    found = build_retriever("dpp", BANK, encoder=Words()).retrieve([query], 6)[0]
    assert len(found) == 5


def test_mmr_by_hand():
    query = Example("q", "the cat sat", "x")
    weight = 0.4
    relevance = (1 + cosines(query.input)) / 2
    chosen: list[int] = []
    similarity = (1 + np.array([cosines(text) for text in TEXTS])) / 2
    for _ in range(4):
        values = [
            -np.inf
            if i in chosen
            else weight * relevance[i]
            - (1 - weight) * max((similarity[i, j] for j in chosen), default=0)
            for i in range(6)
        ]
        chosen.append(int(np.argmax(np.round(values, 6))))
    retriever = build_retriever("mmr", BANK, encoder=Words(), trade_off=weight, known_by="id")
    assert positions(retriever, query, 4) == chosen


def test_a_small_shortlist_bounds_the_choice():
    query = Example("q", "the cat sat", "x")
    nearest = set(positions(build_retriever("dense", BANK, encoder=Words()), query, 3))
    chosen = positions(
        build_retriever("dpp", BANK, encoder=Words(), shortlist=3, trade_off=1.0), query, 2
    )
    assert set(chosen) <= nearest


def test_two_encoders():
    class Other(Words):
        def encode(self, texts):
            return super().encode(["birds fly high" for _ in texts])

    retriever = build_retriever("dense", BANK, encoder=Words(), query_encoder=Other())
    assert positions(retriever, Example("q", "the cat", "x"), 1) == [3]


@pytest.mark.parametrize("k", [0, 7])
def test_k_must_fit_the_bank(k):
    for name in ("random", "bm25", "dense", "dpp"):
        with pytest.raises(UserError, match=f"{k} examples asked for from a bank of 6"):
            build_retriever(name, BANK, encoder=Words()).retrieve(BANK[:1], k)


def test_unknown_name_and_missing_encoder():
    with pytest.raises(UserError, match="unknown retriever 'bm52'; did you mean 'bm25'"):
        build_retriever("bm52", BANK)
    with pytest.raises(UserError, match="give it an encoder"):
        build_retriever("dpp", BANK)


@pytest.mark.parametrize("name", ["dense", "mmr", "dpp"])
def test_what_is_too_far_is_not_chosen(name):
    query = Example("q", "the cat fly", "x")
    relevance = np.sort((1 + cosines(query.input)) / 2)[::-1]
    limit = float(relevance[1:3].mean())
    near = {i for i, cos in enumerate(cosines(query.input)) if (1 + cos) / 2 >= limit}
    settings = {"encoder": Words(), "trade_off": 0.5}
    every = positions(build_retriever(name, BANK, **settings), query, 6)
    assert not set(every) <= near
    chosen = positions(build_retriever(name, BANK, min_relevance=limit, **settings), query, 6)
    assert chosen
    assert set(chosen) <= near
    assert positions(build_retriever(name, BANK, min_relevance=1.0, **settings), query, 6) == []
