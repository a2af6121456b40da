"""Grids of runs, their tables, their dry runs, and every script that is a table or a figure."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from films import SMALL, TASK, metric_of, networks_of
from harness.dry_run import dry_run
from harness.grid import Cell, Entry, Grid, Measured, records_of
from harness.panels import image, panels
from harness.results_file import Published, line_of
from harness.table import ExperimentTable, csv_of

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.errors import UserError
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.tst import TST
from ceil_jax.metrics.bootstrap import bootstrap_interval
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.report.table import Number, Table
from ceil_jax.store.cost import Cost
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.words import Overlap

FOLDER = Path(__file__).parents[2] / "experiments"
SCRIPTS = sorted(
    file.stem
    for file in FOLDER.glob("*.py")
    if "EXPERIMENT = Experiment(" in file.read_text("utf-8")
)
READERS = ("choice_log_likelihood", "choose", "generate", "log_likelihood")
pytestmark = pytest.mark.usefixtures("moved_for_trained_in_module")


class FilmGrid(Grid):
    """The grid of the test task, whatever a configuration names; "broken" fails."""

    def task(self, config):
        if config.task == "broken":
            raise UserError("broken: no file")
        return replace(TASK, name=config.task)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, moved_for_trained_in_module):
    """Top-k, EPR and CEIL of two seeds, and how many prompts the LM scored for one seed and for
    both."""
    config = replace(SMALL, out=tmp_path_factory.mktemp("runs"))
    scored = []
    score = TinyLM.choice_log_likelihood

    def scoring(lm, prompts, *rest, **options):
        scored.extend(prompts)
        return score(lm, prompts, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TinyLM, "choice_log_likelihood", scoring)
        grid = FilmGrid()
        counts = []
        entries = [
            Entry(method, "films", Cell(config, method)) for method in ("topk", "epr", "ceil")
        ]
        for seeds in ((0,), (0, 1)):
            measured, failed = grid.run(entries, seeds)
            counts.append(len(scored))
    assert not failed
    return config, grid, measured, counts


def silence(monkeypatch):
    for name in READERS:
        monkeypatch.setattr(TinyLM, name, lambda *a, **k: pytest.fail("the LM was asked"))


def test_seeds_of_training_share_what_the_lm_scored(runs):
    *_, measured, (one, both) = runs
    # the second seed's EPR and CEIL answer the queries; nothing that they learn from is scored
    # again
    assert 0 < both - one <= 2 * len(TASK.validation) < one
    assert [one.seeds for one in measured] == [(0,), (0, 1), (0, 1)]


def test_two_tables_compute_a_cell_once(runs, monkeypatch):
    config, _, measured, _ = runs
    silence(monkeypatch)
    again, _ = FilmGrid().run([Entry("CEIL", "MAP", Cell(config, "ceil"))], (0, 1))
    assert again[0].values == measured[2].values
    assert again[0].interval == measured[2].interval


def test_equal_work_is_one_stage(runs):
    config, grid, *_ = runs

    def same(method, other):
        return stage(other, method) == stage(config, method)

    def stage(config, method):
        return metric_of(grid.open(Cell(config, method)).setup, method).key

    loss = config.with_method(CEIL, loss="info_nce")
    assert same("topk", replace(loss, seed=1))
    assert same("epr", loss)
    assert not same("ceil", loss)
    for method in ("random", "topk", "epr"):
        assert same(method, replace(config, shortlist=7, trade_off=0.5))
    assert not any(
        same(method, replace(config, shortlist=7)) for method in ("mmr", "dpp", "epr_map", "ceil")
    )
    assert not any(same(method, replace(config, trade_off=0.5)) for method in ("dpp", "epr_map"))
    # CEIL depends on the training that it starts from
    longer = config.with_method(TST, epochs=9)
    assert same("ceil", longer)
    assert not same("tst", longer)
    from_tst = config.with_method(CEIL, start=TST())
    assert stage(from_tst.with_method(TST, epochs=9), "ceil") != stage(from_tst, "ceil")


def test_every_run_behind_a_table_is_recorded(runs):
    *_, measured, _ = runs
    records = list(records_of(measured, "table2"))
    assert [(one.method, one.seed) for one in records] == [
        ("topk", None),
        ("epr", 0),
        ("epr", 1),
        ("ceil", 0),
        ("ceil", 1),
    ]
    for one, value in zip(records, [v for entry in measured for v in entry.values], strict=True):
        assert one.value == pytest.approx(value, abs=1e-3)
        assert one.low <= one.value <= one.high
        assert (one.queries, one.bank, one.metric) == (30, 60, "accuracy")
        assert one.cost.tokens > 0
    assert len({one.name for one in records}) == 5
    assert len({one.texts for one in records}) == 1
    seeds = [one.statistics for one in records if one.method == "ceil"]
    assert np.allclose(np.stack(seeds), measured[-1].statistics, atol=1e-4)
    assert all(one.examples == 3 for one in records)
    assert line_of(records[0])["examples"] == 3
    # EPR's tokens are part of CEIL's cost
    assert records[3].cost.tokens > records[1].cost.tokens > records[0].cost.tokens


def test_what_does_not_fit_fails_or_is_missing_leaves_the_others(runs):
    config, grid, *_ = runs
    cut = Cell(replace(config, token_budget=30), "topk")
    too_large = Entry(
        "none", "films", Cell(replace(config, shots=7), "topk"), least_bank=len(TASK.train) + 1
    )
    entries = [Entry("top-k", "broken", Cell(replace(config, task="broken"), "topk")), too_large]
    [one], failed = grid.run([*entries, Entry("top-k", "films", cut)], (0,))
    shown = [len(row["examples"]) for row in grid.evaluate(cut).rows()]
    assert one.examples == np.mean(shown)
    assert 0 < one.examples < config.shots
    assert failed == {"broken": "broken: no file"}
    assert (
        "broken has no numbers: broken: no file" in ExperimentTable("t", [one], failed).markdown()
    )


def test_encoders_of_another_run(runs):
    config, grid, *_ = runs
    elsewhere = replace(config, shots=2)
    assert all(
        len(row["examples"]) == 2
        for row in grid.evaluate(Cell(elsewhere, "ceil", (config,))).rows()
    )
    found = [grid.open(Cell(elsewhere, "ceil", (config,))), grid.open(Cell(config, "ceil"))]
    used = [run.get(networks_of(setup, CEIL)).query.fingerprint for run, setup in found]
    assert used[0] == used[1]


def test_a_dry_run_does_nothing_and_names_the_stages(runs, monkeypatch, tmp_path):
    config, *_ = runs
    silence(monkeypatch)
    monkeypatch.setattr("harness.dry_run.Grid", FilmGrid)
    done, failed = dry_run(
        [Entry(name, "films", Cell(config, name)) for name in ("topk", "ceil")], (0, 1)
    )
    assert failed == {}
    assert not done.missing
    assert len(done.stages) > 10

    tuned = replace(config, out=tmp_path / "none", trade_off="tuned")
    elsewhere, _ = dry_run(
        [Entry(name, "films", Cell(tuned, name)) for name in ("topk", "ceil")], (0, 1)
    )
    assert not (tmp_path / "none").exists()
    assert {*elsewhere.missing} == {*elsewhere.stages}
    work = {stage.what: work for stage, work in elsewhere.missing.items()}
    assert work["scoring CEIL's candidate sets"].read > 24 * 5 * 20
    # 24 queries, 6 of them held out, twice in batches of 8
    assert {one.steps for one in work.values() if one.trained} == {5}
    assert "would run" in elsewhere.text()
    assert "H200" in elsewhere.text()

    changed = config.with_method(CEIL, loss="info_nce")
    partly, _ = dry_run([Entry("CEIL", "films", Cell(changed, "ceil"))], (0,))
    missing = {stage.what for stage in partly.missing}
    assert "training CEIL" in missing
    assert not missing & {
        "scoring CEIL's candidate sets",
        "training EPR",
    }


def record(method, task, seed, scores):
    scores = np.array(scores, float)
    return Published(
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


def measured_as(method, *seeds, task="films", trained_by=()):
    entry = Entry(method, task, Cell(RunConfig(task=task), method, trained_by), paper=12.5)
    records = [record(method, task, seed, scores) for seed, scores in enumerate(seeds)]
    return Measured(records, paper=entry.paper, entry=entry)


def test_means_and_paired_differences_over_seeds():
    one = measured_as("ceil", [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1])
    assert one.values == (50, 75, 100)
    assert one.interval.mean == (50 + 75 + 100) / 3
    assert one.sd == 25  # √((25² + 0 + 25²) / 2)
    # a resample may hold the seed alone that has half of them wrong; of the seeds' mean scores it
    # cannot
    assert one.interval.low < 50 == 100 * bootstrap_interval(np.array([1, 1, 2 / 3, 1 / 3])).low
    assert measured_as("topk", [1, 0]).sd is None
    ceil = measured_as("ceil", [1, 1, 0, 1], [1, 0, 0, 1])
    epr = measured_as("epr", [1, 0, 0, 0])
    assert ceil.minus(epr).mean == 37.5
    differences = bootstrap_interval(np.array([0.0, 1, 0, 1])).percent()
    assert measured_as("ceil", [1, 1, 0, 1]).minus(epr) == differences
    # of ceil's two seeds the second is no more than a quarter above epr
    assert ceil.minus(epr).low < differences.low or ceil.minus(epr).high < differences.high
    # the same on every query: no doubt, however few they are
    assert ceil.minus(ceil) == (0, 0, 0)


def test_a_table_in_markdown_and_csv():
    both = [measured_as("epr", [1, 0, 0, 0]), measured_as("ceil", [1, 1, 0, 1], [1, 0, 0, 1])]
    table = ExperimentTable("Films", both)
    text = table.markdown()
    assert "| ceil | 62.5 ± 17.7 (paper 12.5) |" in text
    assert "mean" not in text
    assert "| films | ceil | films | ceil | tiny | 4 | 0 1 | accuracy | 62.5 | 17.7 |" in text
    assert "| examples | paper |" in text
    assert "+37.5 (" in text
    header, epr, ceil = (line.split(",") for line in table.csv().splitlines())
    assert dict(zip(header, ceil, strict=True))["− EPR"].startswith("+37.5 (")
    assert dict(zip(header, epr, strict=True))["− EPR"] == ""


def test_csv_has_plain_numbers():
    table = Table(["task", "value", "n", "paper"], [["a, b", Number(1234.5, 3), 12345, None]])
    assert csv_of(table) == 'task,value,n,paper\n"a, b",1234.500,12345,\n'


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_panels_drawn_twice_are_the_same_file(kind, magic):
    figure, axes = panels(5)
    assert len(axes) == 5
    assert len(figure.axes) == 8
    figure, [axes] = panels(1)
    axes.plot([0, 1], [1, 0])
    first = image(figure, kind)
    assert first.startswith(magic)
    assert b"CreationDate" not in first
    assert image(figure, kind) == first


def test_gains_of_an_encoder_trained_elsewhere_are_over_the_same_training():
    other = (RunConfig(task="shows"),)
    own = measured_as("epr", [1, 1, 1, 0])
    topk = measured_as("topk", [1, 0, 0, 0])
    elsewhere = measured_as("epr", [0, 0, 1, 0], trained_by=other)
    ceil = measured_as("ceil", [1, 1, 1, 1], trained_by=other)
    table = ExperimentTable("Films", [own, elsewhere, topk, ceil])
    assert table.difference(ceil, "epr").mean == table.difference(ceil, "topk").mean == 75
    assert table.difference(elsewhere, "topk").mean == 0
    assert table.difference(elsewhere, "epr") is None


def test_rows_that_all_tasks_have_are_averaged():
    both = [measured_as("epr", [1, 0, 0, 0], task=task) for task in ("films", "shows")]
    both += [
        measured_as("ceil", [1, 1, 0, 0]),
        measured_as("ceil", [1, 1, 1, 1], [1, 1, 1, 0], task="shows"),
    ]
    text = ExperimentTable("Both", [*both, measured_as("topk", [0, 0, 0, 1])]).markdown()
    values = text[: text.index("## Less EPR")]
    less = text[text.index("## Less EPR") : text.index("## Every")]
    rows = {line.split(" | ")[0]: line.split(" | ")[-1] for line in values.splitlines()}
    assert rows["| epr"].startswith("25.0 (")
    assert rows["| ceil"].startswith("68.8 (")
    assert rows["| topk"] == " |"
    ceil = next(line for line in less.splitlines() if line.startswith("| ceil |"))
    assert ceil.split(" | ")[-1].startswith("+43.8 (")


SHORT = {
    "FORMS": ("text",),
    "SUBSETS": (3, 5),
    "SHORTLISTS": (6, 12),
    "EXAMPLES": (2, 3),
    "TRADE_OFFS": (0.05, 0.1),
}
"""Short ranges for the scripts."""


def flags(config):
    """SMALL as flags."""
    given = {"lm": "tiny", "encoder": "tiny", "limit": None, "bank-limit": None, "seeds": 0}
    given |= {name: getattr(config, name) for name in ("shots", "shortlist", "out")}
    for method in config.methods:
        settings = {name.replace("_", "-"): value for name, value in method.settings.items()}
        switches = {"in-batch-negatives"}
        given |= {
            f"{method.name}.{name}": value
            for name, value in settings.items()
            if value != () and name not in switches
        }
    return [str(word) for name, value in given.items() for word in (f"--{name}", value)]


@pytest.fixture
def experiment(runs, monkeypatch):
    """Return an experiment by its script's name: on films, with the module's grid, and figures that
    are laid out."""
    _, grid, *_ = runs
    monkeypatch.setattr("harness.command.Grid", lambda: grid)
    monkeypatch.setattr("harness.command.check_first", lambda config: None)
    monkeypatch.setitem(TASKS, "films", replace(TASKS["movie_reviews"], name="films"))

    def image(figure, kind):
        if kind == "png":
            figure.draw_without_rendering()
        return kind.encode()

    monkeypatch.setattr("harness.command.image", image)

    def loaded(name):
        module = importlib.import_module(name)
        for constant, value in SHORT.items():
            if hasattr(module, constant):
                monkeypatch.setattr(module, constant, value)
        if hasattr(module, "load_task"):
            monkeypatch.setattr(module, "load_task", lambda *name, **settings: TASK)
        return module.EXPERIMENT

    return loaded


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_runs_to_its_files(name, runs, experiment, capsys):
    config, *_ = runs
    assert experiment(name).main([*flags(config), "--tasks", "films"]) == 0
    [folder] = config.out.glob(f"{name}-*")
    assert {file.suffix for file in folder.glob(f"{name}.*")} == {".md", ".csv", ".png", ".pdf"}
    assert (folder / f"{name}.csv").read_text().count("\n") > 2
    assert "| films |" in (folder / f"{name}.md").read_text()
    assert name in capsys.readouterr().out


def test_what_is_made_short_is_something_that_a_script_ranges_over():
    modules = [importlib.import_module(name) for name in SCRIPTS]
    assert all(any(hasattr(module, name) for module in modules) for name in SHORT)


def test_a_table_of_some_of_its_methods_in_a_file_of_records(runs, experiment, capsys, tmp_path):
    config, *_ = runs
    file = tmp_path / "records.jsonl"
    arguments = [
        *flags(config),
        "--tasks",
        "films",
        "--method",
        "topk",
        "random",
        "--record",
        str(file),
    ]
    assert experiment("table2").main(arguments) == 0
    text = capsys.readouterr().out
    assert "| random |" in text
    assert "| dense top-k |" in text
    assert "Cost of the first seed" in text
    assert "| EPR |" not in text
    assert "nan" not in text
    assert file.read_text().count('"experiment": "table2"') == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "geoquerry"], "table2: unknown task 'geoquerry'; did you mean 'geoquery'?"),
        (["--method", "epr", "ciel"], "table2: unknown method 'ciel'; did you mean 'ceil'?"),
        (["--scale", "tinny"], "table2: unknown scale 'tinny'; did you mean 'tiny'?"),
        (
            ["--tasks", "geoquery"],
            "table2: no task has numbers: geoquery: task 'geoquery' has no hub copy",
        ),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    main = importlib.import_module("table2").EXPERIMENT.main
    assert main(["--lm", "tiny", "--encoder", "tiny", *arguments]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith(message)
    with pytest.raises(SystemExit, match="2"):
        main(["--tsks", "geoquery"])


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_models_that_cannot_be_had_are_named_before_any_work(dry, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    looked_for = []
    monkeypatch.setattr("harness.command.check_first", looked_for.append)
    monkeypatch.setattr(Encoder, "encode", lambda *a, **k: pytest.fail("encoded"))
    lm, encoder = ("other/lm", "tiny") if dry else ("tiny", "other/encoder")
    models = ["--lm", lm, "--encoder", encoder]
    arguments = [
        "--task",
        "movie_reviews",
        "--limit",
        "2",
        "--bank-limit",
        "40",
        "--out",
        str(tmp_path),
    ]
    more = ["--method", "topk", "--lms", "third"]
    assert (
        importlib.import_module("table2").EXPERIMENT.main([*arguments, *models, *more, *dry]) == 2
    )
    assert [(one.lm, one.encoder) for one in looked_for] == [(lm, encoder), ("third", encoder)]
    printed = capsys.readouterr()
    last = printed.err.strip().splitlines()[-1]
    if dry:
        assert last == "table2: no task can run"
        assert "movie_reviews cannot run: " in printed.out
        assert "other/lm" in printed.out
    else:
        assert last.startswith(
            "table2: no task has numbers: movie_reviews: unknown encoder 'other/encoder'"
        )
        assert "all-MiniLM-L6-v2" in last
