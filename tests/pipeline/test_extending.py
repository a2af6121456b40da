"""Retrievers and a loss from outside the package: the code of docs/extending.md in every place that a user meets."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from films import SMALL, TASK
from harness.grid import Cell, Entry, Grid, plan

from ceil_jax import CeilSelector, UserError, build_retriever
from ceil_jax.cli.main import main
from ceil_jax.pipeline.compose import open_run
from ceil_jax.pipeline.export import export
from ceil_jax.pipeline.methods import METHODS
from ceil_jax.report.compare import compare
from ceil_jax.report.write import report, write_report
from ceil_jax.training import losses

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
RETRIEVERS, LOSS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
ROWS = ("overlap", "calm", "ceil")


class FilmGrid(Grid):
    def task(self, config):
        return TASK


@pytest.fixture
def plugins(tmp_path, monkeypatch, registrations_undone):
    """The modules of the page in the folder one works in; what they register is forgotten afterwards."""
    own = {name: losses._LOSSES[name] for name in ("pairwise", "info_nce")}
    monkeypatch.setattr(losses, "_LOSSES", own)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    for name, code in (("my_retrievers", RETRIEVERS), ("my_loss", LOSS)):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("my_retrievers", "my_loss"):
        sys.modules.pop(name, None)


@pytest.fixture
def imported(plugins):
    for code in (RETRIEVERS, LOSS):
        exec(compile(code, "plugin", "exec"), {"__name__": "plugin"})


def test_each_takes_less_than_thirty_lines():
    lines = [line for line in RETRIEVERS.splitlines() if line.strip()]
    retriever, calm = [i for i, line in enumerate(lines) if line.startswith(("class", "def"))]
    assert calm - retriever < 30 and len(lines) - calm < 30 and len(LOSS.splitlines()) < 30


def test_they_work_wherever_the_packages_own_do(imported, tmp_path, moved_for_trained, monkeypatch):
    ceil = replace(SMALL.ceil, initial="base", loss="softmax", loss_options=("temperature=0.5",))
    config = replace(SMALL, out=tmp_path / "runs", ceil=ceil)
    run = open_run(config, TASK)

    # in a comparison and in its report
    table = compare(run, ROWS)
    assert [row.label for row in table.rows] == ["word overlap", "calm", "CEIL"]
    page = write_report(tmp_path / "report", run, table).page.read_text()
    assert "word overlap" in page and "calm" in page
    assert "word overlap" in report([config.out], tmp_path / "all.html").read_text()
    [key] = [file.read_text() for file in config.out.glob("ceil-*/key.json")]
    assert '"loss":"softmax"' in key and '"loss_options":["temperature=0.5"]' in key

    # in a dry run: everything is on disk; nothing is in another folder
    monkeypatch.setattr("harness.grid.Grid", FilmGrid)

    def planned(config):
        return plan([Entry(row, "films", Cell(config, row)) for row in ROWS], (0,))

    assert {work.done for work in planned(config).stages.values()} == {True}
    elsewhere = planned(replace(config, out=tmp_path / "none")).stages.values()
    assert {work.done for work in elsewhere} == {False}
    assert {"word overlap on films", "calm on films"} < {work.what for work in elsewhere}
    assert not any(work.what.startswith("scoring λ") for work in elsewhere)

    # as a selector, which chooses as the run does; the one that is no MAP cannot be one
    assert "calm on films" in export(run, "calm", tmp_path / "selector")
    selector = CeilSelector.from_pretrained(tmp_path / "selector")
    assert selector.trade_off == 1.0
    for query, picks in zip(TASK.validation[:5], run.retrieve("calm", TASK.validation[:5]), strict=True):
        chosen = sorted(selector.select(query, k=3).picks, key=lambda pick: -pick.gain)
        assert [pick.example.id for pick in chosen] == [pick.id for pick in picks]
    with pytest.raises(UserError, match=r"unknown selector 'overlap'.*calm"):
        export(run, "overlap", tmp_path / "other")


def test_needs_are_what_a_cell_depends_on(imported):
    other = replace(SMALL, shortlist=7, trade_off=0.5)
    assert Cell(other, "overlap").essential() == Cell(SMALL, "overlap").essential()
    assert Cell(other, "calm").essential() != Cell(SMALL, "calm").essential()


def test_a_registered_retriever_replaces_the_packages_own_if_it_says_so(imported):
    from ceil_jax import Needs, register_retriever

    assert len(METHODS) == len(set(METHODS)) and list(METHODS)[-2:] == ["overlap", "calm"]
    with pytest.raises(UserError, match="a retriever 'bm25' is registered already"):
        register_retriever("bm25", lambda bank, given: "mine", Needs())
    register_retriever("bm25", lambda bank, given: "mine", Needs(), replace=True)
    assert build_retriever("bm25", TASK.train) == "mine"
    assert list(METHODS).count("bm25") == 1


def test_the_command_line_imports_them(plugins, tmp_path, capsys):
    rows = [f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(40)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    own = ["--data", "mine.csv", "--input", "text", "--output", "label", "--metric", "accuracy"]
    own += ["--lm", "tiny", "--encoder", "tiny"]
    assert main(["compare", *own, "--plugin", "my_retrievers", "--retriever", "overlap"]) == 0
    assert "word overlap" in capsys.readouterr().out
    assert main(["export", "out", *own, "--plugin=my_retrievers", "--method", "calm"]) == 0
    assert "calm on mine" in capsys.readouterr().out
    assert main(["compare", *own, "--plugin", "my_retriever", "--retriever", "overlap"]) == 2
    error = capsys.readouterr().err
    assert (
        "--plugin my_retriever: No module named 'my_retriever'; expected the name of a Python module" in error
    )
