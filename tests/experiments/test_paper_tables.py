"""The paper's tables and figures: which runs they ask for, and what they draw."""

import gzip
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from films import SMALL

from ceil_jax.cli.experiment import ExperimentOptions
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.load import load_task

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def script(monkeypatch):
    """Imports an experiment by its name, with the modules beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in ("drawing", "latency"):
        sys.modules.pop(name, None)


def geoquery(folder, **splits):
    (folder / "geoquery").mkdir()
    for name, rows in splits.items():
        lines = "".join(json.dumps({"question": q, "funql": a}) + "\n" for q, a in rows)
        (folder / "geoquery" / f"{name.replace('_', '.')}.jsonl.gz").write_bytes(
            gzip.compress(lines.encode())
        )
    return folder


def test_table3_trains_on_the_standard_split_as_the_paper_does(script):
    table3 = script("table3")
    config = replace(SMALL, task="smcalflow_cs.0s")
    found = {entry.row: entry for entry in table3.entries(config, ExperimentOptions())}
    standard = found["CEIL, trained on the standard split"]
    assert standard.cell.trained_by == (replace(config, task="smcalflow"),) and standard.paper == 60.27
    assert found["CEIL, trained on this split"].cell.essential().trained_by == ()
    assert found["dense top-k"].paper == 31.94
    # on the standard split itself there is nothing else to train on
    rows = [entry.row for entry in table3.entries(replace(config, task="geoquery"), ExperimentOptions())]
    assert rows[-2:] == ["EPR, trained on the standard split", "CEIL, trained on the standard split"]
    assert len(rows) == 6


def test_table3_answers_with_other_lms_by_the_first_ones_retriever(script):
    options = ExperimentOptions(lms=("tiny", "other"))
    found = script("table3").entries(replace(SMALL, task="smcalflow_cs.0c"), options)
    trained = [entry.cell for entry in found if entry.cell.trains]
    assert {cell.config.lm for cell in trained} == {"tiny", "other"}
    assert {by.lm for cell in trained for by in cell.trained_by} == {"tiny"}


def test_the_standard_split_less_the_template_twins(script, tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "geoquery.standard_less_template_twins", None)  # taken out again at the end
    data = geoquery(
        tmp_path,
        standard_train=[("where is m0", "loc_1(m0)"), ("rivers", "river"), ("m0 and m1", "both(m0,m1)")],
        standard_validation=[("lakes", "lake")],
        template_train=[("rivers", "river")],
        template_validation=[("place of m0", "loc_1(m1)"), ("all of m0", "all(m0)")],
    )
    table3 = script("table3")
    config = replace(SMALL, task="geoquery.template", data_dir=data)
    by = table3.trainings(config)[table3.LESS_TWINS]
    left = load_task(by.task, data)
    assert [example.output for example in left.train] == ["river", "both(m0,m1)"]
    assert [example.output for example in left.validation] == ["lake"]


def test_table2_has_a_row_for_each_further_encoder(script):
    config = replace(SMALL, task="sst5")
    options = ExperimentOptions(encoders=("facebook/contriever", "org/sup-simcse", "my/folder"))
    found = {entry.row: entry for entry in script("table2").entries(config, options)}
    contriever = found["dense top-k, facebook/contriever"]
    assert contriever.cell.config.encoder == "facebook/contriever" and contriever.paper == 37.06
    assert found["dense top-k, org/sup-simcse"].paper == 37.06
    assert found["dense top-k, my/folder"].paper is None
    assert found["CEIL"].cell.config.encoder == "tiny" and found["CEIL"].paper == 47.05


def test_table2_says_where_the_encoder_of_examples_learns_too(script):
    config = replace(SMALL, task="sst5", ceil=replace(SMALL.ceil, train_context="both"))
    rows = [entry.row for entry in script("table2").entries(config, ExperimentOptions())]
    assert "CEIL, both encoders" in rows and "CEIL" not in rows and "EPR" in rows


def test_table2_says_which_rows_are_guarded(script):
    config = replace(SMALL, task="sst5", guard=True)
    rows = [entry.row for entry in script("table2").entries(config, ExperimentOptions())]
    assert {"CEIL, guarded", "EPR + MAP, guarded", "dense top-k", "DPP-MAP", "random"} <= set(rows)
    assert not {"CEIL", "EPR", "random, guarded"} & set(rows)


def test_figure5_compares_few_examples_of_ceil_with_many_of_others(script):
    figure5 = script("figure5")
    config = replace(SMALL, task="films")
    found = figure5.entries(config, ExperimentOptions())
    assert {entry.cell.config.shots for entry in found} == {1, 2, 4, 8, 16, 32}
    assert {entry.cell.method for entry in found} == {"topk", "epr", "ceil"}
    # a prompt of 32 examples asks for more than 32 in the bank
    assert {entry.least_bank for entry in found if entry.cell.config.shots == 32} == {33}


def test_a_family_of_tasks_is_left_out(script):
    one_for_all = script("one_for_all")
    options = ExperimentOptions(tasks=("sst5", "mnli", "qnli", "geoquery", "geoquery.template"))
    found = {
        (task, entry.row.removeprefix("trained on ")): [by.task for by in entry.cell.trained_by]
        for task in options.tasks
        for entry in one_for_all.entries(replace(SMALL, task=task), options)
    }
    assert found["qnli", "all but this one"] == ["sst5", "mnli", "geoquery", "geoquery.template"]
    assert found["qnli", "all but its family"] == ["sst5", "geoquery", "geoquery.template"]
    assert found["geoquery", "all but its family"] == ["sst5", "mnli", "qnli"]
    assert found["qnli", "all tasks"] == list(options.tasks) and found["qnli", "itself"] == []
    # two tasks of one family leave none to train on
    only = ExperimentOptions(tasks=("mnli", "qnli"))
    rows = [entry.row for entry in one_for_all.entries(replace(SMALL, task="mnli"), only)]
    assert "trained on all but its family" not in rows


def test_further_models_are_looked_for_first(script, monkeypatch, capsys):
    looked_for = []
    monkeypatch.setattr("ceil_jax.cli.experiment.check_first", looked_for.append)
    arguments = [
        "--task",
        "scan.simple",
        "--lm",
        "tiny",
        "--encoder",
        "tiny",
        "--limit",
        "2",
        "--bank-limit",
        "40",
    ]
    arguments += ["--encoders", "nobody/none", "--lms", "other", "--retriever", "topk", "--dry-run"]
    assert script("table2").EXPERIMENT.main(arguments) == 2
    assert [(one.lm, one.encoder) for one in looked_for] == [
        *(("tiny", "tiny"), ("other", "tiny"), ("tiny", "nobody/none"))
    ]
    assert "scan.simple cannot run: unknown encoder 'nobody/none'" in capsys.readouterr().out
