"""Skill-KNN and `--text skill` end to end, on the test LM and the test encoder."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from skill_knn.command import SkillOptions, main
from skill_knn.comparison import compare_skills, csv_of, score_of, wins
from skill_knn.figure import draw_spaces
from skill_knn.recall import prompts_of, recall_table, sample

from ceil_jax.encoders.registry import load_encoder, register_encoder
from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.config import RunConfig, SkillConfig
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.pipeline.records import Evaluation, Record
from ceil_jax.pipeline.run import Run
from ceil_jax.report.compare import compare
from ceil_jax.report.write import write_report
from ceil_jax.skills.sketches import sql_sketch
from ceil_jax.store.rows import Cost, Rows
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tasks.words import Overlap
from ceil_jax.training.config import CEILConfig, EPRConfig

ASK = ("how many NOUN", "list every NOUN", "the largest NOUN")
ANSWER = ("SELECT count(*) FROM NOUN", "SELECT * FROM NOUN", "SELECT max(size) FROM NOUN")
SHOWN = [
    {"input": "how many trees", "skill": "counting rows"},
    {"input": "list every bird", "skill": "all rows"},
    {"input": "the largest fish", "skill": "maximum of a column"},
    {"input": "how many stones", "skill": "counting rows"},
]


def question(split, i):
    return Example(
        f"{split}-{i}", ASK[i % 3].replace("NOUN", f"thing{i}"), ANSWER[i % 3].replace("NOUN", f"thing{i}")
    )


TASK = Task(
    "questions",
    [question("train", i) for i in range(30)],
    [question("validation", i) for i in range(30, 36)],
    Template("{input}\t{output}"),
    "exact_match",
    max_new_tokens=8,
    language="sql",
)
SKILL_METHODS = ["skill_base", "skill_consistency", "skill_distinct", "skill_joined"]


@pytest.fixture
def config(tmp_path):
    shown = tmp_path / "shown.json"
    shown.write_text(json.dumps(SHOWN))
    return RunConfig(
        encoder="tiny",
        lm="tiny",
        shots=2,
        shortlist=12,
        out=tmp_path / "runs",
        skills=SkillConfig(demonstrations=str(shown), orders=2),
        epr=EPRConfig(instances=8, candidates=4, positives=2, epochs=1, batch_size=4),
        ceil=CEILConfig(instances=8, subsets=3, size=2, shortlist=6, epochs=1, batch_size=4),
    )


@pytest.fixture
def asked(monkeypatch):
    """Rewriting prompts that the LM is given. It answers as a good rewriter would: by the input's verb."""
    prompts = []
    skills = {"how": " counting rows", "list": " all rows", "the": " maximum of a column"}
    answer = TinyLM.generate

    def generate(self, some, max_new_tokens, stop=(), **options):
        if max_new_tokens != 200:
            return answer(self, some, max_new_tokens, stop, **options)
        prompts.extend(some)
        self.tokens_read += int(self.count_tokens(some).sum())
        return [skills[prompt.rpartition("Input: ")[2].split()[0]] for prompt in some]

    monkeypatch.setattr(TinyLM, "generate", generate)
    return prompts


def kinds(picks):
    return {pick.position % 3 for pick in picks}


def test_skill_knn_and_the_sketch_find_the_same_kind(config, asked, tmp_path):
    pipeline = open_run(config, TASK)
    for method in [*SKILL_METHODS, "target_sketch"]:
        for i, picks in enumerate(pipeline.retrieve(method, TASK.validation)):
            assert kinds(picks) == {i % 3}, method
    assert len(asked) == 2 * 36
    table = compare(pipeline, ["topk", *SKILL_METHODS, "target_knn", "target_sketch"])
    assert len(asked) == 2 * 36
    tokens = {row.method: row.record.preparing.tokens for row in table.rows}
    assert tokens["topk"] == tokens["target_knn"] == tokens["target_sketch"] == 0
    assert tokens["skill_consistency"] == tokens["skill_distinct"]
    assert tokens["skill_consistency"] == pytest.approx(2 * tokens["skill_base"], abs=2)
    assert "0 of 72 rewrites failed" in table.text()
    assert "0 of 72 rewrites failed" in write_report(tmp_path / "report", pipeline, table).page.read_text()
    for method in SKILL_METHODS:
        for row in table.evaluations[method].rows:
            relevance = [example[1] for example in row["examples"]]
            assert relevance == sorted(relevance)


def test_every_retriever_can_see_the_skill(config, asked, moved_for_trained):
    pipeline = open_run(replace(config, text="skill"), TASK)
    for method in ("bm25", "topk", "mmr", "epr", "ceil_topk"):
        for i, picks in enumerate(pipeline.retrieve(method, TASK.validation)):
            assert i % 3 in kinds(picks[:1]), method
    assert len(asked) == 36  # one order, all methods
    result = pipeline.evaluate("topk")
    # prompts hold inputs, not skills: the same examples give the same predictions, and nothing else is asked
    assert [row["gold"] for row in result.rows] == [example.output for example in TASK.validation]
    # skill_base draws which of the equally skilled it takes; the similarity is the same
    nearest = [
        [pick.relevance for picks in pipeline.retrieve(method, TASK.validation) for pick in picks]
        for method in ("topk", "skill_base")
    ]
    assert nearest[0] == pytest.approx(nearest[1], abs=1e-6)
    assert pipeline.views.orders(METHODS["random"]) == []


def test_training_on_skills_is_not_taken_for_training_on_inputs(config, asked, moved_for_trained):
    # EPR's candidates are found by the answers, so its scores are the same for both
    open_run(config, TASK).encoders("epr")
    open_run(replace(config, text="skill"), TASK).encoders("epr")
    assert len(list(config.out.glob("scores-*"))) == 1
    assert len(list(config.out.glob("epr-*"))) == 2


def test_a_bank_that_changed_under_the_cache(config, asked):
    open_run(config, TASK).retrieve("skill_base", TASK.validation)
    asked.clear()
    # train-0 now asks for a list and train-30 is new
    changed = [replace(TASK.train[0], input="list every thing0"), *TASK.train[1:], question("train", 30)]
    pipeline = open_run(replace(config, shots=11), replace(TASK, train=changed))
    counting, listing, *_ = pipeline.retrieve("skill_base", TASK.validation)
    assert sorted(p.rpartition("Input: ")[2] for p in asked) == ["list every thing0\nSkill:"]
    # validation-31 asks for a list: eleven of the bank do now, and ten count
    assert {pick.id for pick in listing} == {"train-0", *(f"train-{i}" for i in range(1, 30, 3))}
    assert {pick.id for pick in counting[:10]} == {f"train-{i}" for i in (*range(3, 30, 3), 30)}


def test_what_a_user_can_mend(config, monkeypatch):
    plain = replace(TASK, language="")
    without = replace(config, skills=SkillConfig())
    with pytest.raises(UserError, match=r"questions has no demonstrations .* give --skills\.demonstrations"):
        open_run(without, plain).retrieve("skill_base", TASK.validation)
    with pytest.raises(UserError, match="'target_sketch' needs a sketch"):
        open_run(config, plain).retrieve("target_sketch", TASK.validation)
    outside = replace(config, skills=replace(config.skills, order=2))
    with pytest.raises(UserError, match=r"--skills\.order 2: expected a number from 0 to below .*\(2\)"):
        open_run(outside, TASK).retrieve("skill_base", TASK.validation)
    monkeypatch.setattr("ceil_jax.lm.registry.TinyLM", partial(TinyLM, context_length=512))
    with pytest.raises(UserError, match=r"16 demonstrations take .* tiny reads 512"):
        open_run(without, TASK).retrieve("skill_base", TASK.validation)


def test_the_table_repeats_what_is_drawn_or_shuffled(config, asked):
    pipeline = open_run(config, TASK)
    table = compare_skills(pipeline, ["random", "topk", *SKILL_METHODS, "target_skill"], seeds=3)
    rows = {row.method: row for row in table.results}
    assert {method: row.repeats for method, row in rows.items()} == {
        "random": 3,
        "topk": 1,
        "skill_base": 2,
        "skill_consistency": 1,
        "skill_distinct": 1,
        "skill_joined": 1,
        "target_skill": 1,
    }
    assert len(asked) == 2 * 36  # orders are shared by base and the variants
    # all good rewrites and all gold skills find examples of the same sketch
    for method in [*SKILL_METHODS, "target_skill"]:
        assert rows[method].selected.overlap == 100
    draws = [
        open_run(replace(config, data_seed=seed), TASK).retrieve("random", TASK.validation)
        for seed in range(3)
    ]
    same = [
        len(sql_sketch(query.output) & sql_sketch(TASK.train[pick.position].output))
        / len(sql_sketch(query.output) | sql_sketch(TASK.train[pick.position].output))
        for draw in draws
        for query, picks in zip(TASK.validation, draw, strict=True)
        for pick in picks
    ]
    assert rows["random"].selected.overlap == pytest.approx(100 * sum(same) / len(same))
    assert "0 of 72 rewrites failed" in table.text()
    assert table.markdown().count("| Skill-KNN") == 5
    lines = csv_of([table, table]).splitlines()
    assert len(lines) == 1 + 2 * 7
    assert len({line.count(",") for line in lines}) == 1


def test_a_table_without_answers_asks_for_rewrites_only(config, asked, monkeypatch):
    monkeypatch.setattr(Run, "answers", None)
    table = compare_skills(open_run(config, TASK), ["topk", "skill_base"], answer=False)
    assert [row.score for row in table.results] == [None, None]
    assert "exact_match" not in table.text()
    assert len(asked) == 2 * 36
    with pytest.raises(UserError, match="neither SQL nor COGS"):
        compare_skills(open_run(config, replace(TASK, language="")), ["topk"])


def test_scores_over_repeats_by_hand():
    shared = Overlap(np.arange(4), np.zeros(4, bool), np.zeros(4, bool))
    texts = dict.fromkeys(("name", "task", "method", "metric", "lm", "texts"), "")
    numbers = dict.fromkeys(("queries", "bank", "value"), 0)
    record = Record(**texts, **numbers, config={}, cost=Cost(0), seed=None, overlap=shared)
    found = [
        Evaluation(Rows([], []), np.array(scores, float), float(np.mean(scores)), record)
        for scores in ([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0])
    ]
    score = score_of(found)
    assert (score.mean, score.sd) == (50, 25)
    assert score.interval.mean == 50


def test_samples_are_kept_and_go_on(config, asked, monkeypatch):
    pipeline = open_run(config, TASK)
    three = sample(pipeline, "random", 3, 0.7)
    assert [len(drawn) for drawn in three] == [3] * 6
    before = pipeline.lm.tokens_read
    five = sample(pipeline, "random", 5, 0.7)
    assert [drawn[:3] for drawn in five] == three
    # a prompt is read once for its five samples
    read = pipeline.lm.tokens_read - before
    prompts = sum(int(pipeline.lm.count_tokens([text])[0]) for text in prompts_of(pipeline, "random"))
    written = sum(int(pipeline.lm.count_tokens(drawn).sum()) for drawn in five)
    assert read < prompts + written + 5 * 6 * 3
    monkeypatch.setattr(TinyLM, "generate", None)
    assert sample(pipeline, "random", 5, 0.7) == five
    table = recall_table(pipeline, ["random"], 5, 0.7)
    assert "| method | greedy | recall@1 | recall@2 | recall@3 | recall@5 |" in table
    with pytest.raises(UserError, match="both must be above 0"):
        sample(pipeline, "random", 3, 0.0)


def test_both_spaces_are_drawn(config, asked):
    pytest.importorskip("sklearn")
    picture = draw_spaces(open_run(config, TASK))
    assert picture.startswith(b"\x89PNG")
    assert len(asked) == 2 * 36  # the mean of both orders is drawn
    assert draw_spaces(open_run(config, TASK), gold=True) != picture
    assert len(asked) == 2 * 36
    with pytest.raises(UserError, match="--hardness medium: 0 of 30 examples are"):
        draw_spaces(open_run(config, TASK), level="medium")


def test_another_encoder_is_a_row_of_its_own(config, asked, registrations_undone):
    register_encoder("other", lambda: load_encoder("tiny").renamed("other"))
    methods = ["topk", "topk@other", "skill_base@other"]
    table = compare_skills(open_run(config, TASK), methods, answer=False)
    assert [row.label for row in table.results] == ["dense top-k", "dense top-k (other)", "Skill-KNN (other)"]
    assert [row.repeats for row in table.results] == [1, 1, 2]
    assert len(asked) == 2 * 36


def test_lms_share_the_rewriter_and_another_scores_for_epr(config, asked, monkeypatch, capsys):
    loaded, scored = [], []

    def load(spec, **_):
        lm = TinyLM()
        lm.name = spec
        loaded.append(spec)
        score = lm.log_likelihood
        lm.log_likelihood = lambda *texts: scored.append(spec) or score(*texts)
        return lm

    monkeypatch.setattr("ceil_jax.pipeline.models.load_lm", load)
    monkeypatch.setattr("ceil_jax.tasks.load.load_task", lambda *_, **limits: TASK)
    monkeypatch.setattr("skill_knn.command.task_spec", lambda name: TASK)
    flags = "--encoder tiny --shots 2 --skills.orders 2 --epr.instances 8 --epr.candidates 4 --epr.epochs 1"
    options = SkillOptions(tasks=("questions",), method=("epr", "skill_base"), lms=("a", "b"), scorer="c")
    arguments = [*flags.split(), "--lm", "r", "--out", str(config.out)]
    shown = ["--skills.demonstrations", config.skills.demonstrations]
    assert main(options, "skill_table3", [*arguments, *shown]) == 0
    assert set(loaded) == {"a", "b", "c", "r"}
    assert set(scored) == {"c"}
    assert len(asked) == 2 * 36
    last = capsys.readouterr().out.rpartition("above an oracle")[2]
    assert [line.split()[:2] for line in last.splitlines()[1:5]] == [
        ["a", "EPR"],
        ["a", "Skill-KNN"],
        ["b", "EPR"],
        ["b", "Skill-KNN"],
    ]


PAPER = {
    "Spider": (72.9, 73.0, 74.0, 76.8, 76.0, 78.3, 78.6, 79.5),
    "DB": (54.1, 51.6, 53.2, 55.3, 54.8, 57.0, 56.6, 54.2),
    "NLQ": (58.1, 58.2, 61.0, 60.3, 60.3, 61.4, 65.5, 65.1),
    "SQL": (68.2, 67.3, 69.2, 72.1, 71.9, 72.2, 75.5, 76.2),
    "KDBQA": (24.1, 24.3, 35.3, 34.7, 33.8, 40.1, 37.1, 40.4),
    "P.S.": (59.1, 78.5, 88.3, 93.8, 94.3, 92.6, 86.8, 96.9),
    "P.A.": (61.5, 71.1, 74.1, 88.3, 87.9, 88.8, 81.9, 95.7),
}
"""Table 2 of An et al. 2023 for text-chat-davinci-002."""


def test_the_papers_wins():
    own = ["random", "topk", "topk@babbage", "skill_base", "skill_consistency", "skill_distinct"]
    names = [*own, "target_knn", "target_sketch"]
    won, above = wins({task: dict(zip(names, row, strict=True)) for task, row in PAPER.items()}, own)
    assert list(won.values()) == [0, 0, 0, 0, 1, 6]
    # P.S. and P.A. of all but random and raw KNN with Sentence-BERT; DB of base, consistency and distinctiveness;
    # KDBQA of distinctiveness; P.S. of Babbage
    assert list(above.values()) == [0, 0, 1, 3, 3, 4]
    # ties win together
    assert wins({"t": {"a": 1.0, "b": 1.0, "c": 0.5}}, ["a", "b", "c"])[0] == {"a": 1, "b": 1, "c": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "spider"], "--task spider: this script takes --tasks"),
        (["--tasks", "sst5"], "sst5 is neither a SQL nor a COGS task"),
        (["--method", "topkk"], "unknown method 'topkk'; did you mean 'topk'"),
        (["--tasks"], "--tasks: give at least one"),
    ],
)
def test_what_a_script_refuses(arguments, message, capsys):
    options = SkillOptions(tasks=("cogs.ps",))
    assert main(options, "cogs", arguments) == 2
    assert message in capsys.readouterr().err


def test_another_lm_may_rewrite(config):
    pipeline = open_run(replace(config, skills=replace(config.skills, lm="tiny"), lm="absent"), TASK)
    assert pipeline.views.rewriter.lm.name == "tiny"
