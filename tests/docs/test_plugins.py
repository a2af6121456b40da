"""The pages on additions from outside are followed: their files, their flags, a run."""

import importlib
import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from films import SMALL, TASK, choice_of_row, choose, evaluated, metric_of

from ceil_jax import CeilSelector
from ceil_jax.cli.main import main
from ceil_jax.errors import UserError
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.export import export_row, selector_of
from ceil_jax.pipeline.heads import cross_fit
from ceil_jax.pipeline.plan import plan
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.compare import compare
from ceil_jax.report.write import write_page
from ceil_jax.training.free.encoder import HEADS
from ceil_jax.tuning.candidates import candidates, searched
from ceil_jax.tuning.config import TuneConfig

DOCS = Path(__file__).parents[2] / "docs"
FEW = replace(TASK, validation=TASK.validation[:4])


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Write a page's file to the current folder, and return what is run with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(page, name):
        text = (DOCS / page).read_text("utf-8")
        [code] = re.findall(
            rf"`{name}\.py`:\n\n<!-- run -->\n```python\n(.*?)^```$", text, re.M | re.S
        )
        (tmp_path / f"{name}.py").write_text(code)
        written.append(name)
        return replace(SMALL, out=tmp_path / "runs")

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_function_that_returns_an_lm(plugin):
    config = replace(plugin("new_lm.md", "my_lm"), lm="my_lm:letters")
    run, setup = open_run(config, TASK)
    assert setup.lm.key == "letters"
    found = evaluated(run, setup, "topk")
    assert len(found.rows()) == len(TASK.validation)
    assert setup.lm.get().tokens_read > 0


def test_an_order_of_examples(plugin):
    config = replace(plugin("extending.md", "my_orders"), order="ends")
    with pytest.raises(UserError, match="unknown order of examples 'ends'"):
        metric_of(open_run(config, TASK).setup, "topk")
    importlib.import_module("my_orders")
    found = evaluated(*open_run(config, TASK), "topk")
    similarities = [[shown[1] for shown in row["examples"]] for row in found.rows()]
    # three examples: the second, the least and the most similar
    assert all(row == [sorted(row)[1], sorted(row)[0], sorted(row)[2]] for row in similarities)


def test_retrievers(plugin):
    config = plugin("extending.md", "my_retrievers")
    importlib.import_module("my_retrievers")
    run, setup = open_run(config, FEW)
    for name in ("overlap", "calm"):
        picks = choose(run, setup, name, TASK.train[:5])
        for query, row in zip(TASK.train, picks, strict=False):
            assert len(row) == 3
            assert query.id not in {pick.id for pick in row}
    assert ROWS["overlap"].label == "word overlap"
    assert ROWS["calm"].exports
    assert choice_of_row(setup, "calm").trade_off == 1.0


def test_the_method_is_one_file_with_one_import_of_ours(plugin, tmp_path):
    plugin("extending.md", "my_method")
    lines = (tmp_path / "my_method.py").read_text().splitlines()
    assert len([line for line in lines if "ceil_jax" in line]) == 1


def test_a_method_works_wherever_the_packages_own_do(plugin, tmp_path, moved_for_trained):
    config = plugin("extending.md", "my_method")
    importlib.import_module("my_method")
    run, setup = open_run(config, FEW)

    planned = plan(run, [metric_of(setup, "relative")])
    [training] = [work for stage, work in planned.items() if stage.what == "training relative EPR"]
    # 60 of the 100 queries are there, a quarter is held out: 6 epochs of 45 in batches of 16
    assert training.steps == 17
    assert training.trained > 0
    assert planned.tokens > 0

    table = compare(run, setup, ["topk", "relative"])
    assert [row.label for row in table.rows] == ["dense top-k", "relative EPR"]
    assert [(one.better, one.worse) for one in table.differences] == [
        ("relative EPR", "dense top-k")
    ]
    record = table.rows[1].record
    assert record.preparing.tokens > 0
    assert record.seed == 0
    assert record.config["relative"]
    assert "relative EPR" in table.write_report(tmp_path / "report").read_text()
    assert "relative EPR" in write_page([config.out], tmp_path / "all.html").read_text()
    assert run.missing([metric_of(setup, "relative")]) == []

    row = setup.row("relative")
    assert "relative EPR on films" in export_row(run, setup, row, tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert "relative EPR: 60 queries × 10 examples" in selector.card.training_data
    for query, picks in zip(
        FEW.validation, choose(run, setup, "relative", FEW.validation), strict=True
    ):
        chosen = [example.id for example in selector.select(query, k=3)]
        assert chosen == [pick.id for pick in reversed(picks)]

    search = TuneConfig(method=("topk", "relative"))
    searched_rows = searched(search, config, FEW)
    assert [row.name for row in searched_rows] == ["topk", "relative"]
    [candidate] = [one for one in candidates(searched_rows, (8,), search) if one.prepared]
    assert candidate.row == row
    assert candidate.prepared


def test_a_method_is_a_program_of_steps(plugin, tmp_path, moved_for_trained):
    config = plugin("extending.md", "my_program")
    module = importlib.import_module("my_program")
    listed = {row.id: [other.id for other in TASK.train if other != row][-4:] for row in TASK.train}
    table = tmp_path / "candidates.json"
    table.write_text(json.dumps(listed))
    small = module.FromTable(instances=12, candidates=3, positives=1, epochs=1, batch_size=4)
    run, setup = open_run(config.using(small), FEW)
    row = setup.row("from_table")
    training = StepsOf(setup).learnt(row.method).training
    assert plan(run, [training]).tokens > 0
    assert run.missing([training])
    record = evaluated(run, setup, "from_table")
    assert record.preparing.tokens > 0
    queries = StepsOf(setup).training_queries(12).examples
    ids = [
        [TASK.train[i].id for i in of_query]
        for of_query in run.get(training.scored).candidates.shortlist
    ]
    assert ids == [listed[query.id][:3] for query in queries]
    # another seed trains on the same scores, another table on others
    other = open_run(replace(config.using(small), seed=1), FEW).setup
    again = StepsOf(other).learnt(row.method).training
    assert again.scored == training.scored
    assert again != training
    assert "12 queries × 3 examples" in selector_of(run, setup, row).card.training_data
    table.write_text(json.dumps({id: [*ids[1:], id] for id, ids in listed.items()}))
    anew = StepsOf(setup).learnt(row.method).training.scored
    assert anew != training.scored
    run.get(anew.sets)
    table.write_text(json.dumps({id: [id, *ids] for id, ids in listed.items()}))
    with pytest.raises(UserError, match=r"Listed: a candidate set of training query .* itself"):
        run.get(StepsOf(setup).learnt(row.method).training)


def test_a_head_of_a_new_kind_is_fitted_cross_fitted_exported_and_opened(plugin, tmp_path):
    config = plugin("extending.md", "my_head")
    importlib.import_module("my_head")
    run, setup = open_run(config.with_method(EPR, start=ROWS["first_words"].method), FEW)
    head = StepsOf(setup).learnt(ROWS["first_words"].method).head
    assert run.get(head).words == ("bad", "good")
    assert run.get(cross_fit(head)).shape == (60, 3)
    bank = FEW.train[:6]
    picks = choose(run, setup, "first_words", bank)
    for query, chosen in zip(bank, picks, strict=True):
        assert [FEW.train[pick.position].output for pick in chosen] == [query.output] * 3

    export_row(run, setup, setup.row("first_words"), tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert "first words: the outputs of 60 examples" in selector.card.training_data
    for query, picks in zip(
        FEW.validation, choose(run, setup, "first_words", FEW.validation), strict=True
    ):
        chosen = {example.id for example in selector.select(query, k=3)}
        assert chosen == {pick.id for pick in picks}
    with HEADS.temporarily():
        HEADS.pop("FirstWords")
        with pytest.raises(UserError, match=r"'FirstWords'; expected one of LabelHead, "):
            CeilSelector.from_pretrained(tmp_path / "selector")


FILMS = [
    "compare",
    "--task",
    "movie_reviews",
    "--lm",
    "tiny",
    "--encoder",
    "tiny",
    "--limit",
    "6",
    "--bank-limit",
    "60",
]


def test_its_settings_are_flags(plugin, tmp_path, capsys, monkeypatch, moved_for_trained):
    plugin("extending.md", "my_method")
    monkeypatch.setenv("COLUMNS", "100")  # too few for two columns of help
    with pytest.raises(SystemExit):
        main(["compare", "--plugin", "my_method", "--help-verbose"])
    help_text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--relative.share FLOAT The share of an example's mean score" in help_text
    assert "--relative.start METHOD" in help_text

    flags = [*FILMS, "--plugin", "my_method", "--method", "relative", "--out", str(tmp_path / "o")]
    others = ["--relative.share", "0.5", "--relative.start", "free", "--relative.epochs", "2"]
    assert main([*flags, *others, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "training relative EPR" in planned
    assert "would run: about" in planned
    assert not (tmp_path / "o").exists()
    assert main([*flags, *others, "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert row["label"] == "relative EPR from free"
    assert row["training_tokens"] > 0
    [key] = [json.loads(file.read_text()) for file in (tmp_path / "o").glob("run-*/key.json")]
    settings = key.get("config", key)["relative"]
    assert (settings["share"], settings["start"], settings["epochs"]) == (0.5, "free", 2)

    assert main([*flags, "--relative.start", "fre"]) == 2
    assert "did you mean 'free'" in capsys.readouterr().err


def test_an_installed_package_registers_by_its_entry_point(plugin, tmp_path, monkeypatch):
    plugin("extending.md", "my_retrievers")
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ceil_jax.plugins]\nmine = my_retrievers\n")
    from ceil_jax.registry import load_plugins

    load_plugins.cache_clear()
    assert "overlap" not in ROWS
    load_plugins()
    assert "overlap" in ROWS
    (info / "entry_points.txt").write_text("[ceil_jax.plugins]\nmine = gone\n")
    load_plugins.cache_clear()
    with pytest.raises(UserError, match="the plugin gone of the installed package my-package"):
        load_plugins()
    load_plugins.cache_clear()


def test_a_folder_of_an_earlier_version_is_told_of_once(tmp_path, caplog):
    (tmp_path / "chosen-0123").mkdir()
    (tmp_path / "chosen-0123" / "key.json").write_text("{}")
    for _ in range(2):
        with caplog.at_level(logging.WARNING):
            open_run(replace(SMALL, out=tmp_path), FEW)
    told = [record for record in caplog.records if "an earlier version" in record.getMessage()]
    assert len(told) == 1


def test_experiments_plan_a_plugins_method(plugin, tmp_path, capsys):
    import table2

    plugin("extending.md", "my_method")
    flags = [*FILMS[1:], "--plugin", "my_method", "--out", str(tmp_path / "o"), "--dry-run"]
    assert table2.EXPERIMENT.main([*flags, "--method", "topk", "relative"]) == 0
    assert "training relative EPR" in capsys.readouterr().out
    assert table2.EXPERIMENT.main([*flags, "--method", "relativ"]) == 2
    assert "did you mean 'relative'" in capsys.readouterr().err
