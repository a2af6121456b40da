"""The file of published runs."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from ceil_jax.errors import UserError
from ceil_jax.report.results import keep, read_results


def line(config, value, experiment="table2"):
    return {
        "experiment": experiment,
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
    keep(file, [line("a", 1.0), line("b", 2.0)])
    keep(file, [line("a", 3.0), line("a", 4.0, "table6")])
    assert read_results(file) == [line("a", 3.0), line("b", 2.0), line("a", 4.0, "table6")]
    assert len(file.read_text().splitlines()) == 3


def test_scripts_side_by_side_lose_no_line(tmp_path):
    file = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(4) as scripts:
        list(scripts.map(lambda i: keep(file, [line(f"run {i}", float(i))]), range(40)))
    assert {one["config"] for one in read_results(file)} == {f"run {i}" for i in range(40)}


def test_a_run_may_stand_in_several_places_of_a_table(tmp_path):
    file = tmp_path / "results.jsonl"
    lines = [
        line("a", 1.0) | place
        for place in ({"column": "n = 50"}, {"column": "n = 100"}, {"row": "CEIL, MAP"})
    ]
    keep(file, lines)
    assert read_results(file) == lines


@pytest.mark.parametrize("bad", ["{", "[]", json.dumps({"experiment": "table2"})])
def test_a_line_that_is_no_result_is_named_and_nothing_is_lost(bad, tmp_path):
    file = tmp_path / "results.jsonl"
    content = json.dumps(line("a", 1.0)) + "\n" + bad + "\n"
    file.write_text(content)
    expected = "a text as 'row'" if "table2" in bad else "a JSON object"
    with pytest.raises(
        UserError, match=f"results.jsonl, line 2: expected {expected}; mend it or take it out"
    ):
        keep(file, [line("b", 2.0)])
    assert file.read_text() == content
