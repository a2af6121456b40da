"""Skill-KNN's rows and `--text skill` end to end, on the test LM and the test encoder."""

import json
from dataclasses import replace
from functools import partial

import pytest
from films import SMALL, choice_of_row, choose, evaluated, metric_of, networks_of

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.methods.epr import EPR
from ceil_jax.pipeline.answering import prompts_of
from ceil_jax.pipeline.config import SkillConfig
from ceil_jax.pipeline.rewriting import rewriting_note, skills_of
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare
from ceil_jax.store.kept import closure
from ceil_jax.tasks.example import Example, Task, Template

ASK = ("how many NOUN", "list every NOUN", "the largest NOUN")
ANSWER = ("SELECT count(*) FROM NOUN", "SELECT * FROM NOUN", "SELECT max(size) FROM NOUN")
SHOWN = [
    {"input": "how many trees", "skill": "counting rows"},
    {"input": "list every bird", "skill": "all rows"},
    {"input": "the largest fish", "skill": "maximum of a column"},
    {"input": "how many stones", "skill": "counting rows"},
]


def question(split, i):
    texts = (text.replace("NOUN", f"thing{i}") for text in (ASK[i % 3], ANSWER[i % 3]))
    return Example(f"{split}-{i}", *texts)


TASK = Task(
    "questions",
    [question("train", i) for i in range(30)],
    [question("validation", i) for i in range(30, 36)],
    Template("{input}\t{output}"),
    "exact_match",
    max_new_tokens=8,
    language="sql",
)
REWRITTEN = (
    "0 of 72 rewrites failed; 3 different skills, the most common for 33 %; 72 are a "
    "demonstration's skill"
)
SKILL_METHODS = ["skill_base", "skill_consistency", "skill_distinct"]


@pytest.fixture
def config(tmp_path):
    shown = tmp_path / "shown.json"
    shown.write_text(json.dumps(SHOWN))
    skills = SkillConfig(demonstrations=str(shown), orders=2)
    return replace(SMALL, shots=2, out=tmp_path / "runs", skills=skills)


@pytest.fixture
def asked(monkeypatch):
    """Rewriting prompts that the LM is given. It answers as a good rewriter would: by the input's
    verb."""
    prompts = []
    skills = {"how": " counting rows", "list": " all rows", "the": " maximum of a column"}
    write = TinyLM.write

    def written(self, some, limit, *settings):
        if limit != 200:
            return write(self, some, limit, *settings)
        prompts.extend(some)
        self.tokens_read += int(self.count_tokens(some).sum())
        return [skills[prompt.rpartition("Input: ")[2].split()[0]] for prompt in some]

    monkeypatch.setattr(TinyLM, "write", written)
    return prompts


def kinds(picks):
    return {pick.position % 3 for pick in picks}


def test_skill_knn_and_the_sketch_find_the_same_kind(config, asked):
    run, setup = open_run(config, TASK)
    for method in [*SKILL_METHODS, "target_sketch"]:
        for i, picks in enumerate(choose(run, setup, method, TASK.validation)):
            assert kinds(picks) == {i % 3}, method
    # 30 + 6 inputs, two orders, which the rows share
    assert len(asked) == 2 * 36
    table = compare(run, setup, ["topk", *SKILL_METHODS, "target_sketch"])
    assert len(asked) == 2 * 36
    tokens = {row.record.method: row.record.preparing.tokens for row in table.rows}
    assert tokens["topk"] == tokens["target_sketch"] == 0
    assert tokens["skill_consistency"] == tokens["skill_distinct"] > tokens["skill_base"] > 0
    assert REWRITTEN in table.text()
    assert REWRITTEN in rewriting_note(run, [metric_of(setup, "skill_consistency")])
    assert rewriting_note(run, [metric_of(setup, "topk")]) == ""


def test_the_seed_draws_random_examples_and_the_order_of_the_demonstrations(config):
    setups = [open_run(replace(config, seed=seed), TASK).setup for seed in range(3)]
    first, second, third = (
        [choice_of_row(setup, name) for name in ("random", *SKILL_METHODS)] for setup in setups
    )
    orders = [
        [stage.order for stage in closure([choice[1]]) if stage.is_of(skills_of)]
        for choice in (first, second, third)
    ]
    assert orders == [[0, 0], [1, 1], [0, 0]]
    assert [one == other for one, other in zip(first, second, strict=True)] == [
        False,
        False,
        True,
        True,
    ]


def test_every_retriever_can_see_the_skill(config, asked, moved_for_trained):
    run, setup = open_run(replace(config, text="skill"), TASK)
    for method in ("bm25", "topk", "epr", "ceil_topk"):
        for i, picks in enumerate(choose(run, setup, method, TASK.validation)):
            assert i % 3 in kinds(picks[:1]), method
    assert len(asked) == 36  # one order, all methods
    # prompts hold inputs, not skills
    stage = metric_of(setup, "topk").predictions
    prompts = prompts_of(run, stage, TASK.validation, run.get(stage.choice))
    for query, prompt in zip(TASK.validation, prompts, strict=True):
        assert prompt.text.endswith(f"{query.input}\t")
        assert "counting rows" not in prompt.text
    found = evaluated(run, setup, "topk").rows()
    assert [row["gold"] for row in found] == [one.output for one in TASK.validation]
    assert networks_of(setup, EPR) != networks_of(open_run(config, TASK).setup, EPR)


def test_a_bank_that_changed_asks_for_what_is_new(config, asked):
    choose(*open_run(config, TASK), "skill_base", TASK.validation)
    asked.clear()
    # train-0 now asks for a list and train-36 is new
    changed = [
        replace(TASK.train[0], input="list every thing0"),
        *TASK.train[1:],
        question("train", 36),
    ]
    opened = open_run(replace(config, shots=11), replace(TASK, train=changed))
    counting, listing, *_ = choose(*opened, "skill_base", TASK.validation)
    new = ["list every thing0\nSkill:", "how many thing36\nSkill:"]
    assert [prompt.rpartition("Input: ")[2] for prompt in asked] == new
    # eleven of the bank ask for a list now, and ten count
    assert {pick.id for pick in listing} == {"train-0", *(f"train-{i}" for i in range(1, 30, 3))}
    assert {pick.id for pick in counting[:10]} == {f"train-{i}" for i in (*range(3, 30, 3), 36)}


def test_what_a_user_can_mend(config, monkeypatch):
    plain = replace(TASK, language="")
    without = replace(config, skills=SkillConfig())
    with pytest.raises(
        UserError, match=r"questions has no demonstrations .* give --skills\.demonstrations"
    ):
        metric_of(open_run(without, plain).setup, "skill_base")
    with pytest.raises(UserError, match="'target_sketch' needs a sketch"):
        choose(*open_run(config, plain), "target_sketch", TASK.validation)
    monkeypatch.setattr("ceil_jax.lm.registry.TinyLM", partial(TinyLM, context_length=512))
    with pytest.raises(UserError, match=r"16 demonstrations take .* tiny reads 512"):
        choose(*open_run(without, TASK), "skill_base", TASK.validation)


def test_another_lm_may_rewrite(config, asked):
    changed = replace(config, skills=replace(config.skills, lm="tiny"), lm="absent")
    assert len(choose(*open_run(changed, TASK), "skill_base", TASK.validation)) == 6
