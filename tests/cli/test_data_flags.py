"""The flags of a user's file are the fields of `FileOptions`, and reach the reader."""

import dataclasses

import pytest
from refusing import refused

from ceil_jax.cli.data_flags import OwnData
from ceil_jax.cli.main import main
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.tasks.own_file import FileOptions


def test_a_file_in_another_encoding_with_another_delimiter(tmp_path):
    rows = "".join(f"fein {i}\tgrün{i % 2}\tC{i // 4}\n" for i in range(80))
    (tmp_path / "a.csv").write_text(f"text, all\tlabel\tcustomer\n{rows}", "cp1252")
    options = FileOptions(
        input=["text, all"],
        output=["label"],
        delimiter="\\t",  # as a shell passes it
        encoding="cp1252",
        group="customer",
    )
    task = OwnData(tmp_path / "a.csv", options=options).read(RunConfig(out=tmp_path / "runs"))
    assert {row.output for row in task.train} == {"grün0", "grün1"}
    sides = [{row.fields["customer"] for row in side} for side in (task.train, task.validation)]
    assert not sides[0] & sides[1]
    with refused("line 2 is not utf-8"):
        OwnData(tmp_path / "a.csv", options=dataclasses.replace(options, encoding="utf-8")).read(
            RunConfig(out=tmp_path / "runs")
        )


@pytest.mark.parametrize("command", ["compare", "tune", "export"])
def test_every_option_of_a_file_is_a_flag(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    for field in dataclasses.fields(FileOptions):
        assert f"--{field.name.replace('_', '-')}" in shown


def test_several_outputs_are_one_line(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,team,priority\na,b,c\n")
    given = ["--data", str(tmp_path / "a.csv"), "--input", "text", "--output", "team", "priority"]
    assert main(["compare", *given]) == 2
    assert capsys.readouterr().err == (
        "ceil-jax: --output team priority: expected one column; join several in the table, or run "
        "once for each\n"
    )
