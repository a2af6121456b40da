"""The page of results says what the recorded runs say."""

import runpy
from pathlib import Path

from ceil_jax.pipeline.results_file import read_results

ROOT = Path(__file__).parents[2]
EVIDENCE = runpy.run_path(str(ROOT / "docs" / "evidence.py"))
RUNS = EVIDENCE["evidence"](read_results(EVIDENCE["RESULTS"]))


def test_the_figure_is_of_the_recorded_runs():
    drawn = EVIDENCE["drawing"](EVIDENCE["panels"](RUNS))
    assert drawn == EVIDENCE["FILE"].read_text("utf-8"), "run `python docs/evidence.py`"


def test_the_page_has_the_recorded_values():
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    for line in EVIDENCE["table"](RUNS).splitlines():
        assert line in page
