"""Grids of runs, their tables, their dry runs."""

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, TASK
from table2 import costs_of

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.metrics import metric_named
from ceil_jax.metrics.bootstrap import bootstrap_interval
from ceil_jax.pipeline.config import SCALES, RunConfig
from ceil_jax.pipeline.methods import TRAINED
from ceil_jax.pipeline.records import Record
from ceil_jax.pipeline.results_file import line_of
from ceil_jax.report.dry_run import plan
from ceil_jax.report.experiment_table import ExperimentTable
from ceil_jax.report.grid import Cell, Entry, Grid, Measured, records_of
from ceil_jax.store.rows import Cost
from ceil_jax.tasks.example import Example
from ceil_jax.tasks.words import Overlap
from ceil_jax.training.loop import held_out_count, step_count

FOLDER = Path(__file__).parents[2] / "experiments"
EXPERIMENTS = [
    *sorted(FOLDER.glob("[tf][ai][bg]*[0-9].py")),
    *(
        FOLDER / f"{name}.py"
        for name in ("diagnosis", "epr_variants", "held_out_ranking", "ideas", "one_for_all")
    ),
]


class FilmGrid(Grid):
    """The grid of the test task, whatever a configuration names; "broken" fails."""

    def task(self, config):
        if config.task == "broken":
            raise UserError("broken: no file")
        return replace(TASK, name=config.task)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with EPR and CEIL of two seeds, and the names of its stages."""
    config = replace(SMALL, out=tmp_path_factory.mktemp("runs"))
    grid = FilmGrid()
    entries = [Entry(method, "films", Cell(config, method)) for method in ("topk", "epr", "ceil")]
    measured, failed = grid.run(entries, (0, 1))
    assert not failed
    return config, grid, measured


def stages(config, kind):
    return {path.name for path in config.out.glob(f"{kind}-*")}


def test_seeds_of_training_share_what_the_lm_read(runs):
    config, _, measured = runs
    # one for EPR's candidates, one for CEIL's subsets, though there are two EPRs and two CEILs
    assert len(stages(config, "scores")) == 2
    assert len(stages(config, "epr")) == len(stages(config, "ceil")) == 2
    assert [one.seeds for one in measured] == [(0,), (0, 1), (0, 1)]


def test_two_tables_compute_a_cell_once(runs, monkeypatch):
    config, _, measured = runs
    for name in ("choice_log_likelihood", "choose", "generate", "log_likelihood"):
        monkeypatch.setattr(TinyLM, name, lambda *a, **k: pytest.fail("the LM was asked again"))
    monkeypatch.setattr("ceil_jax.training.ceil.train_ceil", lambda *a: pytest.fail("trained again"))
    again, _ = FilmGrid().run([Entry("CEIL", "MAP", Cell(config, "ceil"))], (0, 1))
    assert again[0].values == measured[2].values
    assert again[0].interval == measured[2].interval


def test_a_cell_is_what_its_method_depends_on(runs):
    config, *_ = runs
    other = replace(config, ceil=replace(config.ceil, loss="info_nce"), seed=1)
    assert Cell(config, "topk").essential() == Cell(other, "topk").essential()
    assert Cell(replace(other, seed=0), "epr").essential() == Cell(config, "epr").essential()
    wider = replace(config, shortlist=7, trade_off=0.5)
    for method in ("random", "topk", "epr"):
        assert Cell(wider, method).essential() == Cell(config, method).essential()
    for method in ("mmr", "dpp", "epr_map", "ceil_topk", "ceil"):
        assert Cell(wider, method).essential() != Cell(config, method).essential()
    assert Cell(other, "ceil").essential() != Cell(config, "ceil").essential()
    longer = replace(config, tst=replace(config.tst, epochs=9))
    from_tst = replace(config.ceil, initial="tst")
    assert Cell(longer, "ceil").essential() == Cell(config, "ceil").essential()
    assert Cell(longer, "tst").essential() != Cell(config, "tst").essential()
    assert (
        Cell(replace(longer, ceil=from_tst), "ceil").essential()
        != Cell(replace(config, ceil=from_tst), "ceil").essential()
    )
    assert Cell(config, "ceil", (config,)).essential() == Cell(config, "ceil").essential()


def test_the_examples_that_fitted_are_counted(runs):
    config, grid, _ = runs
    entry = Entry("top-k", "films", Cell(replace(config, token_budget=30), "topk"))
    [one], failed = grid.run([entry], (0,))
    shown = [len(row["examples"]) for row in grid.evaluate(entry.cell).rows]
    assert not failed and one.examples == np.mean(shown) and 0 < one.examples < config.shots
    [record] = records_of([one], "table2")
    assert record.examples == round(one.examples, 2)


def test_a_task_that_fails_leaves_the_others(runs):
    config, grid, _ = runs
    broken = replace(config, task="broken")
    entries = [Entry("top-k", task.task, Cell(task, "topk")) for task in (broken, config)]
    measured, failed = grid.run(entries, (0,))
    assert [one.entry.task for one in measured] == ["films"]
    assert failed == {"broken": "broken: no file"}
    assert "broken has no numbers: broken: no file" in ExperimentTable("t", measured, failed).markdown()


def test_encoders_of_another_run(runs):
    config, grid, _ = runs
    elsewhere = replace(config, shots=2)
    result = grid.evaluate(Cell(elsewhere, "ceil", (config,)))
    assert all(len(row["examples"]) == 2 for row in result.rows)
    borrowed = grid.run_of(elsewhere, (config,)).encoders("ceil").query.fingerprint
    assert borrowed == grid.run_of(config).encoders("ceil").query.fingerprint


def record(method, task, seed, scores):
    scores = np.array(scores, float)
    return Record(
        name=f"run-{seed}",
        task=task,
        method=method,
        metric="accuracy",
        lm="tiny",
        config={"seed": seed},
        queries=len(scores),
        bank=60,
        texts="texts-0",
        value=100 * scores.mean(),
        cost=Cost(1.0, 2),
        seed=seed,
        examples=3.0,
        statistics=scores[:, None],
        overlap=Overlap(np.arange(len(scores)), scores > 2, scores > 2),
    )


def measured_as(method, *seeds, task="films"):
    entry = Entry(method, task, Cell(RunConfig(task=task), method), paper=12.5)
    records = [record(method, task, seed, scores) for seed, scores in enumerate(seeds)]
    return Measured(records, paper=entry.paper, entry=entry)


def test_one_encoder_is_trained_on_the_scores_of_several_tasks(runs, monkeypatch):
    config, *_ = runs
    grid = FilmGrid()
    others = tuple(replace(config, task=name) for name in ("films", "shows"))
    together = grid.run_of(config, others)
    for name in ("choice_log_likelihood", "log_likelihood"):
        monkeypatch.setattr(TinyLM, name, lambda *a, **k: pytest.fail("the LM scores nothing twice"))
    trainer = together.trainer
    scored, [films, _] = trainer.data.epr, trainer.data.trainers
    half = len(films.data.epr.instances)
    assert len(scored.instances) == 2 * half == len(scored.rows)
    bank = len(films.data.context)
    assert (scored.candidates.shortlist[half:] == films.data.epr.candidates.shortlist + bank).all()
    assert len(trainer.data.context) == 2 * bank
    for source in ("epr", "ceil"):
        # trained, and not what the task's own scores give
        assert together.trainer.history(source) != grid.run_of(config).trainer.history(source)
    # another seed of training has the same sets, and its λ from the first seed's encoders
    seeded = grid.run_of(*Cell(config, "ceil", others).seeded(1)[::2])
    assert seeded.trainer.data.epr.stage == scored.stage
    assert seeded.trainer.first.config.seed == config.data_seed


def test_tasks_trained_on_together_need_sets_of_one_size(runs):
    config, *_ = runs
    grid = FilmGrid()
    fewer = replace(config, epr=replace(config.epr, candidates=4))
    with pytest.raises(UserError, match="sets of one size, not 4 × 4 × 1, 6 × 6 × 1"):
        grid.run_of(config, (config, fewer)).encoders("epr")


def test_mean_and_standard_deviation_over_seeds():
    one = measured_as("ceil", [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1])
    assert one.values == (50, 75, 100)
    assert one.interval.mean == (50 + 75 + 100) / 3
    assert one.sd == 25  # √((25² + 0 + 25²) / 2)
    # a resample may hold the seed alone that has half of them wrong; of the seeds' mean scores it cannot
    assert one.interval.low < 50 == 100 * bootstrap_interval(np.array([1, 1, 2 / 3, 1 / 3])).low
    assert measured_as("topk", [1, 0]).sd is None


def test_the_paired_interval_is_of_the_differences():
    ceil = measured_as("ceil", [1, 1, 0, 1], [1, 0, 0, 1])
    epr = measured_as("epr", [1, 0, 0, 0])
    assert ceil.minus(epr).mean == 37.5
    once = measured_as("ceil", [1, 1, 0, 1])
    differences = bootstrap_interval(np.array([0.0, 1, 0, 1])).percent()
    assert once.minus(epr) == differences
    # of ceil's two seeds the second is no more than a quarter above epr
    assert ceil.minus(epr).low < differences.low or ceil.minus(epr).high < differences.high
    # the same on every query: no doubt, however few they are
    assert ceil.minus(ceil) == (0, 0, 0)


def test_corpus_metrics_are_resampled_as_such():
    predictions, golds = ["ls -la /home", "cat file.txt", "rm"], ["ls -l /home", "cat file", "rmdir a b c"]
    examples = [Example(str(i), "", gold) for i, gold in enumerate(golds)]
    for name in ("char_bleu", "bleu"):
        metric = metric_named(name)
        columns = metric.statistics(metric.per_example(predictions, examples), predictions, examples)
        # twice the first, once the third: what a resample may be
        sums, again = 2 * columns[0] + columns[2], [0, 0, 2]
        expected = metric.corpus([predictions[i] for i in again], [examples[i] for i in again])
        assert metric.from_sums(sums, 3) == pytest.approx(expected)
        assert metric.from_sums(columns.sum(axis=0), 3) == pytest.approx(metric.corpus(predictions, examples))
        interval = bootstrap_interval(columns, metric.from_sums, resamples=50)
        assert interval.low <= interval.mean <= interval.high


def test_a_table_in_markdown_and_csv():
    table = ExperimentTable(
        "Films", [measured_as("epr", [1, 0, 0, 0]), measured_as("ceil", [1, 1, 0, 1], [1, 0, 0, 1])]
    )
    text = table.markdown()
    assert "| ceil | 62.5 ± 17.7 (paper 12.5) |" in text
    assert "| films | ceil | films | 4 | 2 | accuracy | 62.5 | 17.7 |" in text
    assert "| #ICE | paper |" in text
    assert "+37.5 (" in text
    header, epr, ceil = (line.split(",") for line in table.csv().splitlines())
    assert len(header) == len(epr) == len(ceil)
    assert dict(zip(header, ceil, strict=True))["minus_epr"] == "37.500"
    assert dict(zip(header, epr, strict=True))["minus_epr"] == ""


def test_gains_of_an_encoder_trained_elsewhere_are_over_the_same_training():
    def by(method, trained_by, *scores):
        one = measured_as(method, *scores)
        return replace(
            one, entry=one.entry.__class__(method, "films", one.entry.cell._replace(trained_by=trained_by))
        )

    other = (RunConfig(task="shows"),)
    own, elsewhere = by("epr", (), [1, 1, 1, 0]), by("epr", other, [0, 0, 1, 0])
    ceil, topk = by("ceil", other, [1, 1, 1, 1]), by("topk", (), [1, 0, 0, 0])
    table = ExperimentTable("Films", [own, elsewhere, topk, ceil])
    assert table.difference(ceil, "epr").mean == 75
    assert table.difference(ceil, "topk").mean == 75
    assert table.difference(elsewhere, "topk").mean == 0
    assert table.difference(elsewhere, "epr") is None


def test_rows_that_all_tasks_have_are_averaged():
    both = [measured_as("epr", [1, 0, 0, 0], task=task) for task in ("films", "shows")]
    both += [
        measured_as("ceil", [1, 1, 0, 0]),
        measured_as("ceil", [1, 1, 1, 1], [1, 1, 1, 0], task="shows"),
    ]
    text = ExperimentTable("Both", [*both, measured_as("topk", [0, 0, 0, 1])]).markdown()
    values, less = text[: text.index("## Less EPR")], text[text.index("## Less EPR") : text.index("## Every")]
    rows = {line.split(" | ")[0]: line.split(" | ")[-1] for line in values.splitlines()}
    assert rows["| epr"].startswith("25.0 (") and rows["| ceil"].startswith("68.8 (")
    assert rows["| topk"] == " |"
    ceil = next(line for line in less.splitlines() if line.startswith("| ceil |"))
    assert ceil.split(" | ")[-1].startswith("+43.8 (")
    assert "mean" not in ExperimentTable("One", both[:1]).markdown()


def wanted(config):
    """Two entries, and one that needs a larger bank than the task has."""
    larger = Entry("none", "films", Cell(replace(config, shots=7), "topk"), least_bank=len(TASK.train) + 1)
    return [larger] + [Entry(name, "films", Cell(config, name)) for name in ("topk", "ceil")]


def test_what_the_bank_is_too_small_for_is_left_out(runs):
    config, grid, _ = runs
    measured, failed = grid.run(wanted(config), (0,))
    assert [one.entry.row for one in measured] == ["topk", "ceil"] and not failed


def test_a_dry_run_does_nothing_and_names_the_stages(runs, monkeypatch, tmp_path):
    config, *_ = runs
    for name in ("choice_log_likelihood", "choose", "generate", "log_likelihood"):
        monkeypatch.setattr(TinyLM, name, lambda *a, **k: pytest.fail("the LM was asked"))
    monkeypatch.setattr("ceil_jax.report.dry_run.Grid", FilmGrid)
    done = plan(wanted(config), (0, 1))
    assert all(work.done for work in done.stages.values())
    training = {f"training {name}, seed {seed}" for name in ("EPR", "CEIL") for seed in (0, 1)}
    scoring = {"scoring EPR candidates", "scoring CEIL subsets"}
    assert training | scoring < {work.what for work in done.stages.values()}

    elsewhere = plan(wanted(replace(config, out=tmp_path / "none")), (0, 1))
    assert not (tmp_path / "none").exists()
    # what is not known yet is listed all the same; runs that chose alike share stages once they are done
    assert {work.what for work in done.stages.values()} <= {work.what for work in elsewhere.stages.values()}
    assert not any(work.done for work in elsewhere.stages.values())
    read = {work.what: work.read for work in elsewhere.stages.values()}
    assert read["scoring CEIL subsets"] > 24 * 5 * 20
    text = elsewhere.text()
    assert "would run" in text and "H100" in text and "this machine (from its speed" in text
    assert text.startswith("encoder tiny, LM tiny\n")
    # 24 queries, 6 of them held out, twice in batches of 8
    assert elsewhere.stages.keys() and {w.steps for w in elsewhere.stages.values() if w.trained} == {5}

    changed = replace(config, ceil=replace(config.ceil, loss="info_nce"))
    partly = plan([Entry("CEIL", "films", Cell(changed, "ceil"))], (0,))
    state = {work.what: work.done for work in partly.stages.values()}
    assert state["scoring CEIL subsets"] and state["training EPR, seed 0"]
    assert not state["training CEIL, seed 0"] and not state["CEIL on films"]


def test_a_dry_run_logs_no_trade_off_that_was_tuned_on_guesses(runs, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("ceil_jax.report.dry_run.Grid", FilmGrid)
    config = replace(runs[0], out=tmp_path / "none", trade_off="tuned")
    with caplog.at_level("INFO"):
        planned = plan([Entry("DPP-MAP", "films", Cell(config, "dpp"))], (0,))
    assert "scoring λ of base" in {work.what for work in planned.stages.values()}
    assert "λ =" not in caplog.text


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EXPERIMENT


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_script_runs_to_its_files(path, runs, tmp_path, moved_for_trained, monkeypatch, capsys):
    config = replace(runs[0], out=shutil.copytree(runs[0].out, tmp_path / "runs"))
    monkeypatch.setattr("ceil_jax.cli.experiment.Grid", FilmGrid)
    # the task is made up here: no file or hub has it
    monkeypatch.setattr("ceil_jax.cli.experiment.check_first", lambda config: None)
    monkeypatch.setattr("ceil_jax.cli.experiment.task_spec", lambda name: replace(TASK, name=name))
    experiment = script(path)
    monkeypatch.setitem(
        experiment.entries.__globals__,
        "task_spec",
        lambda name: type("Spec", (), {"paper": {}, "metric": "accuracy"}),
    )
    short = {"SUBSETS": (3, 5), "SHORTLISTS": (6, 12), "EXAMPLES": (2, 3), "TRADE_OFFS": (0.05, 0.1)}
    short |= {"BUDGETS": (40, 60)}
    for name, value in short.items():
        monkeypatch.setitem(experiment.entries.__globals__, name, value)
    tasks = ["films", "shows"] if experiment.name == "one_for_all" else ["films"]
    assert experiment.main(experiment_arguments(config, tasks)) == 0
    [folder] = config.out.glob(f"{experiment.name}-*")
    assert (folder / f"{experiment.name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / f"{experiment.name}.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / f"{experiment.name}.csv").read_text().count("\n") > 2
    assert "| films |" in (folder / f"{experiment.name}.md").read_text()
    assert experiment.name in capsys.readouterr().out


def test_every_run_behind_a_table_is_recorded(runs):
    *_, measured = runs
    records = list(records_of(measured, "table2"))
    assert [(one.method, one.seed) for one in records] == [
        *(("topk", None), ("epr", 0), ("epr", 1), ("ceil", 0), ("ceil", 1))
    ]
    for one, value in zip(records, [v for entry in measured for v in entry.values], strict=True):
        assert one.value == pytest.approx(value, abs=1e-3) and one.low <= one.value <= one.high
        assert (one.queries, one.bank, one.metric) == (30, 60, "accuracy") and one.cost.tokens > 0
    assert len({one.name for one in records}) == 5
    assert len({one.texts for one in records}) == 1
    seeds = [one.statistics for one in records if one.method == "ceil"]
    assert np.allclose(np.stack(seeds), measured[-1].statistics, atol=1e-4)
    assert all(one.examples == 3 for one in records) and line_of(records[0])["examples"] == 3
    # EPR's tokens are part of CEIL's cost
    assert records[3].cost.tokens > records[1].cost.tokens > records[0].cost.tokens

    costs = costs_of(measured)
    assert len(costs.header) == 5 and [row for row, *_ in costs.rows] == [one.entry.row for one in measured]
    tokens = [sum(number.value for number in cells[1:3]) for cells in costs.rows]
    assert tokens == [records[place].cost.tokens for place in (0, 1, 3)]


def experiment_arguments(config, tasks):
    """SMALL as flags."""
    flags = {
        "--lm": "tiny",
        "--encoder": "tiny",
        "--limit": "None",
        "--bank-limit": "None",
        "--shots": config.shots,
        "--shortlist": config.shortlist,
        "--out": config.out,
        "--seeds": 0,
    }
    for part in TRAINED:
        settings = vars(getattr(config, part))
        flags |= {
            f"--{part}.{name.replace('_', '-')}": value for name, value in settings.items() if value != ()
        }
    return ["--tasks", *tasks, *(str(part) for flag in flags.items() for part in flag)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "geoquerry"], "table2: unknown task 'geoquerry'; did you mean 'geoquery'?"),
        (["--retriever", "epr", "ciel"], "table2: unknown method 'ciel'; did you mean 'ceil'?"),
        (["--scale", "tinny"], "table2: unknown scale 'tinny'; did you mean 'tiny'?"),
        (["--tasks", "geoquery"], "table2: no task has numbers: geoquery: task 'geoquery' has no hub copy"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    [path] = [path for path in EXPERIMENTS if path.stem == "table2"]
    assert script(path).main(["--lm", "tiny", "--encoder", "tiny", *arguments]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith(message)


def test_the_papers_scale_names_the_papers_models():
    paper = SCALES["paper"]
    assert paper.encoder == "google-bert/bert-base-uncased" and paper.lm == "EleutherAI/gpt-neo-2.7B"
    assert (paper.epr.epochs, paper.ceil.epochs, paper.shots) == (120, 30, 50)
    # the released code's steps on MRPC, 26 an epoch of its 3,302 training queries, but for the last of each epoch
    steps = [
        step_count(3668 - held_out_count(3668), one.epochs, one.batch_size) for one in (paper.epr, paper.ceil)
    ]
    assert steps == [3096, 774]


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_models_that_cannot_be_had_are_named_before_any_work(dry, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("ceil_jax.cli.experiment.check_first", lambda config: None)
    monkeypatch.setattr(Encoder, "encode", lambda *a, **k: pytest.fail("encoded"))
    [path] = [path for path in EXPERIMENTS if path.stem == "table6"]
    small = ["--task", "scan.simple", "--limit", "4", "--bank-limit", "60", "--out", str(tmp_path)]
    models = ["--encoder", "tiny"] if dry else []
    assert script(path).main(["--scale", "paper", *small, *models, *dry]) == 2
    printed = capsys.readouterr()
    last = printed.err.strip().splitlines()[-1]
    if dry:
        assert last == "table6: no task can run"
        assert (
            "encoder tiny, LM EleutherAI/gpt-neo-2.7B" in printed.out and "--lm SmolLM2-135M" in printed.out
        )
    else:
        assert last.startswith("table6: no task has numbers: scan.simple: unknown encoder 'google-bert/")
        assert "all-MiniLM-L6-v2" in last


@pytest.mark.parametrize(
    ("name", "methods", "rows", "besides"),
    [
        ("table2", ["topk", "random"], ["random", "dense top-k"], "Cost, means over tasks"),
    ],
)
def test_a_table_of_some_of_its_methods(name, methods, rows, besides, runs, monkeypatch, capsys):
    config, grid, _ = runs
    monkeypatch.setattr("ceil_jax.cli.experiment.Grid", lambda: grid)
    monkeypatch.setattr("ceil_jax.cli.experiment.check_first", lambda config: None)
    monkeypatch.setattr("ceil_jax.cli.experiment.task_spec", lambda name: replace(TASK, name=name))
    [path] = [path for path in EXPERIMENTS if path.stem == name]
    experiment = script(path)
    for constant, value in {
        "task_spec": lambda name: type("Spec", (), {"paper": {}}),
    }.items():
        monkeypatch.setitem(experiment.entries.__globals__, constant, value)
    arguments = [*experiment_arguments(config, ["films"]), "--retriever", *methods]
    assert experiment.main(arguments) == 0
    text = capsys.readouterr().out
    assert all(f"| {row} |" in text for row in rows)
    assert not any(f"| {row} |" in text for row in ("EPR", "CEIL"))
    assert besides in text and "nan" not in text


def test_a_mistyped_flag_exits_with_2(capsys):
    [path] = [path for path in EXPERIMENTS if path.stem == "table2"]
    with pytest.raises(SystemExit) as stopped:
        script(path).main(["--tsks", "geoquery"])
    assert stopped.value.code == 2
