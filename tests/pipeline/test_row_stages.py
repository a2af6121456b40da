"""The stages that the rows of a task need, and their numbers with the test LM and the test encoder."""

from dataclasses import dataclass, replace

import pytest
from films import (
    SMALL,
    TASK,
    choice_of_row,
    evaluated,
    film,
    films,
    learnt_of,
    metric_of,
    networks_of,
)

from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.base import Method
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.free import Free, Labels
from ceil_jax.methods.registry import applicable
from ceil_jax.methods.tst import TST
from ceil_jax.methods.untrained import Untrained
from ceil_jax.pipeline.answering import prompts_of
from ceil_jax.pipeline.heads import blocks_of_bank_queries, cross_fit, head_blocks, query_blocks
from ceil_jax.pipeline.scoring import lm_scores, requests, tuned
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.store.kept import closure
from ceil_jax.tasks.example import Example, Task, Template

FEW = replace(TASK, validation=TASK.validation[:6])


def read_by(monkeypatch):
    """Prompts that the LM reads."""
    asked = []
    score = TinyLM.choice_log_likelihood

    def scored(self, prompts, choices, **how):
        asked.extend(prompts)
        return score(self, prompts, choices, **how)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", scored)
    return asked


def of(function, setup, name):
    return [one for one in closure([metric_of(setup, name)]) if one.is_of(function)]


def test_seeds_and_losses_share_the_lms_work(tmp_path, monkeypatch, moved_for_trained):
    config = replace(SMALL, out=tmp_path)
    changed = (
        replace(config, seed=1),
        replace(config, token_budget=35),
        config.with_method(CEIL, loss="info_nce"),
    )
    run, setup = open_run(config, FEW)
    run.get(networks_of(setup, CEIL))
    asked = read_by(monkeypatch)
    others = [open_run(one, FEW) for one in changed]
    for other, setups in others:
        other.get(networks_of(setups, CEIL))
    assert asked == []
    seed, budget, loss = (networks_of(setups, CEIL).key for _, setups in others)
    assert networks_of(setup, CEIL).key == budget
    assert len({budget, seed, loss}) == 3


def test_ceil_is_held_out_what_epr_did_not_learn_from():
    _, setup = open_run(SMALL.with_method(CEIL, instances=12), TASK)
    of_ceil, of_epr = (set(learnt_of(setup, kind).queries) for kind in (CEIL, EPR))
    queries = set(StepsOf(setup).training_queries(12).positions)
    assert of_ceil < queries
    assert not (queries - of_ceil) & of_epr


def test_queries_of_the_bank_do_not_ask_a_free_start_for_what_their_outputs_taught_it(tmp_path):
    config = replace(SMALL, out=tmp_path).with_method(EPR, start=Free())
    run, setup = open_run(config, TASK)
    steps = StepsOf(setup)
    of_bank = steps.training_queries(4)
    for kind in (Free, EPR, CEIL):
        learnt = learnt_of(setup, kind)
        blocks = steps.query_vectors(learnt, of_bank).blocks
        assert blocks.is_of(blocks_of_bank_queries)
        near = steps.nearest(learnt, of_bank, 3)
        assert near.query_vectors.blocks.is_of(blocks_of_bank_queries)
        # and what answers the task's own queries is the head with all that it has learnt
        blocks = steps.query_vectors(learnt, setup.queries).blocks
        assert blocks.is_of(head_blocks)
    assert cross_fit in functions(networks_of(setup, CEIL).fixed)
    plain = open_run(SMALL, TASK).setup
    assert cross_fit not in functions(networks_of(plain, CEIL))
    assert networks_of(plain, EPR).fixed is None
    head = steps.learnt(Labels()).head
    seen = run.get(query_blocks(head, steps.texts(setup.bank), setup.bank))
    unseen = run.get(query_blocks(head, steps.texts(of_bank), of_bank))
    assert (seen[of_bank.positions] != unseen).any()


def functions(stage):
    return [need.function for need in closure([stage])]


def test_free_methods_learn_and_are_asked_from_the_same_texts(tmp_path):
    config = replace(SMALL, out=tmp_path, context="example")
    run, shown = open_run(config, FEW)
    plain = open_run(replace(config, context="input"), FEW).setup
    of_epr, of_free, without = (
        StepsOf(setup).bank_texts(learnt_of(setup, kind))
        for setup, kind in ((shown, EPR), (shown, Free), (plain, Free))
    )
    assert of_epr != of_free == without
    # a classifier that had learnt from texts with their answers in them would look for these in
    # queries
    assert evaluated(run, shown, "classifier").rows() == evaluated(run, plain, "classifier").rows()


def test_where_outputs_are_neither_labels_nor_programs_free_is_the_untrained_encoder(tmp_path):
    train = [replace(one, choices=(), output=f"Something {one.input}") for one in TASK.train]
    config = replace(SMALL, out=tmp_path).with_method(EPR, start=Free())
    run, setup = open_run(config, replace(FEW, train=train))
    head = learnt_of(setup, Free).head
    assert run.get(head) is None
    assert run.notes(head)["taken"] == "cosine"
    steps = StepsOf(setup)
    by_free, by_none = (
        run.get(steps.nearest(learnt_of(setup, kind), steps.training_queries(4), 3)).positions
        for kind in (Free, Untrained)
    )
    assert by_free.shape == (4, 3)
    assert (by_free == by_none).all()


def test_labels_are_seen_whatever_the_metric(tmp_path):
    plain = [replace(row, choices=()) for row in TASK.train]
    task = replace(FEW, train=plain, metric="exact_match")
    run, setup = open_run(replace(SMALL, out=tmp_path), task)
    head = learnt_of(setup, Free).head
    run.get(head)
    assert run.notes(head)["head"] > 0.5  # tried, and compared with cosines
    assert evaluated(run, setup, "classifier").value > 50
    named = [setup.row(name) for name in ("classifier", "copied", "topk")]
    kept, left_out = applicable(task, named)
    assert [row.name for row in kept] == ["classifier", "topk"]
    assert left_out.startswith("Left out: nearest output, copied: films has options")


def test_a_row_says_which_free_method_its_training_began_with():
    from_free = SMALL.with_method(EPR, start=Free())
    names = ("epr", "ceil", "free", "topk")
    titles = [from_free.row(name).title for name in names]
    assert titles == ["EPR from free", "CEIL from free", "free", "dense top-k"]
    assert [SMALL.row(name).title for name in ("epr", "ceil")] == ["EPR", "CEIL"]


def test_a_start_has_the_settings_of_its_own_method():
    config = SMALL.with_method(EPR, epochs=9)
    assert config.method(CEIL).start == config.method(EPR)
    assert config.row("ceil").method.start.epochs == 9
    around = config.with_method(EPR, start=CEIL())
    with pytest.raises(UserError, match=r"--epr.start ceil: a training cannot start from itself"):
        around.row("ceil")


def test_a_setting_that_a_method_does_not_have_is_refused():
    with pytest.raises(UserError, match=r"--ceil: unknown option 'epoch'; did you mean 'epochs'"):
        SMALL.with_method(CEIL, epoch=3)
    with pytest.raises(TypeError, match="initial"):
        CEIL(initial="base")


def test_encoders_that_another_task_trained(tmp_path, moved_for_trained):
    config = replace(SMALL, out=tmp_path)
    other = replace(films(40, 6), name="others")
    trained = open_run(config, FEW).setup
    run, setup = open_run(config, other, trained_by=trained)
    assert networks_of(setup, CEIL).key == networks_of(trained, CEIL).key
    assert evaluated(run, setup, "ceil").queries == 6


def long_and_short(split, i):
    plain = film(split, i)
    return replace(plain, input=plain.input + " of a film" * (i % 5))


def tuned_for_untrained(setup):
    """The stage of λ for the untrained encoder."""
    steps = StepsOf(setup)
    return steps.trade_off("tuned", steps.untrained())


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
    run, setup = open_run(config, UNEVEN)
    scores = tuned_for_untrained(setup).scores
    asked = scores.queries.examples[:8]
    read = requests(run, scores, scores.queries.examples, run.get(scores.sets))
    of_sets = [request.prompt for request in read]
    each = len(of_sets) // len(scores.queries)
    for number, trade_off in [(1, 0.005), (4, 0.1)]:
        _, answers = open_run(
            replace(config, trade_off=trade_off), replace(UNEVEN, validation=list(asked))
        )
        stage = metric_of(answers, "dpp").predictions
        prompts = prompts_of(run, stage, asked, run.get(stage.choice))
        assert [prompt.text for prompt in prompts] == of_sets[number : 8 * each : each]
        assert all(0 < len(prompt.order) < 8 for prompt in prompts)


@pytest.mark.parametrize(("trade_off", "noted"), [(0.001, True), (0.1, False)])
def test_a_note_says_when_a_trade_off_is_too_small_for_the_determinant(
    tmp_path, monkeypatch, caplog, trade_off, noted
):
    monkeypatch.setattr("ceil_jax.pipeline.scoring.best_trade_off", lambda scores: trade_off)
    run, setup = open_run(replace(SMALL, out=tmp_path), FEW)
    stage = tuned_for_untrained(setup)
    with caplog.at_level("INFO", logger="ceil_jax"):
        assert run.get(stage) == trade_off
    note = "base: λ = 0.001: the set is the nearest examples (log det has"
    assert (note in caplog.text) == noted
    assert bool(run.notes(stage)["note"]) == noted


def test_all_choices_are_read_only_for_the_trade_off(tmp_path, monkeypatch, moved_for_trained):
    config = replace(SMALL, out=tmp_path, trade_off="tuned").with_method(CEIL, trade_off="tuned")
    run, setup = open_run(config, FEW)
    read = []
    score = TinyLM.choice_log_likelihood

    def scored(self, prompts, choices, **how):
        read.extend(map(tuple, choices))
        return score(self, prompts, choices, **how)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", scored)
    for scores in of(lm_scores, setup, "ceil"):
        read.clear()
        run.get(scores)
        tunes = scores.label.startswith("λ")
        assert read
        assert {len(own) for own in read} == {len(TASK.train[0].choices) if tunes else 1}


@pytest.mark.parametrize("names", [("epr_map", "ceil"), ("ceil", "epr_map")])
def test_a_row_is_charged_what_it_needs_whatever_ran_before(tmp_path, moved_for_trained, names):
    config = replace(SMALL, out=tmp_path, trade_off="tuned").with_method(CEIL, trade_off=0.05)
    run, setup = open_run(config, FEW)
    found = {name: evaluated(run, setup, name) for name in names}
    assert of(tuned, setup, "ceil") == []
    assert len(of(tuned, setup, "epr_map")) == 1
    for name, record in found.items():
        scoring = sum(run.own_cost(one).tokens for one in of(lm_scores, setup, name))
        assert record.preparing.tokens == scoring > 0
    assert found["ceil"].trade_off == 0.05


def test_ceil_has_one_trade_off(tmp_path):
    tuned = replace(SMALL, out=tmp_path, trade_off="tuned").with_method(CEIL, trade_off="tuned")
    _, setup = open_run(tuned, TASK)
    ceil, epr, base = (choice_of_row(setup, name).trade_off for name in ("ceil", "epr_map", "dpp"))
    assert ceil.key == networks_of(setup, CEIL).trade_off.key == epr.key != base.key
    assert choice_of_row(setup, "epr").trade_off is None
    fixed = open_run(tuned.with_method(CEIL, trade_off=0.02), TASK).setup
    assert choice_of_row(fixed, "ceil").trade_off == 0.02


def test_without_examples_every_method_is_zero_shot(tmp_path):
    run, setup = open_run(
        replace(SMALL, out=tmp_path, shots=0, trade_off="tuned", text="skill"), FEW
    )
    assert len({metric_of(setup, name).key for name in ("zero", "topk", "ceil", "random")}) == 1
    assert all(not row["examples"] for row in evaluated(run, setup, "ceil").rows())


def test_prompts_end_with_the_most_relevant_and_a_task_may_compare_per_token(tmp_path):
    run, setup = open_run(replace(SMALL, out=tmp_path), FEW)
    for name in ("topk", "dpp", "bm25", "mmr"):
        for row in evaluated(run, setup, name).rows():
            relevance = [example[1] for example in row["examples"]]
            assert len(relevance) == 3
            assert relevance == sorted(relevance)
    # the long choice stands in every prompt, so that each of its words is likely; the product of
    # all is not
    choices = ("bad", " ".join(f"w{i}" for i in range(60)))
    bank, queries = (
        [replace(x, output=choices[1], choices=choices) for x in y]
        for y in (TASK.train, FEW.validation)
    )
    for per_token in (False, True):
        # a task of the papers', whose bank may have one label
        task = replace(
            FEW, name="movie_reviews", train=bank, validation=queries, per_token=per_token
        )
        assert (
            evaluated(*open_run(replace(SMALL, out=tmp_path), task), "random").value
            == 100 * per_token
        )


def test_the_most_common_output_answers_without_an_lm(tmp_path, monkeypatch):
    task = replace(
        FEW, train=[replace(x, output="bad") for x in TASK.train[:25]] + TASK.train[25:50]
    )
    asked = read_by(monkeypatch)
    found = evaluated(*open_run(replace(SMALL, out=tmp_path), task), "majority")
    assert {row["prediction"] for row in found.rows()} == {"bad"}
    assert asked == []


def test_a_query_that_stands_in_the_bank_is_never_its_own_example():
    texts = enumerate(["red apple", "blue  sky", "green grass"], 1)
    bank = [Example(str(number), text, "x") for number, text in texts]
    query = Example("1", "blue sky", "x")
    task = Task("fruit", bank, [query], Template("{input} {output}"), "exact_match")
    _, setup = open_run(replace(SMALL, shots=1), task)
    assert [one.id for one in setup.bank.examples] == ["1", "3"]
    # the bank's row 1 is another question, which the query may get
    assert [one.id for one in setup.queries.examples] == ["query-1"]


def test_what_cannot_be_is_said_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match=r"--ceil\.size 13: subsets are drawn from 12 examples"):
        metric_of(open_run(SMALL.with_method(CEIL, size=13), TASK).setup, "ceil")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--out .*file is a file; name a folder"):
        open_run(replace(SMALL, out=tmp_path / "file"), TASK)
    with pytest.raises(UserError, match="unknown method 'ciel'; did you mean 'ceil'"):
        open_run(SMALL, TASK).setup.row("ciel")
    both = SMALL.with_method(EPR, train_context="both")
    with pytest.raises(UserError, match=r"--ceil\.train-context frozen has one encoder"):
        networks_of(open_run(both, TASK).setup, CEIL)
    released = both.with_method(CEIL, train_context="released")
    assert networks_of(open_run(released, TASK).setup, CEIL).kind == "ceil"


@dataclass(frozen=True)
class Borrows(Method):
    """A method from outside that learns nothing and takes the encoders of TST."""

    name = "borrows"
    title = "borrows"

    @property
    def learns(self):
        return False

    def learn(self, steps):
        return replace(steps.learnt(TST()), training=None)


def test_a_method_from_outside_may_take_the_encoders_of_another():
    setup = open_run(SMALL, FEW).setup
    learnt = StepsOf(setup).learnt(Borrows())
    assert learnt.networks == StepsOf(setup).learnt(TST()).networks
    assert learnt.training is None
