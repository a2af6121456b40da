"""Which stages the rows of a task need, and the numbers that come of them, with the test LM and the
test encoder."""

from dataclasses import replace

import pytest
from films import SMALL, TASK, film, films

from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.pipeline.encoders import AskedByBank
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import open_run
from ceil_jax.pipeline.methods import applicable, label_of
from ceil_jax.pipeline.records import settings_of
from ceil_jax.pipeline.scoring import Scores, TradeOff
from ceil_jax.pipeline.stage import closure
from ceil_jax.tasks.example import Example, Task, Template

FEW = replace(TASK, validation=TASK.validation[:6])


def read_by(monkeypatch):
    """Prompts that the LM reads."""
    asked, score = [], TinyLM.choice_log_likelihood

    def scored(self, prompts, choices, **how):
        asked.extend(prompts)
        return score(self, prompts, choices, **how)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", scored)
    return asked


def of(kind, graph, name):
    return [one for one in closure([graph.metric(name)]) if isinstance(one, kind)]


def test_seeds_and_losses_share_the_lms_work(tmp_path, monkeypatch, moved_for_trained):
    config = replace(SMALL, out=tmp_path)
    changed = (
        replace(config, seed=1),
        replace(config, token_budget=35),
        replace(config, ceil=replace(SMALL.ceil, loss="info_nce")),
    )
    run, graph = open_run(config, FEW)
    run.get(graph.encoders("ceil"))
    asked = read_by(monkeypatch)
    others = [open_run(one, FEW) for one in changed]
    for other, graphs in others:
        other.get(graphs.encoders("ceil"))
    assert asked == []
    seed, budget, loss = (graphs.encoders("ceil").key for _, graphs in others)
    assert graph.encoders("ceil").key == budget and len({budget, seed, loss}) == 3


def test_ceil_is_held_out_what_epr_did_not_learn_from():
    _, graph = open_run(replace(SMALL, ceil=replace(SMALL.ceil, instances=12)), TASK)
    learnt, held_out = graph.learns("ceil")
    assert sorted([*learnt, *held_out]) == sorted(graph._order[:12])
    assert len(held_out) and not set(held_out) & set(graph.learns("epr")[0])


def test_queries_of_the_bank_do_not_ask_a_free_start_for_what_their_outputs_taught_it(tmp_path):
    epr = replace(SMALL.epr, initial="free")
    run, graph = open_run(replace(SMALL, out=tmp_path, epr=epr), TASK)
    for name in ("free", "epr", "ceil"):
        asked = graph.asked_by_bank(name)
        assert isinstance(asked, AskedByBank) and asked.encoders == graph.encoders(name)
        assert graph.nearest(name, graph.training_queries(4), 3).encoders == asked
    assert graph.encoders("ceil").asked == graph.asked_by_bank("epr")
    _, plain = open_run(SMALL, TASK)
    assert (
        plain.asked_by_bank("ceil") == plain.encoders("ceil")
        and plain.encoders("epr").asked is None
    )
    # and what answers the task's own queries is the method with all that it has learnt
    assert run.get(graph.asked_by_bank("head")).query.cross_fitted is not None
    assert run.get(graph.encoders("head")).query.cross_fitted is None


def test_free_methods_learn_and_are_asked_from_the_same_texts(tmp_path):
    config = replace(SMALL, out=tmp_path, context="example")
    run, shown = open_run(config, FEW)
    assert (
        shown.bank_texts("epr")
        != shown.bank_texts("free")
        == open_run(SMALL, FEW).graph.bank_texts("free")
    )
    # a classifier that had learnt from texts with their answers in them would look for these in
    # queries
    plain = open_run(replace(config, context="input"), FEW).graph
    assert evaluate(run, shown, "classifier").rows() == evaluate(run, plain, "classifier").rows()


def test_where_outputs_are_neither_labels_nor_programs_free_is_the_untrained_encoder(tmp_path):
    train = [replace(one, choices=(), output=f"Something {one.input}") for one in TASK.train]
    config = replace(SMALL, out=tmp_path, epr=replace(SMALL.epr, initial="free"))
    run, graph = open_run(config, replace(FEW, train=train))
    assert run.get(graph.encoders("free")).query is run.get(graph.encoders("base")).query
    assert run.summary(graph.encoders("free"))["taken"] == "cosine"
    assert len(run.get(graph.nearest("free", graph.training_queries(4), 3))) == 4


def test_labels_are_seen_whatever_the_metric(tmp_path):
    plain = [replace(row, choices=()) for row in TASK.train]
    task = replace(FEW, train=plain, metric="exact_match")
    run, graph = open_run(replace(SMALL, out=tmp_path), task)
    run.get(graph.encoders("free"))
    assert run.summary(graph.encoders("free"))["head"] > 0.5  # tried, and compared with cosines
    assert evaluate(run, graph, "classifier").value > 50
    kept, left_out = applicable(task, ("classifier", "structures", "topk"))
    assert kept == ("classifier", "topk")
    assert (
        left_out == "Left out: structures: the outputs of films are no programs that can be parsed."
    )


def test_a_row_says_which_free_method_its_training_began_with():
    from_free = settings_of(replace(SMALL, epr=replace(SMALL.epr, initial="free")))
    names = ("epr", "ceil", "free", "topk", "a plugin's")
    assert [label_of(name, from_free) for name in names] == [
        *("EPR from free", "CEIL from free", "free", "dense top-k", "a plugin's")
    ]
    assert [label_of(name, settings_of(SMALL)) for name in ("epr", "ceil")] == ["EPR", "CEIL"]


def test_encoders_that_another_task_trained(tmp_path, moved_for_trained):
    config, other = replace(SMALL, out=tmp_path), replace(films(40, 6), name="others")
    trained = open_run(config, FEW).graph
    run, graph = open_run(config, other, trained_by=trained)
    assert graph.encoders("ceil").key == trained.encoders("ceil").key
    assert evaluate(run, graph, "ceil").queries == 6


def long_and_short(split, i):
    plain = film(split, i)
    return replace(plain, input=plain.input + " of a film" * (i % 5))


UNEVEN = replace(
    TASK,
    name="movie_reviews",  # a task whose bank keeps the rows that are asked below
    train=[long_and_short("train", i) for i in range(60)],
    validation=[long_and_short("validation", i) for i in range(60, 64)],
)


@pytest.mark.parametrize("fit", ["greedy", "similarity"])
@pytest.mark.parametrize("cut", ["budget", "context"])
def test_a_trade_off_is_tuned_on_the_prompts_that_are_answered(tmp_path, monkeypatch, cut, fit):
    """Whether --token-budget cuts them or only what the LM reads."""
    if cut == "context":
        monkeypatch.setattr("ceil_jax.lm.registry.TinyLM", lambda: TinyLM(context_length=64))
    budget = {"token_budget": 60} if cut == "budget" else {}
    config = replace(
        SMALL, out=tmp_path, shots=8, shortlist=59, trade_off="tuned", fit=fit, **budget
    )
    run, graph = open_run(config, UNEVEN)
    scores = graph.trade_off("tuned", "base").scores
    asked = scores.queries.examples[:8]
    tuned = scores._prompts(run, scores.queries.examples, run.get(scores.sets))
    each = len(tuned) // len(scores.queries)
    for number, trade_off in [(1, 0.005), (4, 0.1)]:
        _, answers = open_run(
            replace(config, trade_off=trade_off), replace(UNEVEN, validation=list(asked))
        )
        stage = answers.metric("dpp").predictions
        prompts = stage.prompts(run, asked, run.get(stage.chosen))
        assert [prompt.text for prompt in prompts] == tuned[number : 8 * each : each]
        assert all(0 < len(prompt.order) < 8 for prompt in prompts)


def test_all_choices_are_read_only_for_the_trade_off(tmp_path, monkeypatch, moved_for_trained):
    config = replace(
        SMALL, out=tmp_path, ceil=replace(SMALL.ceil, trade_off="tuned"), trade_off="tuned"
    )
    run, graph = open_run(config, FEW)
    read, score = [], TinyLM.choice_log_likelihood

    def scored(self, prompts, choices, **how):
        read.extend(map(tuple, choices))
        return score(self, prompts, choices, **how)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", scored)
    for scores in of(Scores, graph, "ceil"):
        read.clear()
        run.get(scores)
        tunes = scores.label.startswith("λ")
        assert read and {len(own) for own in read} == {len(TASK.train[0].choices) if tunes else 1}


@pytest.mark.parametrize("names", [("epr_map", "ceil"), ("ceil", "epr_map")])
def test_a_row_is_charged_what_it_needs_whatever_ran_before(tmp_path, moved_for_trained, names):
    config = replace(
        SMALL, out=tmp_path, trade_off="tuned", ceil=replace(SMALL.ceil, trade_off=0.05)
    )
    run, graph = open_run(config, FEW)
    found = {name: evaluate(run, graph, name) for name in names}
    assert of(TradeOff, graph, "ceil") == [] and len(of(TradeOff, graph, "epr_map")) == 1
    for name, record in found.items():
        scoring = sum(run.own_cost(one).tokens for one in of(Scores, graph, name))
        assert record.preparing.tokens == scoring > 0
    assert found["ceil"].trade_off == 0.05


def test_ceil_has_one_trade_off(tmp_path):
    tuned = replace(
        SMALL, out=tmp_path, trade_off="tuned", ceil=replace(SMALL.ceil, trade_off="tuned")
    )
    _, graph = open_run(tuned, TASK)
    ceil, epr, base = (graph.chosen(name).trade_off for name in ("ceil", "epr_map", "dpp"))
    assert ceil.key == graph.encoders("ceil").trade_off.key == epr.key != base.key
    assert graph.chosen("epr").trade_off is None
    fixed = replace(tuned, ceil=replace(SMALL.ceil, trade_off=0.02))
    assert open_run(fixed, TASK).graph.chosen("ceil").trade_off == 0.02


def test_without_examples_every_method_is_zero_shot(tmp_path):
    run, graph = open_run(
        replace(SMALL, out=tmp_path, shots=0, trade_off="tuned", text="skill"), FEW
    )
    assert len({graph.metric(name).key for name in ("zero", "topk", "ceil", "random")}) == 1
    assert all(not row["examples"] for row in evaluate(run, graph, "ceil").rows())


def test_prompts_end_with_the_most_relevant_and_a_task_may_compare_per_token(tmp_path):
    run, graph = open_run(replace(SMALL, out=tmp_path), FEW)
    for name in ("topk", "dpp", "bm25", "mmr"):
        for row in evaluate(run, graph, name).rows():
            relevance = [example[1] for example in row["examples"]]
            assert len(relevance) == 3 and relevance == sorted(relevance)
    # the long choice stands in every prompt, so that each of its words is likely; the product of
    # all is not
    choices = ("bad", " ".join(f"w{i}" for i in range(60)))
    rows = [
        [replace(x, output=choices[1], choices=choices) for x in y]
        for y in (TASK.train, FEW.validation)
    ]
    for per_token in (False, True):
        task = replace(FEW, train=rows[0], validation=rows[1], per_token=per_token)
        assert (
            evaluate(*open_run(replace(SMALL, out=tmp_path), task), "random").value
            == 100 * per_token
        )


def test_the_most_common_output_answers_without_an_lm(tmp_path, monkeypatch):
    task = replace(
        FEW, train=[replace(x, output="bad") for x in TASK.train[:25]] + TASK.train[25:50]
    )
    asked = read_by(monkeypatch)
    found = evaluate(*open_run(replace(SMALL, out=tmp_path), task), "majority")
    assert {row["prediction"] for row in found.rows()} == {"bad"} and asked == []


def test_a_query_that_stands_in_the_bank_is_never_its_own_example():
    texts = enumerate(["red apple", "blue  sky", "green grass"], 1)
    bank = [Example(str(number), text, "x") for number, text in texts]
    query = Example("1", "blue sky", "x")
    task = Task("fruit", bank, [query], Template("{input} {output}"), "exact_match")
    _, graph = open_run(replace(SMALL, shots=1), task)
    assert [one.id for one in graph.bank.examples] == ["1", "3"]
    # the bank's row 1 is another question, which the query may get
    assert [one.id for one in graph.queries.examples] == ["query-1"]


def test_what_cannot_be_is_said_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match=r"--ceil\.size 13: subsets are drawn from 12 examples"):
        open_run(replace(SMALL, ceil=replace(SMALL.ceil, size=13)), TASK).graph.metric("ceil")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--out .*file is a file; name a folder"):
        open_run(replace(SMALL, out=tmp_path / "file"), TASK)
    with pytest.raises(UserError, match="unknown method 'ciel'; did you mean 'ceil'"):
        open_run(SMALL, TASK).graph.metric("ciel")
    with pytest.raises(UserError, match=r"--epr\.initial epr: a training cannot start from itself"):
        open_run(replace(SMALL, epr=replace(SMALL.epr, initial="epr")), TASK).graph.encoders("epr")
    both = replace(SMALL, epr=replace(SMALL.epr, train_context="both"))
    with pytest.raises(UserError, match=r"--ceil\.train-context frozen has one encoder"):
        open_run(both, TASK).graph.encoders("ceil")
    released = replace(both, ceil=replace(both.ceil, train_context="released"))
    assert open_run(released, TASK).graph.encoders("ceil").training.name == "ceil"
