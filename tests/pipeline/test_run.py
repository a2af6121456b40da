"""The whole pipeline on the test LM and the test encoder."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, TASK, film

from ceil_jax.errors import UserError
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.training_data import TaskSupervision
from ceil_jax.report.compare import compare
from ceil_jax.report.write import write_report
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.training.loop import split_held_out

NAMES = [
    name
    for name, method in METHODS.items()
    if method.needs.skills == "none" and not method.needs.gold_outputs
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of every method, its folder and its table."""
    out = tmp_path_factory.mktemp("runs")
    pipeline = open_run(replace(SMALL, out=out), TASK)
    return pipeline, compare(pipeline, NAMES)


def test_every_method_answers_every_query(finished):
    _, table = finished
    assert [row.method for row in table.rows] == NAMES
    for name, result in table.evaluations.items():
        assert [row["id"] for row in result.rows] == [example.id for example in TASK.validation]
        shown = 0 if METHODS[name].retriever == "zero" else 3
        assert all(len(row["examples"]) == shown for row in result.rows)
        assert result.value == np.mean([row["prediction"] == row["gold"] for row in result.rows])


def test_choices_are_compared_per_token_where_the_task_says_so(tmp_path, monkeypatch):
    # the long choice stands in every prompt, so that each of its words is likely; the product of all is not
    choices = ("bad", " ".join(f"w{i}" for i in range(60)))
    bank = [replace(x, output=choices[1], choices=choices) for x in TASK.train]
    queries = [replace(x, output=choices[1], choices=choices) for x in TASK.validation[:4]]
    task = replace(TASK, train=bank, validation=queries)
    config = replace(SMALL, out=tmp_path)
    for per_token in (False, True):
        run = open_run(config, replace(task, per_token=per_token))
        assert run.evaluate("random").value == per_token


def test_queries_that_stand_in_the_bank_are_told_apart(finished, tmp_path):
    _, table = finished
    assert table.parts is None and "in the bank" not in table.text() and table.data()["parts"] is None
    copies = [replace(x, input=y.input) for x, y in zip(TASK.validation[:4], TASK.train, strict=False)]
    task = replace(TASK, validation=[*copies, *TASK.validation[4:10]])
    found = compare(open_run(replace(SMALL, out=tmp_path), task), ["topk", "dpp"])
    assert found.parts.header[1:] == ["question in the bank (4)", "question not in the bank (6)"]
    scores = found.evaluations["topk"].scores
    assert found.parts.rows[0] == ["dense top-k", *(100 * part.mean() for part in (scores[:4], scores[4:]))]
    assert found.parts.rows[2][0] == "DPP-MAP − dense top-k"
    assert "question in the bank (4)" in found.text() and "question in the bank (4)" in found.markdown()
    assert found.data()["parts"]["rows"][0]["queries whose"] == "dense top-k"


def test_prompts_end_with_the_most_relevant(finished):
    _, table = finished
    for method in ("topk", "dpp", "ceil", "bm25"):
        for row in table.evaluations[method].rows:
            relevance = [example[1] for example in row["examples"]]
            assert relevance == sorted(relevance)


def test_costs_are_counted_where_they_arise(finished):
    _, table = finished
    rows = {row.method: row for row in table.rows}
    assert rows["topk"].record.preparing.tokens == 0
    assert rows["epr"].record.preparing.tokens > 24 * 6 * 10
    assert rows["ceil"].record.preparing.tokens > rows["epr"].record.preparing.tokens
    read = [row.record.answering.tokens for row in table.rows]
    assert read[0] == 0 < read[1] < 30 * 20 < min(read[2:]), "nobody, zero examples, the others"


def test_a_second_run_computes_nothing(finished, monkeypatch):
    pipeline, table = finished
    again = open_run(pipeline.config, TASK)
    for name in ("log_likelihood", "choice_log_likelihood", "choose", "generate"):
        monkeypatch.setattr(type(again.lm), name, lambda *a, **k: pytest.fail("the LM was asked again"))
    monkeypatch.setattr("ceil_jax.training.contrastive.train_epr", lambda *a: pytest.fail("trained again"))
    monkeypatch.setattr("ceil_jax.training.ceil.train_ceil", lambda *a: pytest.fail("trained again"))
    second = compare(again, NAMES)
    assert [(r.method, r.value, r.interval) for r in second.rows] == [
        (r.method, r.value, r.interval) for r in table.rows
    ]


def test_a_change_recomputes_only_what_depends_on_it(finished, monkeypatch):
    pipeline, _ = finished
    config = replace(pipeline.config, ceil=replace(SMALL.ceil, loss="info_nce", learning_rate=1e-3))
    changed = open_run(config, TASK)
    monkeypatch.setattr(
        type(changed.lm), "choice_log_likelihood", lambda *a: pytest.fail("subsets were scored again")
    )
    monkeypatch.setattr(
        "ceil_jax.training.contrastive.train_epr", lambda *a: pytest.fail("EPR was trained again")
    )
    before = set(Path(pipeline.config.out).glob("ceil-*"))
    changed.encoders("ceil")
    [new] = set(Path(pipeline.config.out).glob("ceil-*")) - before
    assert '"loss":"info_nce"' in (new / "key.json").read_text()


@pytest.mark.parametrize(("train_context", "different"), [("frozen", 2), ("shared", 2), ("both", 3)])
def test_whose_encoder_the_examples_have(finished, moved_for_trained, train_context, different):
    pipeline, _ = finished
    ceil = replace(SMALL.ceil, train_context=train_context, learning_rate=3e-3)
    query, context = open_run(replace(pipeline.config, ceil=ceil), TASK).encoders("ceil")
    epr = pipeline.encoders("epr").query
    assert len({query.fingerprint, context.fingerprint, epr.fingerprint}) == different
    assert query.fingerprint != epr.fingerprint
    assert (context.fingerprint == query.fingerprint) == (train_context != "both")


def test_k_dpp_subsets_and_base_initialisation(finished):
    pipeline, _ = finished
    ceil = replace(SMALL.ceil, sampler="k_dpp", initial="base", epochs=1)
    changed = open_run(replace(pipeline.config, ceil=ceil), TASK)
    assert len(changed.evaluate("ceil").rows) == 30
    assert "training CEIL" in changed.costs and "training EPR" not in changed.costs
    uniform = open_run(replace(changed.config, ceil=replace(ceil, sampler="random")), TASK)
    ours, theirs = (run.trainer.ceil_scores.candidates for run in (changed, uniform))
    assert (ours.shortlist == theirs.shortlist).all() and (ours.subsets != theirs.subsets).any()


def test_ceil_holds_out_what_epr_did_not_learn_from(finished, monkeypatch):
    pipeline, _ = finished
    few = open_run(replace(pipeline.config, ceil=replace(SMALL.ceil, instances=12)), TASK)
    learnt_from = few.training_data.epr.positions[split_held_out(24, SMALL.seed)[0]]
    asked = []
    monkeypatch.setattr(
        "ceil_jax.training.ceil.split_held_out", lambda *a: asked.append(split_held_out(*a)) or asked[0]
    )
    few.encoders("ceil")
    [(_, held_out)] = asked
    positions = few.trainer.ceil_scores.positions
    assert not set(positions[held_out]) & set(learnt_from)
    assert [TASK.train[i] for i in positions] == few.trainer.ceil_scores.instances
    base = open_run(replace(few.config, ceil=replace(few.config.ceil, initial="base")), TASK)
    assert base.trainer.learnt_from("base").size == 0


def test_shortlists_of_an_index_that_finds_too_few(finished, monkeypatch):
    pipeline, _ = finished
    queries, n = TASK.train[:3], SMALL.ceil.shortlist

    search, base = pipeline.search, pipeline.base

    def found(counts):
        found = search.nearest(pipeline.encoders("base"), TASK.train, queries, n)
        return lambda *_: [picks[:count] for picks, count in zip(found, counts, strict=True)]

    monkeypatch.setattr(search, "nearest", found([12, 5, 3]))
    proposal = search.subsets(base, TASK.train, queries, SMALL.ceil, 0)
    assert (proposal.shortlist >= 0).sum(axis=1).tolist() == [12, 5, 3]
    assert (proposal.subsets.max(axis=(1, 2)) < [12, 5, 3]).all()
    monkeypatch.undo()
    monkeypatch.setattr(search, "nearest", found([12, 5, 2]))
    with pytest.raises(UserError, match=r"found 2 neighbours .* subsets have 3 examples; use --index exact"):
        search.subsets(base, TASK.train, queries, SMALL.ceil, 0)


def test_report_is_one_page_that_needs_nothing_else(finished, tmp_path):
    pipeline, table = finished
    files = write_report(tmp_path, pipeline, table)
    page = files.page.read_text()
    assert "data:image/png;base64," in page
    assert "http://" not in page and "https://" not in page
    assert all(METHODS[row.method].label in page for row in table.rows)
    assert files.figure.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "results.csv").read_text().count("\n") == len(table.rows) + 1
    assert all(f"| {row.label} |" in (tmp_path / "results.md").read_text() for row in table.rows)


def test_generation_tasks_go_the_same_way(tmp_path):
    def pair(split, i):
        return Example(f"{split}-{i}", f"list files of kind{i % 4} {i}", f"ls kind{i % 4}")

    task = Task(
        "commands",
        [pair("train", i) for i in range(40)],
        [pair("validation", i) for i in range(40, 52)],
        Template("{input}\t{output}"),
        "exact_match",
        max_new_tokens=8,
        more_metrics=("char_bleu",),
    )
    pipeline = open_run(replace(SMALL, out=tmp_path), task)
    table = compare(pipeline, ["random", "topk", "epr", "ceil"])
    assert set(table.evaluations["topk"].record.more) == {"char_bleu"}
    assert all("\n" not in row["prediction"] for row in table.evaluations["topk"].rows)


def long_and_short(split, i):
    """A film of 11 tokens as an example, or up to 12 more."""
    plain = film(split, i)
    return replace(plain, input=plain.input + " of a film" * (i % 5))


UNEVEN = replace(
    TASK,
    train=[long_and_short("train", i) for i in range(60)],
    validation=[long_and_short("validation", i) for i in range(60, 90)],
)


def run_of(out, **changes):
    return open_run(replace(SMALL, out=out, shots=8, shortlist=59, **changes), UNEVEN)


def test_a_token_budget_leaves_training_as_it_is(finished, monkeypatch):
    pipeline, _ = finished
    monkeypatch.setattr(
        "ceil_jax.training.contrastive.train_epr", lambda *a: pytest.fail("EPR was trained again")
    )
    monkeypatch.setattr("ceil_jax.training.ceil.train_ceil", lambda *a: pytest.fail("CEIL was trained again"))
    run = open_run(replace(pipeline.config, token_budget=35), TASK)
    assert all(0 < len(row["examples"]) < 3 for row in run.evaluate("ceil").rows)


def test_settings_at_their_defaults_are_in_no_key(finished):
    """Stages of before there were these settings are found."""
    pipeline, _ = finished
    default = pipeline.config
    for path in [*default.out.glob("predictions-*"), *default.out.glob("run-*")]:
        key = json.loads((path / "key.json").read_text())
        settings = key.get("config", key)
        assert ("token_budget" in settings) == (settings.get("token_budget") is not None)
    picks = pipeline.retrieve("topk", TASK.validation)

    def name(**changes):
        run = open_run(replace(default, **changes), TASK)
        return run.answers_with(picks, TASK.validation, "keys")[1]

    same = name()
    assert same == name(token_budget=None)
    assert len({same, name(token_budget=100), name(token_budget=90)}) == 3


@pytest.mark.parametrize("fit", ["greedy", "similarity"])
def test_a_tuned_trade_off_is_that_of_sets_within_the_budget(tmp_path, monkeypatch, fit):
    scored = []
    kept = TaskSupervision.scores
    monkeypatch.setattr(
        TaskSupervision, "scores", lambda self, q, p, w: scored.append((q, p)) or kept(self, q, p, w)
    )
    pipeline = run_of(tmp_path, token_budget=60, fit=fit, trade_off="tuned")
    pipeline.tuned_trade_off("base")
    [(queries, proposal)] = scored
    builder = pipeline.prompts.builder(queries, 60)
    costs = np.pad(builder.costs(UNEVEN.train, proposal.shortlist), ((0, 0), (0, 1)))
    left = np.array([builder.remaining(query) for query in queries])
    spent = np.take_along_axis(costs[:, None], proposal.subsets, axis=2).sum(axis=2)
    # a subset's −1 is the last column: an example that costs nothing
    assert (spent <= left[:, None]).all() and (left[:, None] - spent < 26).all()
    assert ((proposal.subsets >= 0).sum(axis=2) >= 1).all()
    whole = run_of(tmp_path, fit="greedy", trade_off="tuned")
    whole.tuned_trade_off("base")
    assert (scored[1][1].subsets >= 0).all()


def test_ceil_has_one_trade_off_which_records_hold(tmp_path, moved_for_trained):
    # λ of every encoder as if it had been tuned
    tuned = {"base": 0.005, "epr": 0.01, "ceil": 0.1}
    config = replace(SMALL, out=tmp_path, trade_off="tuned", ceil=replace(SMALL.ceil, trade_off="tuned"))

    def run(**changes):
        opened = open_run(replace(config, **changes), TASK)
        opened.training_data.trade_off = lambda source, _: tuned[source]
        return opened

    def found(opened, method):
        return opened.evaluate(method).record.trade_off

    assert [found(run(), method) for method in ("dpp", "epr_map", "ceil")] == [0.005, 0.01, 0.01]
    assert run().trainer.ceil_config.trade_off == 0.01
    assert found(run(), "epr") is None and found(run(), "ceil_topk") is None
    asked = [found(run(ceil_map_trade_off=value), "ceil") for value in ("tuned", 0.02)]
    assert asked == [0.1, 0.02]


def test_the_most_common_output_answers_without_an_lm(tmp_path):
    task = replace(
        TASK, train=[replace(one, output="great") for one in TASK.train[:20]] + list(TASK.train[20:50])
    )
    run = open_run(replace(SMALL, out=tmp_path), task)
    found = run.evaluate("majority")
    assert {row["prediction"] for row in found.rows} == {"great"}
    assert found.value == np.mean([example.output == "great" for example in task.validation])
    assert run.costs["answering: majority"].tokens == 0


def test_without_examples_every_method_is_zero_shot_and_nothing_is_trained(tmp_path):
    run = open_run(replace(SMALL, out=tmp_path, shots=0, trade_off="tuned", text="skill"), TASK)
    table = compare(run, NAMES)
    scores = {row.method: row.value for row in table.rows}
    assert len({scores[name] for name in NAMES if name != "majority"}) == 1
    assert all(not row["examples"] for found in table.evaluations.values() for row in found.rows)
    kinds = {folder.name.split("-")[0] for folder in tmp_path.iterdir() if folder.is_dir()}
    assert kinds == {"predictions", "metrics", "run", "texts"}
    assert "seed" not in table.note
    assert write_report(tmp_path / "page", run, table).page.stat().st_size > 10_000


def test_trained_rows_say_that_they_are_of_one_seed(finished):
    run, table = finished
    assert "one seed of training (--seed 0)" in table.note and "one seed" in table.text()
    assert compare(run, ["random", "dpp"]).note == ""


def test_what_a_killed_save_left_is_no_part_of_an_encoder(finished, tmp_path):
    whole, _ = finished
    [epr] = whole.config.out.glob("epr-*")
    part = next(path.name for path in epr.iterdir() if path.is_dir())
    left = tmp_path / epr.name / part / ".saving-abc"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    open_run(replace(whole.config, out=tmp_path), TASK).encoders("epr")
    assert not left.exists()
    files = json.loads((tmp_path / epr.name / "done.json").read_bytes())["files"]
    assert sorted(files) == sorted(json.loads((epr / "done.json").read_bytes())["files"])


def test_sizes_that_do_not_fit(tmp_path):
    with pytest.raises(UserError, match="--shots 60: the bank of films has 60 examples"):
        open_run(replace(SMALL, shots=60), TASK)
    with pytest.raises(UserError, match=r"--ceil\.size 13: subsets are drawn from 12 examples"):
        open_run(replace(SMALL, out=tmp_path, ceil=replace(SMALL.ceil, size=13)), TASK).evaluate("ceil")
    with pytest.raises(UserError, match="unknown method 'ciel'; did you mean 'ceil'"):
        open_run(replace(SMALL, out=tmp_path), TASK).evaluate("ciel")


def test_a_missing_database_is_named_before_the_lm_answers(tmp_path, monkeypatch):
    monkeypatch.setattr("ceil_jax.lm.tiny.TinyLM.generate", None)
    queries = [Example("q", "how many", "SELECT 1", fields={"db_id": "zoo"})]
    task = replace(TASK, validation=queries, metric="sql_execution")
    with pytest.raises(UserError, match="example 'q': no database 'zoo'"):
        open_run(replace(SMALL, out=tmp_path), task).evaluate("random")


def test_ceil_from_eprs_scores_alone(tmp_path):
    """No set is read; a set of EPR's candidates has the score of its best example."""
    config = replace(SMALL, out=tmp_path, ceil=replace(SMALL.ceil, scores="singles", size=2))
    run = open_run(config, TASK)
    scored, epr = run.trainer.ceil_scores, run.training_data.epr
    assert scored.instances == epr.instances
    before = run.lm.tokens_read
    for row, (shortlist, subsets) in enumerate(zip(*scored.candidates, strict=True)):
        single = dict(zip(epr.candidates.shortlist[row], epr.rows[row]["log_prob"], strict=True))
        best = [max(single[shortlist[place]] for place in subset) for subset in subsets]
        np.testing.assert_allclose(scored.rows[row]["log_prob"], best, rtol=1e-6)
    table = compare(run, ["ceil"])
    assert run.lm.tokens_read - before == table.rows[0].record.answering.tokens
    read = sum(cost.tokens for what, cost in run.costs.items() if what == "scoring EPR candidates")
    assert table.rows[0].record.preparing.tokens == read > 0
    assert not any(what == "scoring CEIL subsets" for what in run.costs)
    for wrong, message in (({"sampler": "bank"}, "sampler bank"), ({"size": 7}, "among the 6 of")):
        ceil = replace(config.ceil, **wrong)
        with pytest.raises(UserError, match=message):
            _ = open_run(replace(config, ceil=ceil), TASK).trainer.ceil_scores
