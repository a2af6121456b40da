"""The demo has two halves, labels and programs, and a page of both."""

from dataclasses import replace

import pytest

from ceil_jax.cli import commands
from ceil_jax.cli.main import main
from ceil_jax.methods.ceil import CEIL
from ceil_jax.methods.epr import EPR
from ceil_jax.pipeline.config import DEMO_LABELS, DEMO_PROGRAMS


@pytest.mark.packages
def test_both_halves_end_in_a_table_and_stand_on_one_page(tmp_path, capsys, monkeypatch):
    small = {"lm": "tiny", "encoder": "tiny", "limit": 6, "bank_limit": 60, "shots": 2}
    methods = (
        EPR(instances=12, candidates=4, positives=1, epochs=1),
        CEIL(instances=12, subsets=3, size=2, shortlist=8, epochs=1),
    )
    monkeypatch.setattr(commands, "DEMO_LABELS", replace(DEMO_LABELS, **small))
    monkeypatch.setattr(commands, "DEMO_PROGRAMS", replace(DEMO_PROGRAMS, methods=methods, **small))
    assert main(["demo", "--out", str(tmp_path), "--minutes", "60"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("movie_reviews: accuracy") < printed.index("assistant: exact_match")
    assert "classifier alone" in printed
    assert "CEIL" in printed
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "movie_reviews" in page
    assert "assistant" in page
