"""The selector among what people already have: tables, encoders of any kind, worker processes,
notebooks."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, ids, words

from ceil_jax import CeilSelector
from ceil_jax.dpp.lengths import unit_rows

TICKETS = [{"ticket": row["input"], "team": row["output"], "town": row["town"]} for row in ROWS]


def test_rows_whose_fields_have_other_names():
    named = {"encoder": Words(), "input_key": "ticket", "output_key": "team"}
    selector = CeilSelector.from_examples(TICKETS, **named)
    plain = CeilSelector.from_examples(
        [{**row, "id": None, "year": None} for row in ROWS], encoder=Words()
    )
    assert selector.examples == plain.examples
    assert ids(selector.select({"ticket": QUERY}, k=4)) == ids(plain.select(QUERY, k=4))
    assert len(selector.add([{"ticket": "a new one", "team": "dark"}])) == 1
    with refused(r"no column 'ticket', 'team'; it has 'input', 'output'; .* input_key=…"):
        CeilSelector.from_examples([{"input": "a", "output": "b"}], **named)


def test_the_names_of_the_fields_are_saved(tiny, tmp_path):
    keys = {"input_key": "ticket", "output_key": "team"}
    CeilSelector.from_examples(TICKETS, encoder=tiny, **keys).save_pretrained(tmp_path)
    selector = CeilSelector.from_pretrained(tmp_path)
    [added] = selector.add([{"ticket": "a new one", "team": "dark"}])
    assert selector.examples[-1].output == "dark"
    assert added == selector.examples[-1].id
    dark = selector.select({"ticket": QUERY}, k=4, filter={"team": "dark"})
    assert [example.output for example in dark] == ["dark"] * 4
    balanced = selector.select(QUERY, k=4, balance="team")
    assert sorted(example.output for example in balanced) == ["dark", "dark", "light", "light"]
    named = CeilSelector.from_pretrained(tmp_path, input_key="text", output_key="answer")
    assert len(named.add([{"text": "another", "answer": "dark"}])) == 1
    with refused("both 'ticket'; expected two fields"):
        CeilSelector.from_examples(TICKETS, encoder=tiny, input_key="ticket", output_key="ticket")


def test_a_csv_file(tmp_path):
    named = {"encoder": Words(), "input_key": "ticket", "output_key": "team"}
    file = tmp_path / "tickets.csv"
    lines = [
        f'"{row["ticket"]}",{row["team"]},{row["town"] if i else ""}'
        for i, row in enumerate(TICKETS)
    ]
    file.write_text("\n".join(["ticket,team,town", *lines]) + "\n", encoding="utf-8-sig")
    selector = CeilSelector.from_csv(file, trade_off=0.3, **named)
    assert [example.input for example in selector.examples] == [row["ticket"] for row in TICKETS]
    assert (selector.examples[0].fields, selector.examples[1].fields) == ({}, {"town": "town1"})
    assert (selector.trade_off, len(selector.select({"ticket": QUERY}, k=3))) == (0.3, 3)


def test_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TICKETS)
    frame["team"] = range(60)
    frame["opened"] = pandas.to_datetime("2026-01-02")
    frame["size"] = np.where(np.arange(60) % 2, np.nan, 2.5)
    named = {"encoder": Words(), "input_key": "ticket", "output_key": "team"}
    selector = CeilSelector.from_dataframe(frame, **named)
    assert [example.output for example in selector.examples[:2]] == ["0", "1"]
    assert selector.examples[0].fields == {
        "town": "town0",
        "opened": "2026-01-02 00:00:00",
        "size": "2.5",
    }
    assert "size" not in selector.examples[1].fields
    frame.loc[3, "ticket"] = None
    with refused(r"data frame, row 4, field 'ticket': expected a text .* found None"):
        CeilSelector.from_dataframe(frame, **named)
    with refused("expected a file, a data frame, .* or a list of rows, found a Words"):
        CeilSelector.from_dataframe(Words(), **named)


def test_encoders_of_any_kind():
    expected = ids(CeilSelector.from_examples(ROWS, encoder=Words()).select(QUERY, k=5))

    def embed_one(text):
        return Words().encode([text])[0].tolist()

    langchain = SimpleNamespace(
        embed_documents=lambda texts: [embed_one(text) for text in texts],
        embed_query=embed_one,
        model="small",
    )
    encode = Words().encode
    for encoder in (encode, langchain.embed_documents, SimpleNamespace(encode=encode), langchain):
        selector = CeilSelector.from_examples(ROWS, encoder=encoder)
        assert ids(selector.select(QUERY, k=5)) == expected
    assert selector.encoder.name == "small"
    for wrong, shown in (
        (7, "7"),
        (None, "None"),
        (Words, "<class .*Words'>"),
        (object(), "<object"),
    ):
        with refused(rf"encoder is {shown}.*; expected a name, a folder"):
            CeilSelector.from_examples(ROWS, encoder=wrong)

    def broken(texts):
        return np.where(np.arange(len(texts))[:, None] == 1, np.inf, 1.0)

    with refused(r"encoder .*broken gives vectors that are not finite .* first for 'the bridge"):
        CeilSelector.from_examples(ROWS, encoder=broken)
    nan = CeilSelector.from_examples(
        ROWS, encoder=Words(), query_encoder=lambda texts: [[np.nan] * 32]
    )
    with refused(rf"not finite for 1 of 1 texts, first for '{QUERY}'"):
        nan.select(QUERY, k=1)


def test_a_selection_is_a_list_of_examples_that_shows_itself():
    chosen = CeilSelector.from_examples(ROWS, encoder=Words()).select(QUERY, k=3)
    assert len(chosen) == 3
    assert list(chosen) == chosen.examples
    assert repr(chosen).startswith(f"Selection('{QUERY}': ['row-")
    assert repr(chosen).endswith("stopped='k')")
    for again in (pickle.loads(pickle.dumps(chosen)), copy.deepcopy(chosen)):
        assert again == chosen
        assert again.prompt == chosen.prompt


def one_vector(texts):
    return [[1, 0, 0]] * len(texts)


def test_an_explanation_says_what_was_added():
    """Three unit vectors whose cosines are known: b repeats a; c is new, and less relevant than
    b."""
    vectors = np.array([[1, 0, 0], [0.96, 0.28, 0], [0.6, 0, 0.8]])
    rows = [{"id": id, "input": f"text {id}", "output": "x"} for id in "abc"]
    settings = {"vectors": vectors, "trade_off": 0.2, "origin": 0.0}
    selector = CeilSelector.from_examples(rows, encoder=one_vector, **settings)
    # relevance 1, 0.98, 0.8; what a does not cover: 1 − ((1 + cos) / 2)², that is 0.0396 and 0.36
    assert str(selector.select("q", k=2).explain()).splitlines() == [
        "2 examples for 'q', λ = 0.2, stopped: k",
        "relevance  added  example",
        "    0.800   0.36  c: text c",
        "    1.000   1.00  a: text a",
    ]


def test_near_duplicates_are_passed_over_above_a_threshold_that_can_be_set(tiny, tmp_path):
    vectors = np.array([[1, 0, 0], [0.995, 0.0999, 0], [0.99, 0, 0.14], [0.5, 0.5, 0.7], [0, 1, 0]])
    rows = [{"id": f"{i}", "input": f"invoice {i}", "output": "x"} for i in range(5)]

    def make(**settings):
        settings = {"near_duplicate": 0.8, "trade_off": 0.001, "origin": 0.0} | settings
        settings["vectors"] = vectors
        return CeilSelector.from_examples(rows, encoder=one_vector, **settings)

    assert ids(make().select("q", k=3)) == ["4", "3", "0"]
    assert ids(make(near_duplicate=None).select("q", k=3)) == ["2", "1", "0"]
    assert ids(make().select("q", k=3, near_duplicate=None)) == ["2", "1", "0"]
    assert ids(make(near_duplicate=0.992).select("q", k=3)) == ["3", "2", "0"]
    # what repeats fills the places that would stay empty, by gain
    assert ids(make().select("q", k=4)) == ["4", "3", "1", "0"]
    # in three dimensions (1 + cos) / 2 has rank 4: the fifth adds nothing, and fills its place
    # still
    every = make().select("q", k=5)
    assert (every.stopped, sorted(ids(every)), every.repeats) == ("k", list("01234"), 2)
    assert [pick.gain for pick in every.picks].count(-np.inf) == 1
    assert "2 of them repeat others" in str(every.explain())
    assert make().select("q", k=6).stopped == "exhausted"
    for value in (0, -1, 1.01, float("nan"), "0.9"):
        with refused("near_duplicate is"):
            make(near_duplicate=value)
    CeilSelector.from_examples(ROWS, encoder=tiny, near_duplicate=0.8).save_pretrained(tmp_path)
    assert CeilSelector.from_pretrained(tmp_path).near_duplicate == 0.8


def test_an_encoder_whose_cosines_all_lie_high_still_fills_k_and_a_budget():
    """A BERT that was never trained to compare sentences is such an encoder: every two texts have a
    cosine above 0.95."""

    def narrow(texts):
        return np.hstack([unit_rows(Words().encode(texts)), np.full((len(texts), 1), 7)])

    settings = {"near_duplicate": 0.8, "origin": 0.0, "count_tokens": words}
    selector = CeilSelector.from_examples(ROWS, encoder=narrow, **settings)
    vectors = selector.bank.snapshot.vectors
    assert (vectors @ vectors.T).min() > 0.95
    eight = {"k": 8}
    for options in (
        eight,
        {"token_budget": 48},
        eight | {"token_budget": 100},
        eight | {"balance": "label"},
    ):
        chosen = selector.select(QUERY, **options)
        assert len(chosen) == 8
        # every other example repeats the first, so that the choice is that without a limit
        assert ids(chosen) == ids(selector.select(QUERY, near_duplicate=None, **options))


@pytest.mark.packages
def test_three_invoices_that_differ_in_a_number_do_not_fill_a_prompt():
    rows = [
        {"input": f"Invoice {number} is overdue, please pay {amount} euros", "output": "billing"}
        for number, amount in ((1001, 20), (1002, 35), (1003, 50), (88231, 1200))
    ]
    rows += [
        {"input": "I was charged twice for my subscription this month", "output": "billing"},
        {"input": "How do I get a refund for a wrong payment?", "output": "billing"},
        {"input": "The app crashes when I open settings", "output": "tech"},
    ]
    selector = CeilSelector.from_examples(rows, encoder="all-MiniLM-L6-v2", near_duplicate=0.6)
    for query in ("Invoice 1005 is overdue, please pay 80 euros", "I have an unpaid invoice"):
        for k, invoices in ((3, 1), (4, 1), (5, 2), (7, 4)):
            chosen = selector.select(query, k=k)
            assert (len(chosen), sum("Invoice" in example.input for example in chosen)) == (
                k,
                invoices,
            )


def test_where_none_is_near_enough_there_are_fewer_or_none(tiny, tmp_path):
    """Relevance (1 + cos) / 2 of the three: 1, 0.98 and 0.8."""
    vectors = np.array([[1, 0, 0], [0.96, 0.28, 0], [0.6, 0, 0.8]])
    rows = [{"id": id, "input": f"text {id}", "output": "x"} for id in "abc"]
    settings = {"vectors": vectors, "trade_off": 0.2, "origin": 0.0}
    selector = CeilSelector.from_examples(rows, encoder=one_vector, **settings)
    near = selector.select("q", k=3, min_relevance=0.9)
    assert ids(near) == ["b", "a"]
    assert near.stopped == "min_relevance"
    assert near.explain().splitlines()[0] == (
        "2 examples for 'q', λ = 0.2, stopped: min_relevance (the next nearest has 0.800, below 0.9)"
    )
    # two of the near ones are enough for k = 2, whatever is far
    assert selector.select("q", k=2, min_relevance=0.9).stopped == "k"
    assert selector.select("q", k=3, min_relevance=0.8).stopped == "k"
    only = selector.select("q", k=3, min_relevance=0.9, filter=lambda example: example.id == "c")
    assert (only.examples, only.prompt) == ([], "q\n")
    assert "0 examples for 'q'" in only.explain()
    assert "(the nearest has 0.800, below 0.9)" in only.explain()
    # an example that a filter leaves out is not the nearest that is too far
    assert (
        selector.select("q", k=3, filter=lambda example: example.id != "c").stopped == "exhausted"
    )
    for value in (-0.1, 1.01, float("nan"), "0.9"):
        with refused("min_relevance is"):
            selector.select("q", k=1, min_relevance=value)
    CeilSelector.from_examples(ROWS, encoder=tiny, min_relevance=0.7).save_pretrained(tmp_path)
    assert CeilSelector.from_pretrained(tmp_path).min_relevance == 0.7


def test_fixed_examples_stand_first_in_every_prompt(tiny, tmp_path):
    vectors = np.array([[1, 0, 0], [0.96, 0.28, 0], [0.6, 0, 0.8], [0, 1, 0]])
    rows = [{"id": id, "input": f"text {id}", "output": "x"} for id in "abcd"]
    settings = {"vectors": vectors, "trade_off": 1e-6, "origin": 0.0}
    selector = CeilSelector.from_examples(rows, encoder=one_vector, fixed=["d", "a"], **settings)
    chosen = selector.select("q", k=3)
    assert ids(chosen) == ["d", "a", "b"]
    assert [pick.fixed for pick in chosen.picks] == [True, True, False]
    assert chosen.picks[0].relevance == pytest.approx(0.5)
    assert chosen.explain().splitlines()[2:] == [
        "    0.500  fixed  d: text d",
        "    1.000  fixed  a: text a",
        "    0.980   1.00  b: text b",
    ]
    # where fewer are wanted or fit, the first of the prompt are left out, near ones before them
    assert ids(selector.select("q", k=1)) == ["a"]
    assert ids(selector.select("q", k=2)) == ["d", "a"]
    selector.count_tokens = lambda texts: [len(text.split()) for text in texts]
    for budget, expected in ((12, ["d", "a", "c", "b"]), (9, ["d", "a", "b"]), (5, ["a"])):
        assert ids(selector.select("q", k=4, token_budget=budget)) == expected
    # filters and limits are for the others
    assert ids(selector.select("q", k=4, filter=lambda example: example.id == "c"))[:2] == [
        "d",
        "a",
    ]
    assert ids(selector.select("q", k=4, min_relevance=0.9)) == ["d", "a", "b"]
    # a query's own question is left out, and another takes its place
    own = selector.select("text a", k=3)
    assert (ids(own), own.excluded) == (["d", "c", "b"], 1)
    with refused("'a' is a fixed example, which is in every prompt"):
        selector.remove(["b", "a"])
    assert len(selector) == 4
    selector.fixed = ["d", "nowhere"]
    with refused("fixed: no example with id 'nowhere' in the bank"):
        selector.select("q", k=2)
    for value in (["a", "a"], "a", [True]):
        with refused("fixed is"):
            selector.fixed = value
    CeilSelector.from_examples(ROWS, encoder=tiny, fixed=["row-3"]).save_pretrained(tmp_path)
    loaded = CeilSelector.from_pretrained(tmp_path)
    assert loaded.fixed == ("row-3",)
    assert ids(loaded.select("a query", k=3))[0] == "row-3"


def test_an_encoder_whose_cosines_lie_high_chooses_as_one_whose_do_not():
    """A constant part of all vectors leaves every neighbour where it was; with the mean cosine of the
    bank as origin it leaves every choice where it was, too."""
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.normal(size=(40, 12)) + 0.4)
    rows = [{"id": f"{i}", "input": f"text {i}", "output": "x"} for i in range(39)]

    def chosen(share, **settings):
        def encode(texts):
            numbers = [int(text.split()[1]) for text in texts]
            constant = np.full((len(texts), 1), np.sqrt(share))
            return np.hstack([constant, np.sqrt(1 - share) * vectors[numbers]])

        selector = CeilSelector.from_examples(rows, encoder=encode, **settings)
        return ids(selector.select("text 39", k=6))

    for settings in ({}, {"trade_off": 0.1}, {"near_duplicate": 0.5}, {"min_relevance": 0.6}):
        assert chosen(0.0, **settings) == chosen(0.7, **settings), settings
    # cosines as they are make another choice
    as_they_are = {"trade_off": 0.1, "near_duplicate": 0.5, "origin": 0.0}
    assert chosen(0.0, **as_they_are) != chosen(0.7, **as_they_are)


def test_the_mean_cosine_of_a_bank_is_that_of_its_pairs():
    vectors = unit_rows(np.random.default_rng(1).normal(size=(7, 4)) + 1)
    rows = [{"id": f"{i}", "input": f"text {i}", "output": "x"} for i in range(7)]
    selector = CeilSelector.from_examples(rows, encoder=one_vector, vectors=np.asarray(vectors))
    selector.remove("3")
    live = np.delete(np.asarray(vectors), 3, axis=0)
    pairs = [float(a @ b) for i, a in enumerate(live) for b in live[:i]]
    assert selector.bank.snapshot.mean_cosine == pytest.approx(np.mean(pairs), abs=1e-6)
