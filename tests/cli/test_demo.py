"""The demo has two halves, labels and parts, and a page of both."""

import doctest
import re
from dataclasses import replace

import pytest

from ceil_jax.cli import demo
from ceil_jax.cli.main import main
from ceil_jax.tasks.load import load_task


def test_the_example_in_the_documentation():
    assert doctest.testmod(demo) == (0, 2)


def test_a_copied_answer_is_right_if_the_examples_show_all_parts():
    task = load_task("repairs", limit=1)
    [query] = task.validation
    shown = {}
    for part in re.findall(r"\w+\(\w+\)", query.output):
        example = next(row for row in task.train if part in row.output)
        shown[part] = f"{example.input}\t{example.output}\n"
    assert len(shown) == 3

    def answer(parts):
        prompt = "".join(shown[part] for part in parts) + f"{query.input}\t"
        return demo.Copier().generate([prompt], 40, ["\n"])[0]

    assert answer(shown) == answer(reversed(shown)) == query.output
    assert answer(list(shown)[1:]) != query.output
    assert answer([]) == "fix()"


@pytest.mark.packages
def test_both_halves_end_in_a_table_and_stand_on_one_page(
    tmp_path, capsys, monkeypatch, moved_for_trained
):
    small = {"encoder": "tiny", "limit": 6, "bank_limit": 60, "shots": 2}
    monkeypatch.setattr(demo, "LABELS", replace(demo.LABELS, lm="tiny", **small))
    monkeypatch.setattr(demo, "PARTS", replace(demo.PARTS, **small))
    assert main(["demo", "--out", str(tmp_path), "--minutes", "60"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("movie_reviews: accuracy") < printed.index("repairs: exact_match")
    assert "classifier alone" in printed
    assert "DPP-MAP" in printed
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "movie_reviews" in page
    assert "repairs" in page
