"""The selector as an application uses it: choice, live bank, threads, folders, hub."""

import copy
import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words, ids, words

from ceil_jax import CeilSelector, build_retriever
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.errors import UserError
from ceil_jax.selector.bank import Bank
from ceil_jax.tasks.example import Example


def make(rows=ROWS, **settings):
    settings = {"trade_off": 0.05, "origin": 0.0, **settings}
    return CeilSelector.from_examples(rows, encoder=Words(), **settings)


def greedy_order(selection):
    """Gains fall, because log det is submodular."""
    return [pick.example.id for pick in sorted(selection.picks, key=lambda pick: -pick.gain)]


def test_the_same_set_as_the_retriever():
    selector = make(trade_off=0.1, shortlist=20)
    bank = selector.examples
    [expected] = build_retriever(
        "dpp", bank, encoder=Words(), trade_off=0.1, shortlist=20
    ).retrieve([Example("q", QUERY, "")], 6)
    chosen = selector.select(QUERY, k=6)
    assert greedy_order(chosen) == [pick.id for pick in expected]
    by_id = {pick.id: pick for pick in expected}
    for pick in chosen.picks:
        assert pick.relevance == pytest.approx(by_id[pick.example.id].relevance, abs=1e-5)
        assert pick.gain == pytest.approx(by_id[pick.example.id].gain, rel=1e-3, abs=1e-3)
    relevance = [pick.relevance for pick in chosen.picks]
    assert relevance == sorted(relevance)
    assert chosen.stopped == "k"
    assert chosen.tokens is None


def test_prompt_is_the_examples_and_the_query():
    rows = [{"text": "a warm film", "label": "good"}, {"text": "a dull film", "label": "bad"}]
    keys = {"input_key": "text", "output_key": "label", "template": "Q: {text}\nA: {label}"}
    chosen = CeilSelector.from_examples(rows, encoder=Words(), **keys).select("a warm tune", k=2)
    first, last = chosen.examples
    shown = "".join(f"Q: {example.input}\nA: {example.output}\n" for example in (first, last))
    assert chosen.prompt == f"{shown}Q: a warm tune\nA:"


def test_token_budget_keeps_a_prefix_of_the_greedy_order():
    # in the default template an example is its input (5 words) and its output (1)
    selector = make(count_tokens=words)
    order = greedy_order(selector.select(QUERY, k=8))
    for budget, kept in ((0, 0), (5, 0), (6, 1), (17, 2), (18, 3), (48, 8)):
        chosen = selector.select(QUERY, token_budget=budget, k=8)
        assert set(ids(chosen)) == set(order[:kept])
        assert chosen.tokens == 6 * kept
        assert chosen.stopped == ("k" if kept == 8 else "token_budget")
    alone = selector.select(QUERY, token_budget=10_000)
    assert alone.stopped == "exhausted"


def test_what_does_not_fit_is_passed_over():
    def by_place(texts):
        """4 tokens for what happens at noon, 10 for what happens at night."""
        return [4 * text.count("noon") + 10 * text.count("night") for text in texts]

    selector = make(count_tokens=by_place, trade_off=0.1)
    order = selector.select(QUERY, k=60)
    by_gain = sorted(order.picks, key=lambda pick: -pick.gain)
    first = next(i for i, pick in enumerate(by_gain) if "night" in pick.example.input)
    budget = (
        4 * first + 9
    )  # all at noon up to the first at night, which does not fit, and two after it
    chosen = selector.select(QUERY, token_budget=budget)
    assert (len(chosen.picks), chosen.tokens, chosen.stopped) == (
        first + 2,
        4 * first + 8,
        "token_budget",
    )
    assert all("noon" in example.input for example in chosen.examples)
    assert {pick.example.id for pick in by_gain[:first]} < set(ids(chosen))
    assert selector.select(QUERY, token_budget=budget, k=first + 1).stopped == "k"
    # nothing at night passes the filter, so that no example is refused
    noon = selector.select(QUERY, token_budget=10_000, filter={"output": "light"})
    assert noon.stopped == "exhausted"


def test_the_whole_text_keeps_the_budget_where_its_parts_would_not():
    def longer_together(texts):
        return [len(text.split()) + 2 * (text.count("\n\n") - 1) for text in texts]

    # parts: 6 each; the whole of m examples: 6 m + 2 (m − 1), so 18 holds 3 parts but only 2
    # together
    chosen = make(count_tokens=longer_together).select(QUERY, token_budget=18)
    assert (len(chosen.picks), chosen.tokens, chosen.stopped) == (2, 14, "token_budget")


def test_a_budget_needs_a_tokenizer_that_counts():
    with refused("token_budget needs the tokenizer"):
        make().select(QUERY, token_budget=100)
    for wrong in (
        len,
        str.split,
        lambda texts: [0.5 for _ in texts],
        lambda texts: [[1, 2] for _ in texts],
    ):
        with refused("count_tokens takes a list of texts"):
            make(count_tokens=wrong).select(QUERY, token_budget=100)


def test_filters():
    selector = make()

    def towns(**options):
        return {e.fields["town"] for e in selector.select(QUERY, k=60, **options).examples}

    assert towns() == {"town0", "town1", "town2", "town3"}
    assert towns(filter={"town": ["town1", "town2"], "year": 2000}) == {"town2"}
    assert towns(filter=lambda e: e.fields["town"] < "town2") == {"town0", "town1"}
    light = selector.select(QUERY, k=60, filter={"output": "light"})
    assert {e.output for e in light.examples} == {"light"}
    assert light.stopped == "exhausted"
    # each value exists, together they do not: an empty choice is the answer
    assert selector.select(QUERY, k=2, filter={"town": "town0", "year": 2001}).picks == ()
    assert selector.select(QUERY, k=2, filter=lambda e: False).picks == ()
    for wrong, said in (
        ({"town": "nowhere"}, "no example has 'town' = 'nowhere'; its values are 'town0', 'town1'"),
        ({"town": {"$gte": 2020}}, r"filter on 'town' is .*, which holds an operator; .*function"),
        ({"towm": "town1"}, "unknown field in filter 'towm'; did you mean 'town'"),
        ("town1", "filter is 'town1'; expected"),
    ):
        with refused(said):
            selector.select(QUERY, k=2, filter=wrong)
    assert make([]).select("a film", k=1, filter={"v": 1}).picks == ()


def test_filters_compare_numbers_and_truth_values_as_such():
    texts = ["2020", "2020.0", "2021", "true", "False", "12345678901234567890", "007", None]
    selector = make(
        [{"input": f"film {i}", "output": "x", "v": text} for i, text in enumerate(texts)]
    )
    for value, expected in (
        (2020, [0, 1]),
        (np.int64(2020), [0, 1]),
        ("2020", [0]),
        (True, [3]),
        (np.bool_(False), [4]),
        (12345678901234567890, [5]),
        (7, [6]),
        (None, [7]),
        ([2021, True, None], [2, 3, 7]),
    ):
        found = selector.select("a film", k=9, filter={"v": value})
        assert sorted(int(e.input[5:]) for e in found) == expected, value


def test_questions_are_told_apart_by_the_fields_that_a_prompt_shows():
    said = {"he is awake": "no", "he rests": "yes"}
    pairs = [{"input": "a man sleeps", "hypothesis": h, "output": o} for h, o in said.items()]
    plain = make(pairs)
    shown = make(pairs, template="{input}; {hypothesis}? {output}")
    query = {"input": "a man sleeps", "hypothesis": "he rests"}
    assert [e.output for e in shown.select(query, k=2)] == ["no"]
    assert len(plain.select(query, k=2)) == len(shown.select("a man sleeps", k=2)) == 0


def test_different_texts_of_one_vector_fill_the_places():
    """Emoji are such texts, or long mails that differ behind the part that an encoder reads."""
    rows = [{"id": f"{i}", "input": text, "output": "ab"[i % 2]} for i, text in enumerate("abcdef")]
    rows += [{"id": "6", "input": "a", "output": "b"}]
    same = lambda texts: np.ones((len(texts), 4))  # noqa: E731
    selector = CeilSelector.from_examples(rows, encoder=same, count_tokens=words)
    chosen = selector.select("q", k=4)
    assert (len({e.input for e in chosen}), chosen.stopped, chosen.repeats) == (4, "k", 3)
    assert "repeats=3" in repr(chosen)
    assert chosen.picks[0].added == 0
    # a text is no different example for having two answers
    every = selector.select("q", k=9)
    assert (len(every), every.stopped) == (6, "exhausted")
    balanced = selector.select("q", k=4, balance="label")
    assert Counter(e.output for e in balanced) == {"a": 2, "b": 2}
    assert len(selector.select("q", token_budget=6)) == 3


class Pair:
    """The bank's side of a pair of learned maps: the input's vector, moved by the output's."""

    name = "pair"
    fingerprint = "0123"
    dim = 32

    def encode(self, texts):
        raise AssertionError("the bank's side is given examples")

    def encode_bank(self, examples):
        inputs, outputs = ([getattr(e, name) for e in examples] for name in ("input", "output"))
        return 3 * (Words().encode(inputs) - Words().encode(outputs))


def test_an_encoder_may_be_given_whole_examples(tmp_path, tiny):
    selector = CeilSelector.from_examples(
        ROWS[:20], encoder=Pair(), query_encoder=Words(), origin=0.0
    )
    selector.add(ROWS[20:])
    expected = unit_rows(Pair().encode_bank(selector.examples))
    np.testing.assert_allclose(selector.bank.snapshot.vectors, expected, atol=1e-6)
    pick = selector.select(QUERY, k=1).picks[0]
    [query] = unit_rows(Words().encode([QUERY]))
    assert pick.relevance == pytest.approx((1 + (expected @ query).max()) / 2, abs=1e-5)

    # it is no part of the folder, but that of the queries is
    selector.query_encoder = tiny
    selector.save_pretrained(tmp_path)
    with refused("its encoder, 'pair', is not saved with it; give it"):
        CeilSelector.from_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path, encoder=Pair())
    assert isinstance(again.encoder, Pair)
    assert again.query_encoder.fingerprint == tiny.fingerprint
    again.add([{**ROWS[7], "id": "copy"}])
    [seven, copy] = again.bank.snapshot.vectors[[7, 60]]
    np.testing.assert_allclose(copy, seven, atol=1e-6)


def test_a_copy_shares_the_vectors_and_changes_apart():
    selector = make()
    other = copy.copy(selector)
    assert other.bank.snapshot.vectors is selector.bank.snapshot.vectors
    other.trade_off = 0.7
    other.add([{"input": "more", "output": "x"}])
    selector.remove("row-0")
    assert (len(other), len(selector), selector.trade_off) == (61, 59, 0.05)
    again = copy.copy(selector)
    assert again.select(QUERY, k=4) == selector.select(QUERY, k=4)
    assert again.add([{"input": "more", "output": "x"}]) == ["bank-0"]


def test_labels_are_balanced_even_where_all_the_nearest_have_one():
    # 'light' is said at noon, as in the query: the 20 nearest are nearly all light
    selector = make(shortlist=20)
    plain = Counter(e.output for e in selector.select(QUERY, k=6, trade_off=0.01).examples)
    assert plain["light"] > plain["dark"]
    for k in (1, 4, 6, 7):
        counts = Counter(e.output for e in selector.select(QUERY, k=k, balance="label").examples)
        assert abs(counts["light"] - counts["dark"]) == k % 2
    with refused("unknown balance 'lable'; did you mean 'label'"):
        selector.select(QUERY, k=2, balance="lable")
    texts = make([{"input": f"word{i}", "output": f"answer{i}"} for i in range(9)], shortlist=5)
    with refused("9 different values, more than the shortlist of 5"):
        texts.select("word1", k=2, balance="label")
    towns = [
        {"input": f"word{i}", "output": "x", "town": f"{i % 6}", "land": "ab"[i % 6 > 1]}
        for i in range(60)
    ]
    places = make(towns, shortlist=9, near_duplicate=None)
    found = places.select("word1", k=8, filter={"land": "a"}, balance="town")
    assert Counter(e.fields["town"] for e in found) == {"0": 4, "1": 4}


def test_any_field_can_be_balanced():
    selector = make(shortlist=20)

    def counts(**options):
        return Counter(e.fields.get("town") for e in selector.select(QUERY, **options).examples)

    assert max(counts(k=8).values()) > 2
    assert sorted(counts(k=4, balance="town").values()) == [1, 1, 1, 1]
    # examples without the field are one value more
    selector.add([{"input": f"{QUERY} {i}", "output": "light"} for i in range(5)])
    assert counts(k=5, balance="town") == dict.fromkeys(
        (None, "town0", "town1", "town2", "town3"), 1
    )
    selector.remove([row["id"] for row in ROWS])
    with refused("unknown balance 'town'"):
        selector.select(QUERY, k=2, balance="town")


def test_copies_neither_repeat_nor_crowd_out_the_others():
    near = f"{QUERY} ."
    copies = [{"input": near, "output": "light", "copy": i} for i in range(50)]
    selector = make([*copies, *ROWS], shortlist=10)
    chosen = selector.select(QUERY, k=8, trade_off=1e-4)
    texts = [(e.input, e.output) for e in chosen.examples]
    assert len(texts) == len(set(texts)) == 8
    assert texts.count((near, "light")) == 1
    # each copy can be reached by what sets it apart
    assert selector.select(QUERY, k=1, filter={"copy": 33}).examples[0].fields["copy"] == "33"


def test_an_example_of_the_bank_is_not_chosen_for_itself(caplog):
    selector = make()
    example = selector.examples[2]
    copies = [e.id for e in selector.examples if e.input == example.input]
    assert len(copies) == 2
    # by its words, however it is asked; the id of another file says nothing
    for query in (example, example.input, f"  {example.input.replace(' ', chr(10))} "):
        chosen = selector.select(query, k=60)
        assert not {*copies} & {*ids(chosen)}
        assert chosen.excluded == 2
    assert example.id in ids(selector.select({"id": example.id, "input": QUERY}, k=60))
    assert example.id in ids(selector.select(example.input, k=60, own_answer=True))
    assert example.id in ids(make(own_answer=True).select(example, k=1))
    [line] = [r.getMessage() for r in caplog.records]
    assert line.startswith("1 of 1 queries are in the bank; their own examples are left out")


def test_many_are_the_loop():
    selector = make(count_tokens=words)
    queries = [row["input"] for row in ROWS[:5]]
    alone = [ids(selector.select(query, k=4)) for query in queries]
    assert [ids(chosen) for chosen in selector.select_many(queries, k=4)] == alone
    assert selector.select_many([], k=3) == []


def test_adding_and_removing():
    selector = make(ROWS[:10], own_answer=True)
    rows = [{"input": QUERY, "output": "light"}, Example("mine", "a garden", "dark")]
    assert selector.add(rows) == ["bank-0", "mine"]
    assert len(selector) == 12
    assert ids(selector.select(QUERY, k=1)) == ["bank-0"]
    selector.remove("bank-0")
    assert ids(selector.select(QUERY, k=1)) != ["bank-0"]
    assert selector.add([{"input": QUERY, "output": "light"}]) == ["bank-1"]
    with refused("id 'mine' is in the bank already"):
        selector.add([{"input": "new", "output": "dark"}, Example("mine", "x", "y")])
    with refused("id 'twice' is in the bank already"):
        selector.add([Example("twice", "x", "y")] * 2)
    with refused("no example with id 'ghost' in the bank; nothing was removed"):
        selector.remove(["mine", "ghost"])
    assert len(selector) == 12
    # beyond half of the rows: what is left moves together
    selector.remove([row["id"] for row in ROWS[:10]])
    assert [example.id for example in selector.examples] == ["mine", "bank-1"]
    assert set(ids(selector.select(QUERY, k=5))) == {"mine", "bank-1"}


def test_an_encoder_may_see_the_outputs_of_the_bank(tiny, tmp_path):
    selector = make(context="example", trade_off=0.1)
    texts = [f"{row['input']} {row['output']}" for row in ROWS]
    vectors = unit_rows(Words().encode(texts))
    np.testing.assert_allclose(selector.bank.snapshot.vectors, vectors, atol=1e-6)
    # what is added later is seen the same way, and a query is an input still
    [id] = selector.add([{"input": "river", "output": "neither"}])
    pick = selector.select("river", k=1, filter={"output": "neither"}, own_answer=True).picks[0]
    query, example = unit_rows(Words().encode(["river", "river neither"]))
    assert (pick.example.id, pick.relevance) == (
        id,
        pytest.approx((1 + query @ example) / 2, abs=1e-5),
    )
    given = make(context="example", trade_off=0.1, vectors=Words().encode(texts))
    assert ids(given.select(QUERY, k=5)) == ids(
        make(context="example", trade_off=0.1).select(QUERY, k=5)
    )

    CeilSelector.from_examples(ROWS, encoder=tiny, context="example").save_pretrained(tmp_path)
    again = CeilSelector.from_pretrained(tmp_path)
    again.add([{**ROWS[7], "id": "copy"}])
    [seven, copy] = again.bank.snapshot.vectors[[7, 60]]
    np.testing.assert_allclose(copy, seven, atol=1e-6)
    with refused(r"context is 'output'; expected 'input' or 'example'"):
        make(context="output")


def test_other_examples_by_the_same_settings():
    settings = {"context": "example", "trade_off": 0.3, "shortlist": 7, "count_tokens": words}
    selector = make(**settings, template="{town} {output}")
    other = CeilSelector.over(ROWS[:10], selector)
    assert {name: getattr(other, name) for name in settings} == settings
    assert other.encoder is selector.encoder
    assert len(other) == 10
    np.testing.assert_allclose(
        other.bank.snapshot.vectors, selector.bank.snapshot.vectors[:10], atol=1e-6
    )
    assert other.template.pattern == "{input}\n{output}"


def test_a_bank_may_begin_and_end_empty():
    selector = make([], own_answer=True)
    assert selector.select(QUERY, k=3).stopped == "exhausted"
    [id] = selector.add([{"input": QUERY, "output": "light"}])
    assert ids(selector.select(QUERY, k=3)) == [id]
    selector.remove(id)
    assert selector.select(QUERY, k=3, balance="label").picks == ()


def test_an_add_copies_little():
    base = np.eye(64, dtype=np.float32)
    bank = Bank([Example(f"{i}", "x", "y") for i in range(64)], base)
    bank.add([Example("new", "x", "y")], base[:1])
    room = bank.snapshot.vectors.base
    for i in range(1, 20):
        bank.add([Example(f"new{i}", "x", "y")], base[i : i + 1])
    assert bank.snapshot.vectors.base is room
    np.testing.assert_array_equal(bank.snapshot.vectors, np.concatenate([base, base[:20]]))


def test_a_snapshot_never_changes():
    selector = make(ROWS[:20])
    before = selector.bank.snapshot
    vectors = before.live_vectors.copy()
    selector.add(ROWS[20:])
    selector.remove([row["id"] for row in ROWS[:19]])
    assert [example.id for example in before] == [row["id"] for row in ROWS[:20]]
    np.testing.assert_array_equal(before.live_vectors, vectors)


def test_threads_that_select_add_and_remove():
    selector = make(ROWS[:30])
    fixed = {row["id"] for row in ROWS[:30]}
    vectors = unit_rows(Words().encode(["the market at night"] * 10))
    failures = []
    done = threading.Event()

    def write(name):
        for turn in range(30):
            rows = [
                Example(f"{name}-{turn}-{i}", f"the market at night {i}", "dark") for i in range(10)
            ]
            selector.bank.add(rows, vectors)
            selector.remove([row.id for row in rows])

    def read():
        while not done.is_set():
            chosen = ids(selector.select(QUERY, k=10))
            if len(set(chosen)) != 10 or not any(id in fixed for id in chosen):
                failures.append(chosen)

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert {example.id for example in selector.examples} == fixed


BAD_NUMBERS = (0, np.nan, np.inf)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "select needs k=… "),
        *(({"k": k}, "k is .*; expected a whole number at least 0") for k in (-1, 2.5, "8", True)),
        *(
            ({"token_budget": n}, "token_budget is .*; expected a whole number at least 0")
            for n in (-5, 2.5)
        ),
        *(
            ({"k": 1, "trade_off": x}, "trade_off is .*; expected a number above 0")
            for x in BAD_NUMBERS
        ),
    ],
)
def test_wrong_options(options, said):
    with refused(said):
        make(count_tokens=words).select(QUERY, **options)


def test_wrong_queries_settings_and_vectors():
    selector = make()
    with refused("trade_off is -1; expected a number above 0"):
        selector.trade_off = -1
    for one in (QUERY, {"input": QUERY}, Example("1", QUERY, "")):
        with refused("expected a list of queries, found one"):
            selector.select_many(one, k=1)
    with refused("query 1, field 'input'"):
        selector.select("  ", k=1)
    for rows, vectors, said in (
        (ROWS, np.ones((59, 32)), r"vectors of shape \(59, 32\) for 60 texts; expected \(60, D\)"),
        (
            ROWS[:2],
            [[1, 2], [1]],
            r"gave a list, which is not an array of numbers .*; expected \(2, D\)",
        ),
        (ROWS[:1], [[np.nan]], "encoder words gives vectors that are not finite for 1 of 1 texts"),
    ):
        with refused(said):
            make(rows, vectors=vectors)
    wide = SimpleNamespace(encode=lambda texts: np.ones((len(texts), 33), np.float32))
    with refused(r"expected \(1, 32\): the bank was embedded by an encoder of that size"):
        CeilSelector.from_examples(ROWS, encoder=Words(), query_encoder=wide).select(QUERY, k=1)


def test_budgets_and_numbers_beyond_what_numpy_holds():
    selector = make(count_tokens=words)
    everything = selector.select(QUERY, k=60)
    assert ids(selector.select(QUERY, k=10**30, token_budget=10**30)) == ids(everything)
    huge = make(count_tokens=lambda texts: np.full(len(texts), 2**63, np.uint64))
    assert huge.select(QUERY, token_budget=10**30).tokens == 2**63
    assert huge.select(QUERY, token_budget=2**63 - 1).picks == ()


def test_what_other_people_give_a_selector(tmp_path):
    frame = pd.DataFrame(
        {
            "id": range(6),
            "text": [f"film {i}" for i in range(6)],
            "label": [*"ababab"],
            "lang": "en ",
        }
    )
    keys = {"encoder": Words(), "input_key": "text", "output_key": "label"}
    selector = CeilSelector.from_dataframe(frame, **keys)
    assert [one.query.input for one in selector.select_many(frame, k=1)] == list(frame["text"])
    with refused(r"balance is \['lang'\]; expected the name of a field, or None"):
        selector.select("a film", k=2, balance=["lang"])
    for name, wrong in (
        ("template", None),
        ("card", {"title": "x"}),
        ("own_answer", "no"),
        ("shortlist", True),
    ):
        with refused(f"{name} is .*; expected"):
            make(**{name: wrong})
    with refused(r"input_key is \['text'\]; expected the name of a field"):
        CeilSelector.from_dataframe(frame, **{**keys, "input_key": ["text"]})
    with refused("count_tokens takes a list of texts"):
        CeilSelector.from_dataframe(
            frame, count_tokens=lambda texts: [[1] * len(t) for t in texts], **keys
        ).select("a film of length", token_budget=9)
    assert len(selector.select("a film", k=6, filter={"lang": "en"})) == 6
    selector.remove(0)
    selector.remove([1])
    selector.remove(selector.examples[:1])
    assert [example.id for example in selector.examples] == ["3", "4", "5"]
    with refused("no column 'titel'"):
        CeilSelector.from_dataframe(frame, template="{titel}: {text} {label}", **keys)
    with refused("row 2, field 'label': expected one of the choices a, c, found 'b'"):
        CeilSelector.from_dataframe(frame.assign(choices=[["a", "c"]] * 6), **keys)
    (tmp_path / "README.md").write_text("mine")
    selector = CeilSelector.from_dataframe(frame, **{**keys, "encoder": "tiny"})
    with refused("exists and is not a selector"):
        selector.save_pretrained(tmp_path)
    selector.save_pretrained(tmp_path / "selector")
    [content] = (tmp_path / "selector").glob("content-*")
    (content / ".DS_Store").write_text("")
    assert len(CeilSelector.from_pretrained(tmp_path / "selector")) == 6
    [chosen] = CeilSelector.from_examples(
        [ROWS[0]], encoder=lambda texts: Tensor([[1, 2]] * len(texts))
    ).select("a", k=1)
    assert chosen.input == ROWS[0]["input"]


class Tensor(list):
    detach = float = cpu = lambda self: self
    numpy = lambda self: np.array(self, np.float32)  # noqa: E731


@pytest.mark.parametrize(
    "call",
    [
        lambda: CeilSelector.from_examples(ROWS[:3], encoder=Words(), trade_of=0.1),
        lambda: make().select(QUERY, kk=3),
        lambda: CeilSelector(Bank([], np.zeros((0, 0), np.float32)), Words(), shortlst=3),
    ],
    ids=["from_examples", "select", "CeilSelector"],
)
def test_a_misspelt_setting_is_refused_in_one_line(call):
    with pytest.raises(UserError, match=r"unknown option .*; did you mean"):
        call()


def test_the_nearest_of_a_vector_store_are_chosen_from_as_in_a_bank_of_ones_own():
    settings = {"trade_off": 0.1, "shortlist": 20, "count_tokens": words}
    own = CeilSelector.from_examples(ROWS, encoder=Words(), **settings)
    stored = unit_rows(Words().encode([row["input"] for row in ROWS]))
    [vector] = Words().encode([QUERY])
    nearest = np.argsort(-stored @ vector, kind="stable")[:30]
    near = CeilSelector.from_examples(
        [ROWS[i] for i in nearest], vectors=stored[nearest], encoder=lambda _: [vector], **settings
    )
    for options in ({"k": 5}, {"token_budget": 20}, {"k": 4, "near_duplicate": None}):
        assert ids(near.select(QUERY, **options)) == ids(own.select(QUERY, **options))


def test_rows_that_are_in_the_bank_already_are_left_out_and_counted(caplog):
    """An application adds the whole file again, with and without ids."""
    plain = [{name: value for name, value in row.items() if name != "id"} for row in ROWS]
    for rows in (ROWS, plain):
        selector = make(rows)
        before = [example.id for example in selector.examples]
        new = {"input": "a new one", "output": "dark"}
        added = selector.add([*rows, new])
        assert added[:-1] == before
        assert [example.id for example in selector.examples] == [*before, added[-1]]
        assert "60 of 61 examples are in the bank already and were left out" in caplog.text
        caplog.clear()
        assert selector.add([new]) == added[-1:]
    # other metadata, another output or another id make another row
    for other in ({"town": "elsewhere"}, {"output": "x"}):
        assert selector.add([{**plain[0], **other}]) != [before[0]]
    assert selector.add([{**plain[0], "id": "copy"}]) == ["copy"]


def test_adding_checks_before_it_encodes(monkeypatch):
    selector = make()
    monkeypatch.setattr(selector._bank_side.bank, "encode", None)
    for row, said in [
        ({**ROWS[0], "input": "other"}, "id 'row-0' is in the bank already"),
        ({"input": "x", "output": ""}, "'output'"),
    ]:
        with refused(said):
            selector.add([{"input": "new", "output": "dark"}, row])
    assert len(selector.add(ROWS)) == 60
