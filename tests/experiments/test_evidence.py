"""The page of results and the README say what the recorded runs say."""

import re
from functools import cache
from pathlib import Path

import evidence
from harness.results_file import read_results

from ceil_jax.metrics.bootstrap import averaged_interval, paired

ROOT = Path(__file__).parents[2]
RUNS = evidence.evidence(read_results(evidence.RESULTS))
PAGE = (ROOT / "docs" / "results.md").read_text("utf-8")


@cache
def panels():
    return evidence.panels(RUNS)


def test_the_figure_is_of_the_recorded_runs():
    assert evidence.drawing(panels()) == evidence.FILE.read_text("utf-8"), (
        "run `python experiments/evidence.py`"
    )


def test_the_page_has_the_recorded_costs():
    for line in evidence.costs(RUNS).splitlines():
        assert line in PAGE


TASKS = {
    "GeoQuery": "geoquery",
    "template split": "geoquery.template",
    "film reviews": "movie_reviews",
    "CommonsenseQA": "cmsqa",
    "SST-5": "sst5",
    "WebQuestions": "webqs",
    "NL2Bash": "nl2bash",
}
"""The names of the pages → those of the records."""


def printed(gain):
    return f"{gain.mean:+.1f} ({gain.low:.1f} to {gain.high:.1f})".replace("-", "−")


def test_differences_are_quoted_as_they_are():
    quoted = re.findall(r"^\| ([^|]+) − ([^|,]+), ([^|,]+) \| ([^|]+) \|", PAGE, re.M)
    assert len(quoted) >= 7
    for better, worse, what, points in quoted:
        rows = better, worse.replace("top-k", "dense top-k")
        tasks = [task for row, task in RUNS if row == rows[0]] if what == "mean" else [TASKS[what]]
        pairs = [paired(*(RUNS[row, task].sample for row in rows)) for task in tasks]
        assert points == printed(averaged_interval(pairs).percent()), f"{better} − {worse}, {what}"
