"""What a user types, and what a mistake prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from ceil_jax.cli import main

TINY = [
    "compare",
    "--lm",
    "tiny",
    "--encoder",
    "tiny",
    "--methods",
    "random",
    "--limit",
    "3",
    "--bank-limit",
    "20",
]


def said(capsys, *arguments):
    code = main(list(arguments))
    return code, capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.packages
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "movie_review"], "ceil-jax: unknown task 'movie_review'; did you mean 'movie_reviews'"),
        (["--methods", "ciel"], "ceil-jax: unknown method 'ciel'; did you mean 'ceil'"),
        (["--methods", "topk", "--encoder", "all-MiniLM-L6"], "did you mean 'all-MiniLM-L6-v2'"),
        (["--lm", "SmolLM2-135M"], "did you mean 'SmolLM2-135M-Instruct'"),
        (["--shots", "20"], "ceil-jax: --shots 20: the bank of movie_reviews has 20 examples; ask for fewer"),
        (["--data-dir", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, line = said(capsys, *TINY, *arguments)
    assert code == 2
    assert message in line


@pytest.mark.packages
def test_compare_prints_its_table_and_writes_its_report(capsys, tmp_path):
    assert main([*TINY, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "movie_reviews: accuracy in percent on 3 held-out queries" in out
    [page] = tmp_path.glob("report-*/report.html")
    assert f"report: {page}" in out


def test_a_mistyped_flag_is_refused_with_a_suggestion():
    done = subprocess.run(
        [sys.executable, "-m", "ceil_jax.cli", "compare", "--tsk", "sst5"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 2
    assert "--task" in done.stdout + done.stderr
