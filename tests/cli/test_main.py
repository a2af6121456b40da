"""Commands as a user types them, and what a mistake prints."""

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ceil_jax.cli.main import main
from ceil_jax.lm.tiny import TinyLM
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline.config import COMPARED, RunConfig

TINY = "compare --lm tiny --encoder tiny --method random --limit 3 --bank-limit 20"


def said(capsys, *arguments):
    code = main(list(arguments))
    return code, capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.packages
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--task", "movie_review"],
            "ceil-jax: unknown task 'movie_review'; did you mean 'movie_reviews'",
        ),
        (["--method", "ciel"], "ceil-jax: unknown method 'ciel'; did you mean 'ceil'"),
        (
            ["--shots", "20"],
            "ceil-jax: --shots 20: the bank of movie_reviews has 20 examples; ask for 0 to 19",
        ),
        (["--method"], "ceil-jax: --method: name at least one"),
        (["--task", "sst5", "--data-dir", "nowhere"], "nowhere"),
        (
            ["--metric", "lf_em", "--input", "text"],
            "ceil-jax: --input, --metric: only with --data FILE",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, line = said(capsys, *TINY.split(), *arguments)
    assert code == 2
    assert message in line


@pytest.mark.packages
def test_compare_prints_its_table_and_writes_its_report(capsys, tmp_path):
    assert main([*TINY.split(), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "movie_reviews: accuracy in percent on 3 of " in out
    [page] = tmp_path.glob("report-*/report.html")
    assert f"report: {page}" in out


def test_a_mistyped_flag_is_refused_with_a_suggestion(apart):
    done = apart("compare", "--tsk", "sst5")
    assert done.returncode == 2
    assert "--task" in done.stdout + done.stderr


def test_help_is_wrapped_where_the_terminal_ends(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["compare", "--help-verbose"])
    out = capsys.readouterr().out
    words = " ".join(out.replace("│", " ").split())
    # docstrings of several lines in the source, of the run's own fields and of a part's, across
    # their line breaks
    assert "right answers of 64 training queries" in words
    assert "of the kernel, in training and in MAP inference. tuned: chosen for" in words
    assert "candidate sets a step uses, drawn anew in every step" in words
    assert "Range: at least 2." in words
    assert "Range: above 0." in words
    assert not any(field.metadata for field in fields(RunConfig)), (
        "a help text changed the class itself"
    )
    # no method is forgotten
    [rows] = re.findall(r"--method.*?\n(.*?)(?=--)", out.replace("│", " "), re.S)
    assert set(ROWS) <= set(re.findall(r"\w+", rows))


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


def test_a_file_of_ones_own(capsys, tmp_path, reviews):
    arguments = [
        "compare",
        "--data",
        reviews(),
        "--metric",
        "accuracy",
        "--lm",
        "tiny",
        "--method",
        "bm25",
    ]
    arguments += ["--template", "{input} It is {output}", "--out", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "mine: accuracy in percent on 4 held-out queries" in out
    assert "A quick check" not in out
    assert main([*arguments, "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "mine: accuracy in percent on 3 of 4 held-out queries" in out
    assert "A quick check: 3 of 4 held-out queries, " in out
    assert "--limit 4 uses all." in out
    for limit in ("0", "-3"):
        code, line = said(capsys, *arguments, "--limit", limit)
        assert code == 2
        assert line == f"ceil-jax: --limit {limit}: expected a number at least 1"
    code, line = said(
        capsys, *arguments, "--output", "lable", "--template", "{input} It is {lable}"
    )
    assert code == 2
    assert "lable" in line
    assert "mine.csv" in line


def test_an_unknown_metric_ends_before_the_lm_answers(capsys, tmp_path, reviews):
    runs = tmp_path / "runs"
    code, line = said(
        capsys, *TINY.split(), "--data", reviews(), "--metric", "bleau", "--out", str(runs)
    )
    assert (code, "unknown metric 'bleau'; did you mean 'char_bleu'" in line) == (2, True), line
    assert not runs.exists()


def test_an_unknown_scale_names_the_known_ones(capsys):
    assert said(capsys, "compare", "--scale", "smal") == (
        2,
        "ceil-jax: unknown scale 'smal'; did you mean 'small'? Known: demo, paper, small, tiny.",
    )


def test_a_scale_is_refused_by_a_command_without_any_and_no_obstacle_to_help(capsys):
    assert said(capsys, "--scale", "tiny", "demo") == (
        2,
        "ceil-jax: --scale: demo has no scales; leave it out",
    )
    with pytest.raises(SystemExit) as ended:
        main(["--scale", "tiny", "--help"])
    assert not ended.value.code


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


def test_help_lists_the_flags_and_verbose_help_explains_them(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    flags = {}
    lines = {}
    for asked in ("--help", "--help-verbose", "--help-all"):
        with pytest.raises(SystemExit):
            main(["compare", asked])
        shown = capsys.readouterr().out
        flags[asked] = set(re.findall(r"^\W? ?(--[a-z][a-z.-]*)", shown, re.M))
        lines[asked] = shown.count("\n")
    assert {"--task", "--lm", "--data", "--epr.epochs", "--endpoint.batch"} <= flags["--help"]
    assert flags["--help"] == flags["--help-verbose"]
    assert lines["--help"] < lines["--help-verbose"] / 2
    assert lines["--help-all"] == lines["--help-verbose"]


def test_json_quietly(tmp_path, reviews, apart):
    arguments = [
        "compare",
        "--data",
        reviews(),
        "--method",
        "bm25",
        "--lm",
        "tiny",
        "--json",
        "--quiet",
    ]
    done = apart(*arguments, "--out", tmp_path / "runs")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    [row] = found["rows"]
    assert (found["queries"], row["method"], row["label"]) == (4, "bm25", "BM25")
    assert row["low"] <= row["value"] <= row["high"]
    assert Path(found["report"]).is_file()


def test_the_list_of_tasks_marks_what_is_here(capsys, tmp_path):
    (tmp_path / "geoquery").mkdir()
    assert main(["tasks", "--data-dir", str(tmp_path)]) == 0
    found = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line}
    assert "yes" in found["geoquery"]
    assert "yes" in found["movie_reviews"]
    assert "yes" not in found["dr_spider.db"]


def test_ctrl_c_says_what_is_kept_and_it_is(capsys, tmp_path, monkeypatch, reviews):
    arguments = [
        "compare",
        "--data",
        reviews(800),
        "--metric",
        "accuracy",
        "--lm",
        "tiny",
        "--limit",
        "80",
    ]
    arguments += ["--method", "random", "--out", str(tmp_path)]
    read = []
    own = TinyLM.choice_log_likelihood

    def stopped(lm, prompts, choices, **more):
        if read:
            raise KeyboardInterrupt
        read.append(len(prompts))
        return own(lm, prompts, choices, **more)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", stopped)
    code, line = said(capsys, *arguments)
    assert code == 130
    assert line.endswith("are kept, and the same command resumes from there")

    def goes_on(lm, prompts, choices, **more):
        read.append(len(prompts))
        return own(lm, prompts, choices, **more)

    monkeypatch.setattr(TinyLM, "choice_log_likelihood", goes_on)
    assert main(arguments) == 0
    assert read == [64, 16]  # a chunk, and the rest of 80


def test_flags_as_people_and_shells_give_them(capsys, caplog, tmp_path, monkeypatch):
    rows = "".join(f"film {i},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f"text,label\n{rows}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    given = (
        "compare --data a.csv --input text --output label --metric accuracy --lm tiny "
        "--encoder tiny --json"
    )
    more = [
        "--limit",
        "9",
        "--limit",
        "2",
        "--minutes",
        "5",
        "--method",
        "random",
        "--template",
        r"$\times$ {text} {label}",
    ]
    assert main([*given.split(), *more, "--out=~/runs"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["queries"] == 2
    assert "LM tokens a second" in printed.err
    assert (tmp_path / "home" / "runs").is_dir()
    assert not (tmp_path / "~").exists()
    assert "--limit is given twice, and the last one counts" in caplog.text
    assert "\\t is read as a tab" in caplog.text


def test_settings_that_a_dataclass_inherits_have_their_help(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["compare", "--help-verbose"])
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "--epr.no-in-batch-negatives With the contrastive loss: whether" in shown
    assert "--ceil.sets-per-step INT|{auto,all} How many of each query's candidate sets" in shown


FILMS = [
    "--task",
    "movie_reviews",
    "--lm",
    "tiny",
    "--encoder",
    "tiny",
    "--limit",
    "4",
    "--bank-limit",
    "60",
]


def test_rows_that_do_not_apply_are_left_out_only_where_nobody_typed_them(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"question {i} of all,answer number {i}\n" for i in range(40))
    (tmp_path / "free.csv").write_text(f"input,output\n{rows}")
    flags = ["--data", "free.csv", "--lm", "tiny", "--encoder", "tiny", "--dry-run"]
    assert main(["compare", *flags]) == 0
    assert "Left out: classifier alone: the outputs of free are no" in capsys.readouterr().out
    # the very list of the default, typed
    assert main(["compare", *flags, "--method", *COMPARED]) == 2
    message = capsys.readouterr().err
    assert "--method classifier: the outputs of free are not labels" in message
    assert "label head" not in message


def test_a_dry_run_computes_nothing(capsys, tmp_path):
    out = tmp_path / "runs"
    assert main(["compare", *FILMS, "--out", str(out), "--method", "topk", "epr", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "training EPR" in printed
    assert "LM tokens to read" in printed
    assert not out.exists()


def test_a_start_is_a_method_by_its_name(capsys, tmp_path):
    flags = ["compare", *FILMS, "--out", str(tmp_path / "o"), "--method", "epr", "--dry-run"]
    stages = {}
    for start in ("base", "free", "tst"):
        assert main([*flags, "--epr.start", start]) == 0
        [count] = re.findall(r"(\d+) would run: about", capsys.readouterr().out)
        stages[start] = int(count)
    assert stages["base"] < stages["free"]
    assert stages["base"] < stages["tst"]
    assert main([*flags, "--epr.start", "fre"]) == 2
    assert "did you mean 'free'" in capsys.readouterr().err


def run_command(*words, **options):
    command = [sys.executable, "-m", "ceil_jax.cli.main", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, **options)


def test_no_folder_for_temporary_files_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc"])
    assert said(capsys, "tasks") == (
        2,
        "ceil-jax: No usable temporary directory found in ['/proc']; set TMPDIR to a folder that "
        "can be written",
    )


def test_devices_that_are_not_here_are_one_line():
    ended = run_command("tasks", env={**os.environ, "JAX_PLATFORMS": "no_such"})
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "JAX_PLATFORMS=no_such: JAX finds no such device on this machine" in line
    assert line.endswith("pip install 'ceil-jax[cuda]'")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="Linux has this file that is always full"
)
def test_an_output_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("w") as full:
        ended = run_command("tasks", stdout=full)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert "cannot write the output: No space left on device; what was finished is kept" in line
