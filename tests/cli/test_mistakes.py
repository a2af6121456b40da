"""A command line that cannot be read ends with exit code 2, in tyro's words."""

import re
import sys
from pathlib import Path

import pytest

from ceil_jax.cli.main import main
from ceil_jax.methods.registry import registered_methods
from ceil_jax.metrics import METRICS

PAGES = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare --tsk sst5", "Perhaps you meant: --task STR"),
        ("export out --minutes 3", "--minutes (applied to ceil-jax export)"),
        ("tune --shots 3", "--shots (applied to ceil-jax tune)"),
        ("compare --minutes abc", "Error parsing --minutes"),
        ("compare --dtype float8", "('auto', 'bfloat16', 'float32')"),
        ("comprae", "Available subcommands: demo, tasks, compare"),
        ("", "Expected one of {demo, tasks, compare"),
        ("compare stray", "Unrecognized options: stray"),
        ("export", "PATH"),
    ],
)
def test_a_mistake_is_told_by_tyro(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in " ".join(printed.err.replace("│", " ").split())
    assert not printed.out


def test_a_scale_is_read_before_the_flags(capsys):
    for words, message in (
        ("tune --scale small", "--scale: tune has no scales"),
        ("compare --scale", "--scale: expected one argument"),
    ):
        assert main(words.split()) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert message in line


OLD = """
from ceil_jax import register_retriever

class Old:
    def __init__(self, bank, given):
        self.bank = bank

    def retrieve(self, queries, k):
        return []

register_retriever("old", Old)
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (OLD, "retriever 'old': Old: missing a required argument: 'given'; a retriever is made by"),
        (
            OLD.replace("bank, given", "arguments").replace("self.bank = bank", "pass"),
            "retriever 'old': Old has no `choose` (`retrieve` is no longer called); a retriever is",
        ),
        ("from ceil_jax import Gone", "cannot import name 'Gone' from 'ceil_jax'"),
    ],
)
def test_a_plugin_of_an_earlier_version_is_one_line(code, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "older_plugin.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "older_plugin", raising=False)
    assert main(["compare", "--plugin", "older_plugin"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert "docs/extending.md" in line


def helped(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main([command, "--help-verbose"])
    return capsys.readouterr().out


@pytest.mark.parametrize("asked", ["--help", "--help-verbose"])
def test_the_help_of_tune_has_no_flag_that_it_refuses(asked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    flags = {}
    for command in ("tune", "compare"):
        with pytest.raises(SystemExit):
            main([command, asked])
        # flags stand at the edge, their help further in
        printed = capsys.readouterr().out
        flags[command] = set(re.findall(r"^[│\s]{1,3}(--[a-z][\w.-]*)", printed, re.MULTILINE))
    assert {"--ks", "--trade-offs"} <= flags["tune"]
    assert {"--shots", "--trade-off"} <= flags["compare"]
    assert not {"--shots", "--trade-off"} & flags["tune"]


@pytest.mark.parametrize("command", ["compare", "tune", "export"])
def test_the_metrics_are_named_in_the_help(command, capsys, monkeypatch):
    text = helped(command, capsys, monkeypatch)
    assert set(METRICS) <= set(re.findall(r"\w+", text))


def test_every_flag_of_the_pages_for_users_is_in_the_help(capsys, monkeypatch):
    flags = {
        command: set(re.findall(r"--[a-z][\w.-]*", helped(command, capsys, monkeypatch)))
        for command in ("compare", "tune", "export", "demo", "report", "tasks")
    }
    pages = ["README.md", *(f"docs/{name}.md" for name in ("tutorial", "tune", "commands", "data"))]
    commands = re.compile(r"ceil-jax (compare|tune|export|demo|report|tasks)\b((?:\\\n|.)*)")
    for page in pages:
        for command, rest in commands.findall((PAGES / page).read_text("utf-8")):
            used = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", rest.split("`")[0]))
            assert used - {"--scale", "--quiet", "--plugin", "--help"} <= flags[command], page
    named = {
        flag
        for page in pages
        for flag in re.findall(r"`(--[a-z][\w.-]*)", (PAGES / page).read_text("utf-8"))
    }
    everywhere = {"--scale", "--quiet", "--plugin", "--help", "--help-verbose", "--dry-run"}
    # how methods are trained has pages and a help of its own
    methods = tuple(f"--{name.replace('_', '-')}." for name in registered_methods())
    trained = {flag for flag in named if flag.startswith(methods)}
    assert named - everywhere - trained <= set().union(*flags.values())
