"""The page of results and the README say what the recorded runs say."""

from functools import cache
from pathlib import Path

import evidence
from harness.results_file import read_results

ROOT = Path(__file__).parents[2]
RUNS = evidence.evidence(read_results(evidence.RESULTS))
PAGE, README = ((ROOT / name).read_text("utf-8") for name in ("docs/results.md", "README.md"))


@cache
def panels():
    return evidence.panels(RUNS)


def test_the_figure_is_of_the_recorded_runs():
    assert evidence.drawing(panels()) == evidence.FILE.read_text("utf-8"), (
        "run `python experiments/evidence.py`"
    )


def test_the_page_has_the_recorded_values():
    for line in evidence.table(RUNS).splitlines():
        assert line in PAGE


def test_the_page_has_the_recorded_costs():
    for line in evidence.costs(RUNS).splitlines():
        assert line in PAGE


def test_mean_gains_are_quoted_as_they_are():
    quoted = {
        panel.baseline: f"{gain.mean:+.1f} ({gain.low:.1f} to {gain.high:.1f})".replace("-", "−")
        for panel in panels()
        if (gain := panel.gains["mean"])
    }
    assert f"| CEIL − top-k, mean | {quoted['dense top-k']} |" in PAGE
    assert f"| CEIL − EPR, mean | {quoted['EPR']} |" in PAGE
    assert f"{quoted['EPR']} |" in next(line for line in README.splitlines() if line.startswith("| mean |"))


def test_the_readme_has_the_recorded_values():
    names = (
        "GeoQuery",
        "its template split",
        "film reviews",
        "CommonsenseQA",
        "SST-5",
        "WebQuestions",
        "NL2Bash",
    )
    tasks = ("geoquery", "geoquery.template", "movie_reviews", "cmsqa", "sst5", "webqs", "nl2bash")
    gains = next(panel for panel in panels() if panel.baseline == "EPR").gains
    rows = [line.replace("*", "") for line in README.splitlines()]
    for name, task in zip(names, tasks, strict=True):
        values = [RUNS[row, task].value for row in ("dense top-k", "DPP-MAP", "EPR", "CEIL")]
        cells = [name, *(f"{value:.1f}" for value in values), f"{gains[task].mean:+.1f}".replace("-", "−")]
        assert f"| {' | '.join(cells)} |" in rows
