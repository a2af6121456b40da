"""The paper's tables and figures: which runs they ask for, and what they draw."""

import gzip
import json
from dataclasses import replace
from itertools import product

import figure5
import fixed_rows
import forms
import numpy as np
import pytest
import table2
import table3
import table4
from films import SMALL
from harness.command import ExperimentOptions

from ceil_jax.lm.prompts import NAMES_LABELS
from ceil_jax.methods.ceil import CEIL
from ceil_jax.tasks import TASKS
from ceil_jax.tasks.load import load_task


def geoquery(folder, **splits):
    (folder / "geoquery").mkdir()
    for name, rows in splits.items():
        lines = "".join(json.dumps({"question": q, "funql": a}) + "\n" for q, a in rows)
        (folder / "geoquery" / f"{name.replace('_', '.')}.jsonl.gz").write_bytes(
            gzip.compress(lines.encode())
        )
    return folder


def test_table3_trains_on_the_standard_split_as_the_paper_does():
    config = replace(SMALL, task="smcalflow_cs.0s", lm="EleutherAI/gpt-neo-2.7B")
    found = {entry.row: entry for entry in table3.entries(config, ExperimentOptions())}
    standard = found["CEIL, trained on the standard split"]
    assert standard.cell.trained_by == (replace(config, task="smcalflow"),)
    assert standard.paper == 60.27
    assert found["CEIL, trained on this split"].cell.work().trained_by == ()
    assert found["dense top-k"].paper == 31.94
    other = table3.entries(replace(config, lm="tiny"), ExperimentOptions())
    assert all(entry.paper is None for entry in other)
    # on the standard split itself there is nothing else to train on
    rows = [
        entry.row for entry in table3.entries(replace(config, task="geoquery"), ExperimentOptions())
    ]
    assert rows[-2:] == [
        "EPR, trained on the standard split",
        "CEIL, trained on the standard split",
    ]
    assert len(rows) == 6


def test_table3_answers_with_other_lms_by_the_first_ones_retriever():
    options = ExperimentOptions(lms=("tiny", "other"))
    found = table3.entries(replace(SMALL, task="smcalflow_cs.0c"), options)
    trained = [entry.cell for entry in found if entry.cell.trains]
    assert {cell.config.lm for cell in trained} == {"tiny", "other"}
    assert {by.lm for cell in trained for by in cell.trained_by} == {"tiny"}


def test_the_standard_split_less_the_template_twins(tmp_path, monkeypatch):
    monkeypatch.setitem(
        TASKS, "geoquery.standard_less_template_twins", None
    )  # taken out again at the end
    data = geoquery(
        tmp_path,
        standard_train=[
            ("where is m0", "loc_1(m0)"),
            ("rivers", "river"),
            ("m0 and m1", "both(m0,m1)"),
        ],
        standard_validation=[("lakes", "lake")],
        template_train=[("rivers", "river")],
        template_validation=[("place of m0", "loc_1(m1)"), ("all of m0", "all(m0)")],
    )
    config = replace(SMALL, task="geoquery.template", data_dir=data)
    by = table3.trainings(config)[table3.LESS_TWINS]
    left = load_task(by.task, data)
    assert [example.output for example in left.train] == ["river", "both(m0,m1)"]
    assert [example.output for example in left.validation] == ["lake"]


def test_table2_has_a_row_for_each_further_encoder():
    config = replace(SMALL, task="sst5")
    options = ExperimentOptions(encoders=("facebook/contriever", "org/sup-simcse", "my/folder"))
    found = {entry.row: entry for entry in table2.entries(config, options)}
    contriever = found["dense top-k, facebook/contriever"]
    assert contriever.cell.config.encoder == "facebook/contriever"
    assert contriever.paper == 37.06
    assert found["dense top-k, org/sup-simcse"].paper == 37.06
    assert found["dense top-k, my/folder"].paper is None
    assert found["CEIL"].cell.config.encoder == "tiny"
    assert found["CEIL"].paper == 47.05


def test_table2_says_where_both_encoders_learn():
    def rows(**other):
        config = replace(SMALL, task="sst5", **other)
        return {entry.row for entry in table2.entries(config, ExperimentOptions())}

    both = rows(methods=SMALL.with_method(CEIL, train_context="both").methods)
    assert "CEIL, both encoders" in both
    assert "CEIL" not in both
    assert "EPR" in both


def test_examples_of_each_label_are_a_row_where_there_are_labels(tmp_path):
    films = fixed_rows.entries(replace(SMALL, task="movie_reviews"), ExperimentOptions())
    assert [entry.cell.method for entry in films] == list(fixed_rows.NAMES)
    rows = [("how long is the nile", "answer(len(nile))"), ("which states", "answer(state(all))")]
    data = geoquery(tmp_path, standard_train=rows, standard_validation=rows)
    config = replace(SMALL, task="geoquery", data_dir=data)
    programs = {entry.cell.method for entry in fixed_rows.entries(config, ExperimentOptions())}
    assert programs == {"zero", "random", "topk", "free", "fixed", "fixed_near"}


def test_forms_are_compared_with_an_instruction_and_without():
    for task, instruction in {"movie_reviews": NAMES_LABELS, **forms.INSTRUCTIONS}.items():
        config = replace(SMALL, task=task)
        found = [entry.cell for entry in forms.entries(config, ExperimentOptions())]
        expected = set(product(("zero", "topk"), ("text", "turns"), ("", instruction)))
        assert {(cell.method, cell.config.form, cell.config.system) for cell in found} == expected
        assert len(found) == len(expected)


def test_figure5_compares_few_examples_of_ceil_with_many_of_others():
    config = replace(SMALL, task="films")
    found = figure5.entries(config, ExperimentOptions())
    assert {entry.cell.config.shots for entry in found} == {1, 2, 4, 8, 16, 32}
    assert {entry.cell.method for entry in found} == {"topk", "epr", "ceil"}
    # a prompt of 32 examples asks for more than 32 in the bank
    assert {entry.least_bank for entry in found if entry.cell.config.shots == 32} == {33}


def test_the_rank_of_the_top_k():
    # first of three, last of three, second with a tie
    scores = np.array([[3.0, 2, 1], [1, 2, 3], [2, 3, 2]])
    assert table4.top_subset_mrr(scores) == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
