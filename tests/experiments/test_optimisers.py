"""The comparison with what people use, on a task of films with the tiny LM."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import optimisers
import pytest
import torch
from films import film
from harness.results_file import RESULTS, Published, read_results
from lm_models import model, tokenizer
from peers import arena as arenas
from peers import dspy_programs, langchain_selectors
from peers.arena import Arena, Shared, Sizes
from peers.comparison import Comparison
from peers.counted import WRONG, CountedLM, GreedyReader
from peers.ours import eight_nearest, zero

from ceil_jax import Task, Template
from ceil_jax.lm.answers import Answer
from ceil_jax.lm.base import Continuations
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.lm.tokens import PairTokenizer
from ceil_jax.lm.torch.model import TorchLM
from ceil_jax.store.cost import Cost
from ceil_jax.tasks.words import Overlap

FILMS = [film("train", i) for i in range(200)]
TASK = Task("films", FILMS[:140], FILMS[140:], Template("{input} It is {output}"), "accuracy")
SIZES = Sizes(rows=12, shots=3, bank=140, tuning=24, final=20, validating=6, prompts=60)


@pytest.fixture
def arena(tmp_path, monkeypatch):
    monkeypatch.setattr(arenas, "load_task", lambda name, *_, **__: replace(TASK, name=name))
    return Arena("films", 0, SIZES, Shared("tiny", "tiny"), tmp_path, None)


def test_tokens_are_those_of_whole_prompts_and_answers():
    plain = TinyLM()
    lm = CountedLM(plain, TASK, FILMS)
    prompts = ["a b c", "a b c d"]
    scores, _ = lm.scores(Continuations([0, 0, 1], [prompts[0], *prompts], [" x", " y", " x"]))
    expected = plain.scores(Continuations([0, 0, 1], [prompts[0], *prompts], [" x", " y", " x"]))
    assert list(scores) == list(expected[0])
    assert lm.tokens_read == 3 + 4 + 3 * 1
    written = lm.write(prompts, 2, (), 0.0, [0, 0])
    read = sum(plain.count_tokens([*prompts, *(one.text for one in written)]))
    assert lm.tokens_read == 10 + read


def test_an_answer_that_was_not_written_counts_as_many_tokens_as_the_right_one(monkeypatch):
    queries = [replace(FILMS[0], output="one two three"), replace(FILMS[1], output="good")]
    plain = TinyLM()
    lm = CountedLM(plain, TASK, queries)
    lm._checks = True
    monkeypatch.setattr(lm, "_checked", lambda prompts, *_: [Answer(WRONG), Answer("good")])
    prompts = [TASK.template.query(query) for query in queries]
    assert [answer.text for answer in lm.write(prompts, 80, (), 0.0, [0, 0])] == [WRONG, "good"]
    assert lm.tokens_read == sum(plain.count_tokens([*prompts, "one two three", "good"]))


class Letters:
    """A tokenizer whose tokens are runs of letters, by number."""

    words = (")", "))", "a", "\n", "<end>")
    eos_token_id = 4

    def decode(self, ids):
        return "".join(self.words[i] for i in ids)


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        ([2, 0, 0, 3], True),
        ([2, 0, 0, 4], True),  # ends with the text
        ([2, 0, 2, 3], False),
        ([2, 1, 9, 9], None),  # two brackets in one token: the same text, perhaps
        ([0, 0, 0, 3], False),
    ],
)
def test_one_pass_shows_whether_an_answer_would_be_written(written, verdict):
    lm = TinyLM()
    lm.tokenizer = Letters()
    assert CountedLM(lm, TASK, FILMS)._verdict([2, 0, 0, 3], written) is verdict


@pytest.mark.parametrize(("device", "checks"), [("cpu", True), ("cuda", False), (None, False)])
def test_only_an_lm_that_reads_on_a_cpu_is_not_let_write(device, checks):
    lm = TinyLM()
    if device:
        lm.model = SimpleNamespace(device=torch.device(device))
    assert CountedLM(lm, replace(TASK, metric="exact_match"), FILMS)._checks is checks


@pytest.mark.parametrize("budget", [1000, 8])  # one pass, and several
def test_the_greedy_reader_returns_the_likeliest_tokens(budget):
    network = model("llama")
    lm = TorchLM(network, tokenizer(bos=True), name="random")
    rows = PairTokenizer(lm.tokenizer).pairs(
        ["A film; It is", "A film; It is", "so so film"], [" good", " bad film", " great"]
    )
    tokens, _ = GreedyReader(lm.model, budget).each(rows)
    for row, of_row in zip(rows, tokens, strict=True):
        with torch.no_grad():
            likeliest = network(torch.tensor([row.ids])).logits[0].argmax(-1)
        assert of_row.tolist() == likeliest[row.start - 1 : -1].tolist()


def test_no_row_has_two_uses_and_splits_judge_by_the_same_rows(arena, tmp_path):
    again = Arena("films", 1, SIZES, Shared("tiny", "tiny"), tmp_path, None)
    for one in (arena, again):
        ids = [{row.id for row in rows} for rows in (one.bank, one.preparing, one.judging)]
        assert len(set.union(*ids)) == sum(map(len, ids)) == 140 + 12
    assert [row.id for row in arena.judging] == [row.id for row in again.judging]
    assert arena.texts == again.texts
    assert {row.id for row in arena.preparing} != {row.id for row in again.preparing}


def test_a_prompt_is_the_task_s_whoever_chose_its_examples(arena):
    query = arena.judging[0]
    for method in (dspy_programs.labeled, dspy_programs.nearest, langchain_selectors.similarity):
        [prompt] = method(arena).prompts([query])
        *shown, last = prompt.split("\n")
        assert last == arena.task.template.query(query)
        assert len(shown) == 3
        assert {*shown} <= {arena.task.template.example(row) for row in arena.bank}
    # both take the nearest, and the nearest stands last in ours
    assert dspy_programs.nearest(arena).prompts([query]) == [prompt]
    near = langchain_selectors.mmr(arena).prompts([query])[0].split("\n")
    assert near[-2:] == prompt.split("\n")[-2:]
    assert zero(arena).prompts([query]) == [last]
    assert len(eight_nearest(arena).prompts([query])[0].split("\n")) == 9


def test_dspy_searches_labelled_examples_of_the_whole_bank_within_the_budget(arena):
    with arena.lm.metered() as meter:
        chosen = dspy_programs.random_search(arena)
    # what is asked together when the budget ends is read to its end
    assert 0 < meter.cost.tokens <= arena.budget * (1 + SIZES.validating / SIZES.prompts)
    [prompt] = chosen.prompts(arena.judging[:1])
    shown = prompt.split("\n")[:-1]
    assert len(shown) == chosen.examples <= 3
    assert {*shown} <= {arena.task.template.example(row) for row in arena.bank}


def test_an_answer_costs_nothing_once_the_budget_is_spent(arena):
    query = arena.judging[0]
    prompt = arena.prompt(query, [])
    with arena.asking(limit=1) as asker:
        assert asker(prompt, query) in query.choices
        assert asker.spent
        tokens = asker.tokens
        assert asker(arena.prompt(query, arena.bank[:2]), query) == ""
        assert asker.tokens == tokens


def test_a_run_is_recorded_once_and_printed(arena, tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    monkeypatch.setattr(optimisers, "Shared", lambda *_: Shared("tiny", "tiny"))
    sizes = [f"--{name}={value}" for name, value in vars(SIZES).items()]
    out = [f"--out={tmp_path / 'runs'}", f"--record={tmp_path / 'r.jsonl'}"]
    optimisers.main([*sizes, *out, "--tasks", "films"])
    records = read_results(tmp_path / "r.jsonl")
    rows = {one.row for one in records}
    assert {"ceil-jax tune", "zero examples", "DSPy KNNFewShot", "Optuna over our space"} <= rows
    assert all(len(one.statistics) == 12 for one in records)
    [tune] = [one for one in records if one.row == "ceil-jax tune"]
    assert 0 < tune.preparing.tokens <= 1.1 * arena.budget
    capsys.readouterr()
    optimisers.main([*sizes, *out, "--tasks", "films"])
    assert capsys.readouterr().out == ""
    optimisers.main([*out, "--table"])
    assert "| zero examples |" in capsys.readouterr().out


def record(row, task, scores, split=0, preparing=0, answering=0, method=""):
    values = np.array(scores, float)
    return Published(
        experiment="optimisers",
        row=row,
        column=task,
        name=f"run-{row}-{task}-{split}",
        task=task,
        method=method,
        metric="accuracy",
        lm="small-lm",
        config={"encoder": "an-encoder", "shots": 4},
        queries=len(values),
        bank=100,
        texts="texts-a",
        value=100 * values.mean(),
        cost=Cost(1.0, preparing + answering),
        answering=Cost(0.0, answering),
        seed=split,
        statistics=values[:, None],
        overlap=Overlap(np.arange(len(values)), *[np.zeros(len(values), bool)] * 2),
    )


def test_the_table_has_means_of_tasks_and_of_splits():
    records = [
        record("ceil-jax tune", "a", [1] * 8, 0, 500, 80, "K = 2"),
        record("ceil-jax tune", "a", [1] * 8, 1, 700, 80, "K = 4"),
        record("ceil-jax tune", "b", [1, 0] * 4, 0, 100, 40, "K = 2"),
        record("ceil-jax tune", "c", [1] * 8),
        record("ceil-jax tune, its best prompt", "a", [1] * 8),
        record("eight nearest", "a", [0] * 8, 0, 0, 160),
        record("eight nearest", "a", [0] * 8, 1, 0, 160),
        record("eight nearest", "b", [1, 0] * 4, 0, 0, 80),
    ]
    found = Comparison(records)
    assert found.tasks == ["a", "b"]  # nobody else answered c
    [ours, peer] = found.main().rows
    assert [ours[0], ours[1].value, ours[2:4]] == ["ceil-jax tune", 75, [350, 8]]
    assert [peer[0], peer[1].value, peer[2:4]] == ["eight nearest", 25, [0, 15]]
    assert str(ours[4]) == "0.001"  # 8 tokens a query
    assert str(peer[4]) == "0.002"
    assert peer[5].value == 50
    assert peer[6] == "0 / 0"  # differences that are all alike have no width, and prove nothing
    apart = [
        record("ceil-jax tune", "a", [1] * 11 + [0]),
        record("eight nearest", "a", [0] * 12),
    ]
    assert Comparison(apart).significant("ceil-jax tune", "eight nearest") == "1 / 0"
    assert "| a | K = 2; K = 4 |" in found.text()


def test_tune_s_own_table_has_its_gain_and_what_it_loses_with_hindsight():
    records = [
        record("ceil-jax tune", "a", [1, 1, 0, 0], 0, 500, 40),
        record("eight nearest", "a", [1, 0, 0, 0], 0, 0, 400),
        record("classifier alone", "a", [1, 1, 1, 0]),
        record("ceil-jax tune", "b", [1, 1, 1, 1], 0, 500, 80),
        record("eight nearest", "b", [1, 1, 0, 0], 0, 0, 800),
    ]
    first, second, mean = Comparison(records).trust().rows
    assert [first[0], first[1].value, first[2].value] == ["a", 50, 25]
    assert [first[3].value, first[4], *first[5:]] == [25, "classifier alone", 10, 100]
    assert [second[2].value, second[3].value, second[4], *second[5:]] == [50, 0, None, 20, 200]
    assert [mean[1].value, mean[2].value, mean[3].value, *mean[5:]] == [75, 37.5, 12.5, 15, 150]


def test_tasks_that_a_classifier_answers_stand_apart_and_no_task_is_left_out_for_its_row():
    records = [
        record("ceil-jax tune", "a", [1, 1, 0, 0]),
        record("classifier alone", "a", [1, 1, 0, 0]),
        record("eight nearest", "a", [0, 0, 0, 0]),
        record("ceil-jax tune", "b", [1, 1, 1, 0]),
        record("eight nearest", "b", [1, 1, 0, 0]),
        record("ceil-jax tune", "c", [1, 0, 0, 0]),
        record("nearest output, copied", "c", [1, 1, 0, 0]),
        record("eight nearest", "c", [1, 1, 0, 0]),
    ]
    table = Comparison(records).by_outputs()
    assert table.header == ["method", "tune − it on a", "tune − it on b, c"]
    [[method, on_labels, on_others]] = table.rows
    assert method == "eight nearest"
    assert [on_labels.value, on_others.value] == [50, 0]
    # tune answered with a prompt on each task, as the others do
    prompts = [record("ceil-jax tune, its best prompt", task, [1, 1, 0, 0]) for task in "abc"]
    table = Comparison([*records, *prompts]).by_outputs()
    assert table.header[3:] == ["ceil-jax tune, its best prompt − it"]
    assert table.rows[0][3].value == pytest.approx(50 / 3)


PRINTED = [("README.md", "short"), ("docs/results.md", "main"), ("docs/results.md", "trust")]


@pytest.mark.parametrize(("page", "table"), PRINTED)
def test_the_pages_tables_are_the_recorded_ones(page, table):
    text = (RESULTS.parents[1] / page).read_text("utf-8")
    records = [one for one in read_results(RESULTS) if one.experiment == "optimisers"]
    mark = "<!-- printed by: experiments/optimisers.py --table -->\n"
    assert mark + getattr(Comparison(records), table)().markdown() in text


def test_a_line_says_what_answering_took(tmp_path):
    from harness.results_file import keep, line_of

    keep(tmp_path / "r.jsonl", [record("peer", "a", [1, 0], 0, 30, 12)])
    [found] = read_results(tmp_path / "r.jsonl")
    assert (found.preparing.tokens, found.answering.tokens) == (30, 12)
    assert json.loads((tmp_path / "r.jsonl").read_text()) == line_of(found)
