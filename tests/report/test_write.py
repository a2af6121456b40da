"""The page: what is on it, what it leaves out, and that nothing in an example can act."""

import json
import re
from dataclasses import replace

import films
import pytest
from films import evaluated
from html_parts import Parts

from ceil_jax.cli.main import main
from ceil_jax.errors import UserError
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.registry import ROWS, register_row
from ceil_jax.methods.row import Row
from ceil_jax.metrics import METRICS, register_metric
from ceil_jax.pipeline.answering import ROWS_FILE, measure
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.records import read_records, record_of_run, settings_of, texts_by_id
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report import page as page_module
from ceil_jax.report.run_tables import tables
from ceil_jax.report.write import write_page
from ceil_jax.store import folder
from ceil_jax.store.folder import finish
from ceil_jax.store.kept import Noted, in_notes, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.example import Example, Task, Template

HOSTILE = [
    '</script><script>document.title="ran"</script>',
    "<img src=x onerror=\"document.title='ran'\">",
    "<!--<script>",
    "line\u2028end & {braces} \\u003c",
]
TASK = Task(
    "sst5",
    [Example(f"train-{i}", HOSTILE[i % 4], "bad") for i in range(8)],
    [Example(f"validation-{i}", f"{HOSTILE[i % 4]} {i}", "good") for i in range(4)],
    Template("{input} {output}"),
    "exact_match",
)


NOTHING = in_notes(lambda notes: None)


@kept("before", files=NOTHING)
def work_before():
    """The work before any query is answered."""


@kept("written", files=ROWS_FILE)
def written(queries, bank, rows, by, before):
    """Answers that are given."""
    return [json.loads(row) for row in rows]


@kept("keptstart", files=NOTHING)
def kept_start():
    """A training that ended with the weights that it began from."""
    return Noted(None, {"ending": {"kept": "start"}})


def keep(root, method, predictions, config=None, task=TASK, training=None):
    """An evaluation on disk, as the pipeline leaves it."""
    bank = Examples(task.train)
    queries = Examples(task.validation)
    rows = [
        {
            "id": query.id,
            "examples": [["train-0", 0.5, -0.25], ["train-3", 0.75, float("-inf")]],
            "prediction": prediction,
            "gold": query.output,
        }
        for query, prediction in zip(task.validation, predictions, strict=True)
    ]
    run = Run(root, Models())
    answers = written(queries, bank, tuple(map(json.dumps, rows)), method, work_before())
    metrics = measure(answers, task.metric)
    run.get(metrics)
    for stage, cost in ((answers.before, [2.0, 30]), (answers, [1.0, 40]), (metrics, [0.0, 0])):
        finish(run.folder(stage), {**run.notes(stage), "cost": cost})
    config = config or RunConfig(task=task.name, out=root)
    row = config.row(method)
    named = task.name, method, task.metric, "an LM", settings_of(config, row.method.chain)
    return run.get(
        record_of_run(*named, answers, metrics, texts_by_id(queries, bank), row, training)
    )


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    keep(root, "bm25", ["good", "good", "good", HOSTILE[0]])
    keep(root, "topk", ["good", "bad", "bad", HOSTILE[1]])
    return root


def data(page: str) -> list[dict]:
    [content] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(content)


def test_tables_stand_beside_the_papers_numbers(runs):
    [table] = tables(read_records(runs)[0])
    assert [line.label for line in table.rows] == ["BM25", "dense top-k"]
    assert [line.record.value for line in table.rows] == [75.0, 25.0]
    # CEIL's Table 2, SST-5
    assert [line.paper for line in table.rows] == [36.06, 37.24]
    assert table.paper["CEIL"] == 47.05
    [difference] = table.differences
    assert (difference.better, difference.worse, difference.interval.mean) == (
        "BM25",
        "dense top-k",
        50.0,
    )
    assert table.table().lines()[1][:2] == ["BM25", "75.0"]
    assert table.table().lines()[1][-4:-1] == ["30", "40", "3"]


def test_intervals_are_of_the_metric_over_all_queries(tmp_path):
    # BLEU of a corpus is not a mean of its sentences' BLEU
    commands = ["tar -xzf archive.tgz -C /tmp", "ls", "find . -name core -delete", "pwd"]
    queries = [Example(f"validation-{i}", f"do {i}", command) for i, command in enumerate(commands)]
    task = Task("shell", TASK.train, queries, TASK.template, "char_bleu")
    answers = {
        "bm25": ["tar -xzf archive.tgz", "cd", "find . -name x", "pwd"],
        "topk": [*commands[:3], "ls"],
    }
    for method, predictions in answers.items():
        keep(tmp_path, method, predictions, task=task)
    [table] = tables(read_records(tmp_path)[0])
    bm25, topk = table.rows
    for line in table.rows:
        assert line.interval.mean == pytest.approx(line.record.value)
        assert abs(line.record.value - 100 * line.scores.mean()) > 5
    [difference] = table.differences
    assert difference.interval.mean == pytest.approx(bm25.record.value - topk.record.value)


def test_runs_of_one_method_are_named_by_what_differs(runs):
    for loss in ("pairwise", "info_nce"):
        config = RunConfig(out=runs, methods=(CEIL(loss=loss),))
        keep(runs, "ceil", ["good", loss, "bad", "bad"], config)
    # the loss is nothing to BM25: the same predictions are one row
    keep(
        runs,
        "bm25",
        ["good", "good", "good", HOSTILE[0]],
        RunConfig(methods=(CEIL(loss="info_nce"),)),
    )
    [table] = tables(read_records(runs)[0])
    labels = [line.label for line in table.rows]
    assert labels[:2] == ["BM25", "dense top-k"]
    assert sorted(labels[2:]) == ["CEIL, ceil.loss info_nce", "CEIL, ceil.loss pairwise"]
    # each less top-k, and the second less the first
    compared = [(difference.better, difference.worse) for difference in table.differences]
    topk = "dense top-k"
    assert compared == [
        (labels[3], labels[2]),
        (labels[2], topk),
        (labels[3], topk),
        ("BM25", topk),
        # and the best against every other
        ("BM25", labels[2]),
        ("BM25", labels[3]),
    ]


def test_a_certain_difference_of_rows_that_no_list_compares_is_found(tmp_path):
    """Random examples and top-k are compared with nothing of one another's."""
    queries = [Example(f"validation-{i}", f"{i}", "good") for i in range(40)]
    task = replace(TASK, validation=queries)
    answers = {"random": 8, "mmr": 30, "topk": 36, "majority": 2}
    for method, right in answers.items():
        keep(tmp_path, method, ["good"] * right + ["bad"] * (40 - right), task=task)
    [table] = tables(read_records(tmp_path)[0])
    assert "dense top-k − random +70.0" in table.significance
    assert "MMR over most common output and random" in table.significance


def test_templates_tell_runs_apart(tmp_path):
    shown = ("{input} It is {output}", "{input}\n{output}")
    for pattern in shown:
        task = replace(films.TASK, validation=films.TASK.validation[:4], template=Template(pattern))
        evaluated(*open_run(replace(films.SMALL, out=tmp_path), task), "topk")
    [table] = tables(read_records(tmp_path)[0])
    assert {line.label for line in table.rows} == {
        f"dense top-k, template {pattern}".replace("\n", r"\n") for pattern in shown
    }


def test_below_the_table_stands_which_weights_are_the_starting_ones(runs, tmp_path):
    keep(runs, "ceil", ["good", "bad", "bad", "bad"], training=kept_start())
    [table] = tables(read_records(runs)[0])
    assert [line.label for line in table.rows][-1] == "CEIL"
    assert table.remarks == "CEIL: training kept EPR's encoder."
    page = write_page([runs], tmp_path / "page.html").read_text()
    assert '<p class="note">CEIL: training kept EPR&#x27;s encoder.</p>' in page


def test_only_the_gain_of_dpp_map_is_shown(runs, tmp_path):
    keep(runs, "dpp", ["good", "bad", "good", "bad"])
    [table] = data(write_page([runs], tmp_path / "page.html").read_text())
    gains = {run["label"]: [example[2] for example in run["rows"][0][3]] for run in table["runs"]}
    assert gains == {"BM25": [None, None], "dense top-k": [None, None], "DPP-MAP": [-0.25, None]}


def test_the_browser_has_every_query_with_its_examples(runs, tmp_path):
    page = write_page([runs], tmp_path / "page.html").read_text()
    [table] = data(page)
    assert [run["label"] for run in table["runs"]] == ["BM25", "dense top-k"]
    query, score, prediction, examples = table["runs"][1]["rows"][1]
    assert table["texts"][query] == ["validation-1", f"{HOSTILE[1]} 1", "good"]
    assert (score, prediction) == (0.0, "bad")
    assert [(table["texts"][place][0], relevance, gain) for place, relevance, gain in examples] == [
        ("train-0", 0.5, None),
        ("train-3", 0.75, None),
    ]


def test_nothing_in_an_example_can_act(runs, tmp_path):
    evil = replace(TASK, name="<svg onload=run()>")
    keep(runs, "bm25", HOSTILE, task=evil)
    page = write_page([runs], tmp_path / "page.html").read_text()
    # our data and our script, which the policy names by its hash
    assert page.count("<script") == page.count("</script") == 2
    parsed = Parts(page)
    assert parsed.elements >= {"table", "img", "script"}
    assert "b" not in parsed.elements
    assert not {name for name in parsed.attributes if name.startswith("on")}
    assert "<!--" not in page
    assert "script-src 'sha256-" in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?://", page)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", page)


def test_a_large_run_is_cut_and_said(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "BROWSED", 3)
    page = write_page([runs], tmp_path / "page.html").read_text()
    [table] = data(page)
    assert len(table["runs"][0]["rows"]) == 3
    assert "The browser has the first 3 queries of each table" in page
    assert "75.0" in page


def test_long_texts_are_cut(tmp_path):
    long = replace(TASK, validation=[Example("q", "x" * 5000, "good")])
    keep(tmp_path / "runs", "bm25", ["good"], task=long)
    [table] = data(write_page([tmp_path], tmp_path / "page.html").read_text())
    assert table["texts"][0][1] == "x" * 1500 + "… (5,000 characters in all)"


def test_folders_without_runs_are_one_line(capsys, tmp_path):
    def line(folder):
        capsys.readouterr()
        assert main(["report", str(folder)]) == 2
        [only] = capsys.readouterr().err.strip().splitlines()
        return only

    assert "nowhere: no such folder" in line(tmp_path / "nowhere")
    assert "no runs here; ceil-jax compare --out" in line(tmp_path)


def test_what_cannot_be_shown_is_said_and_left_alone(runs, tmp_path):
    [gone] = [r for r in read_records(runs)[0] if r.method == "topk"]
    scores = runs / gone.metrics / "metric.npz"
    scores.write_bytes(scores.read_bytes()[:-1] + b"\x7f")
    folder._checked.clear()  # as another process would find it
    (runs / "run-0").mkdir()
    (runs / "run-0" / "key.json").write_text('{"format": 0}')
    page = write_page([runs], tmp_path / "page.html").read_text()
    assert [run["label"] for run in data(page)[0]["runs"]] == ["BM25"]
    assert page.count("damaged, unfinished or of another version") == 2
    assert (runs / gone.metrics / "done.json").exists()


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9] + b"7" + content[-8:], lambda content: b""]
)
def test_a_run_whose_answers_are_damaged_is_left_out(runs, tmp_path, damage):
    [gone] = [r for r in read_records(runs)[0] if r.method == "topk"]
    answers = runs / gone.predictions / "rows.json"
    answers.write_bytes(damage(answers.read_bytes()))
    folder._checked.clear()
    page = write_page([runs], tmp_path / "page.html").read_text()
    assert [run["label"] for run in data(page)[0]["runs"]] == ["BM25"]
    assert f"{gone.name}: damaged" in page


def test_several_folders_make_one_page(runs, tmp_path):
    other = replace(TASK, name="other")
    keep(tmp_path / "more", "random", ["bad"] * 4, task=other)
    titles = [
        table["title"] for table in data(write_page([tmp_path], tmp_path / "page.html").read_text())
    ]
    assert titles == ["other, an LM", "sst5, an LM"]
    assert len(data(write_page([runs, tmp_path / "more"], tmp_path / "page.html").read_text())) == 2


def test_a_page_that_cannot_be_written_is_one_line(runs, tmp_path):
    with pytest.raises(UserError, match=r"is a folder; name the page, such as .*report\.html"):
        write_page([runs], tmp_path)
    assert write_page([runs], tmp_path / "new" / "page.html").is_file()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        write_page([runs], tmp_path / "file" / "page.html")


def test_what_was_recorded_is_shown_when_its_metric_is_gone(tmp_path):
    task = replace(films.TASK, validation=films.TASK.validation[:4], metric="mine")
    with METRICS.temporarily():
        register_metric("mine", lambda prediction, example: 1.0)
        for name in ("topk", "random"):
            evaluated(*open_run(replace(films.SMALL, out=tmp_path), task), name)
    page = write_page([tmp_path], tmp_path / "all.html").read_text()
    [table] = tables(read_records(tmp_path)[0])
    assert [(row.label, row.value) for row in table.rows] == [("random", 100), ("dense top-k", 100)]
    assert table.differences == ()
    assert table.table().rows[0][2] is None
    assert "dense top-k" in page
    assert "mine in percent" in page
    said = "No intervals or differences: the metric mine is not registered"
    assert said in page
    with METRICS.temporarily():
        register_metric("mine", lambda prediction, example: 1.0)
        assert said not in write_page([tmp_path], tmp_path / "all.html").read_text()


def test_a_row_that_is_gone_keeps_its_label(tmp_path):
    with ROWS.temporarily():
        register_row("gone", Row("a row of a plugin"))
        evaluated(*open_run(replace(films.SMALL, out=tmp_path), films.TASK), "gone")
    [table] = tables(read_records(tmp_path)[0])
    assert table.rows[0].label == "a row of a plugin"
    assert table.rows[0].record.seed is None
