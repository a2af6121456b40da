"""The file of published records."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.pipeline.results_file import keep, line_of, read_results, record_of

RESULTS = Path(__file__).parents[2] / "experiments" / "results.jsonl"


def record(config, value, experiment="table2", **other):
    return record_of(line(config, value, experiment) | other)


def line(config, value, experiment="table2"):
    return {
        "experiment": experiment,
        "method": "ceil",
        "trained_by": [],
        "bank": 60,
        "low": 0.0,
        "high": 9.5,
        "row": "CEIL",
        "column": "films",
        "config": config,
        "value": value,
        "task": "films",
        "lm": "an LM",
        "encoder": "an encoder",
        "metric": "accuracy",
        "seed": 0,
        "shots": 8,
        "n": 4,
        "tokens": 9,
        "seconds": 0.5,
        "device": "2 cores",
        "date": "2026-11-22",
    }


def test_a_run_has_one_line_the_latest(tmp_path):
    file = tmp_path / "results.jsonl"
    keep(file, [record("a", 1.0), record("b", 2.0)])
    keep(file, [record("a", 3.0), record("a", 4.0, "table6")])
    assert read_results(file) == [record("a", 3.0), record("b", 2.0), record("a", 4.0, "table6")]
    assert len(file.read_text().splitlines()) == 3


def test_scripts_side_by_side_lose_no_line(tmp_path):
    file = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(4) as scripts:
        list(scripts.map(lambda i: keep(file, [record(f"run {i}", float(i))]), range(40)))
    assert {one.name for one in read_results(file)} == {f"run-run {i}" for i in range(40)}


def test_a_run_may_stand_in_several_places_of_a_table(tmp_path):
    file = tmp_path / "results.jsonl"
    records = [
        record("a", 1.0, **place)
        for place in ({"column": "n = 50"}, {"column": "n = 100"}, {"row": "CEIL, MAP"})
    ]
    keep(file, records)
    assert read_results(file) == records


def test_the_projects_own_results_are_read_without_loss():
    for text, found in zip(RESULTS.read_text().splitlines(), read_results(RESULTS), strict=True):
        assert json.dumps(line_of(found), ensure_ascii=False) == text


def test_a_line_says_which_recipe_trained_its_encoder(tmp_path):
    settings = {"ceil": {"size": 3, "initial": "epr"}, "epr": {"epochs": 4}, "tst": {"epochs": 3}}
    ceil = record("a", 1.0)
    ceil = replace(ceil, config={**ceil.config, **settings})
    recipes = [
        line_of(replace(ceil, **changed)).get("recipe")
        for changed in ({}, {"method": "epr_map"}, {"method": "dpp"}, {"trained_by": (("films", "an LM"),)})
    ]
    both = {name: settings[name] for name in ("ceil", "epr")}
    assert recipes == [both, {"epr": settings["epr"]}, None, None]
    keep(tmp_path / "results.jsonl", [ceil])
    [found] = read_results(tmp_path / "results.jsonl")
    assert line_of(found)["recipe"] == both


@pytest.mark.parametrize("values", [[[0], [1], [1]], [[0.25], [0.5]], [[1, 2, 3], [4, 5, 6]]])
def test_statistics_are_kept_without_loss(values, tmp_path):
    one = replace(record("a", 1.0, n=len(values), texts="t"), statistics=np.array(values, float))
    keep(tmp_path / "results.jsonl", [one])
    [found] = read_results(tmp_path / "results.jsonl")
    np.testing.assert_array_equal(found.statistics, values)
    assert ('"statistics": "011"' in (tmp_path / "results.jsonl").read_text()) == (len(values) == 3)


@pytest.mark.parametrize("bad", ["{", "[]", json.dumps({"experiment": "table2"})])
def test_a_line_that_is_no_result_is_named_and_nothing_is_lost(bad, tmp_path):
    file = tmp_path / "results.jsonl"
    content = json.dumps(line("a", 1.0)) + "\n" + bad + "\n"
    file.write_text(content)
    expected = "a text as 'row'" if "table2" in bad else "a JSON object"
    with pytest.raises(
        UserError, match=f"results.jsonl, line 2: expected {expected}; correct the line or remove it"
    ):
        keep(file, [record("b", 2.0)])
    assert file.read_text() == content
