"""What a user types, and what a mistake prints."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ceil_jax.cli.main import main
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.methods import METHODS

TINY = [
    "compare",
    "--lm",
    "tiny",
    "--encoder",
    "tiny",
    "--retriever",
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
        (["--retriever", "ciel"], "ceil-jax: unknown retriever 'ciel'; did you mean 'ceil'"),
        (["--retriever", "topk", "--encoder", "all-MiniLM-L6"], "did you mean 'all-MiniLM-L6-v2'"),
        (["--lm", "SmolLM2-135M"], "did you mean 'SmolLM2-135M-Instruct'"),
        (
            ["--shots", "20"],
            "ceil-jax: --shots 20: the bank of movie_reviews has 20 examples; ask for 1 to 19",
        ),
        (["--retriever"], "ceil-jax: --retriever: name at least one"),
        (["--task", "sst5", "--data-dir", "nowhere"], "nowhere"),
        (["--metric", "lf_em", "--input", "text"], "ceil-jax: --input, --metric: only with --data FILE"),
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
    assert "movie_reviews: accuracy in percent on 3 of " in out
    [page] = tmp_path.glob("report-*/report.html")
    assert f"report: {page}" in out


def test_a_mistyped_flag_is_refused_with_a_suggestion():
    done = subprocess.run(
        [sys.executable, "-m", "ceil_jax.cli.main", "compare", "--tsk", "sst5"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 2
    assert "--task" in done.stdout + done.stderr


def test_help_is_wrapped_where_the_terminal_ends(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    out = capsys.readouterr().out
    words = " ".join(out.replace("│", " ").split())
    # docstrings of several lines in the source, of the run's own fields and of a part's, across their line breaks
    assert "right answers of 64 training queries" in words
    assert "training then takes the λ tuned for" in words
    assert "half that opens their prompts" in words
    assert "Range: at least 2." in words and "Range: above 0." in words
    assert not any(field.metadata for field in fields(RunConfig)), "a help text changed the class itself"
    # no method is forgotten
    [rows] = re.findall(r"--retriever.*?\n(.*?)(?=--)", out.replace("│", " "), re.S)
    assert set(METHODS) <= set(re.findall(r"\w+", rows))


def test_a_reader_that_has_enough_ends_it_quietly():
    with subprocess.Popen(
        [sys.executable, "-m", "ceil_jax.cli.main", "compare", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        # nobody reads, from the first line on
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode != 0


def test_a_file_of_ones_own(capsys, tmp_path):
    data = tmp_path / "mine.csv"
    rows = [f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(40)]
    data.write_text("\n".join(["text,label", *rows]) + "\n")
    own = ["--data", str(data), "--input", "text", "--output", "label", "--metric", "accuracy"]
    arguments = [
        "compare",
        *own,
        "--template",
        "{text} It is {label}",
        "--lm",
        "tiny",
        "--out",
        str(tmp_path),
    ]
    assert main([*arguments, "--retriever", "bm25"]) == 0
    assert "mine: accuracy in percent on 4 held-out queries" in capsys.readouterr().out
    assert main([*arguments, "--retriever", "bm25", "--limit", "3"]) == 0
    assert "mine: accuracy in percent on 3 of 4 held-out queries" in capsys.readouterr().out
    for limit in ("0", "-3"):
        code, line = said(capsys, *arguments, "--retriever", "bm25", "--limit", limit)
        assert code == 2 and line == f"ceil-jax: --limit {limit}: expected a number at least 1"
    code, line = said(capsys, *arguments, "--output", "lable", "--template", "{text} It is {output}")
    assert code == 2
    assert "lable" in line and "mine.csv" in line


def test_an_unknown_metric_ends_before_the_lm_answers(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(
        "input,output\n" + "".join(f"film {i},{'good' if i % 2 else 'bad'}\n" for i in range(60))
    )
    code, line = said(capsys, *TINY, "--data", "a.csv", "--metric", "bleau")
    assert (code, "unknown metric 'bleau'; did you mean 'bleu'" in line) == (2, True), line
    assert not Path("runs").exists()


def test_an_unknown_scale_names_the_known_ones(capsys):
    assert said(capsys, "compare", "--scale", "smal") == (
        2,
        "ceil-jax: unknown scale 'smal'; did you mean 'small'? Known: paper, small, tiny.",
    )


@pytest.mark.packages
def test_tasks_lists_all_and_shows_one(capsys):
    assert main(["tasks"]) == 0
    listed = capsys.readouterr().out
    assert "smcalflow_cs.32c" in listed
    assert main(["tasks", "movie_reviews"]) == 0
    shown = capsys.readouterr().out
    assert "9,542 examples in the bank, 1,061 queries" in shown
    assert shown.count("--- validation-") == 5
    assert shown.count(" It is\n") == 5


def test_scores_in_two_jobs(tmp_path, capsys):
    data = tmp_path / "mine.csv"
    rows = [f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(40)]
    data.write_text("\n".join(["text,label", *rows]) + "\n")
    arguments = ["score", "epr", "--data", str(data), "--input", "text", "--output", "label"]
    arguments += ["--metric", "accuracy", "--lm", "tiny", "--out", str(tmp_path)]
    # 24 queries of 8 candidates: chunks of 20 and of 4 queries
    assert main([*arguments, "--shard", "1/2"]) == 0
    assert "20 queries scored by shard 1/2" in capsys.readouterr().out
    code, line = said(capsys, *arguments)
    assert code == 2
    assert "4 of 24 rows are missing, row 20 the first; run again --shard 2/2" in line
    assert main([*arguments, "--shard", "2/2"]) == 0
    assert main(arguments) == 0
    assert "24 queries scored:" in capsys.readouterr().out
    assert said(capsys, *arguments, "--shard", "3/2")[0] == 2
