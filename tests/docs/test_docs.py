"""The documentation: its links lead somewhere, its code is code, and every public name is in it."""

import dataclasses
import importlib
import importlib.util
import io
import re
import shlex
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

import ceil_jax

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
NOTES = sorted((ROOT / "experiments" / "notes").glob("*.md"))
FENCE = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page, language):
    """(the line it starts on, the note above it, the code) of each fenced block."""
    text = page.read_text("utf-8")
    return [
        (text[: match.start()].count("\n") + 1, match[1], match[3])
        for match in FENCE.finditer(text)
        if match[2] == language
    ]


def prose(page):
    """The page without its code."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text("utf-8")))


def anchors(page):
    """The anchors that headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", [*PAGES, *NOTES], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


ROOMS = "benchmarks|ceil_jax|docs|experiments|notebooks|tests"
PATH = re.compile(rf"(?<![\w/.-])(?:{ROOMS})/[\w./-]*\w")


def paths(page):
    """The paths of this repository that a page's code names, in spans and in blocks, and scripts by
    their bare names.

    A reader's own files are called `my_….py`.
    """
    text = page.read_text("utf-8")
    spans = re.findall(r"`([^`\n]+)`", text)
    code = [*spans, *(match[3] for match in FENCE.finditer(text))]
    bare = {
        word for span in spans for word in span.split() if re.fullmatch(r"(?!my_)\w+\.py", word)
    }
    return {path for part in code for path in PATH.findall(part)} | bare


@cache
def files():
    """The names of all Python files of the repository's folders."""
    return {file.name for folder in ROOMS.split("|") for file in (ROOT / folder).rglob("*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page):
    missing = {path for path in paths(page) if not (ROOT / path).exists() and path not in files()}
    assert not missing


def test_a_path_is_found_in_spans_and_in_blocks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`tests/no.py`, `x/docs/a`, `no.py`, `my_no.py`\n\n```sh\npython experiments/no_script.py "
        "-x\n```\n"
    )
    assert paths(page) == {"tests/no.py", "no.py", "experiments/no_script.py"}


@cache
def flags_of(command):
    """All flags that the long help of a sub-command names."""
    from ceil_jax.cli import main as cli

    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit):
        cli.main([command, "--help-verbose"])
    return set(re.findall(r"--[a-z][a-z0-9.-]*", out.getvalue()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_what_exists(page):
    """Sub-commands and flags in shell blocks."""
    from ceil_jax.cli import main as cli

    source = (ROOT / "ceil_jax" / "cli" / "main.py").read_text()
    for line, _, code in blocks(page, "sh"):
        for command in code.replace("\\\n", " ").splitlines():
            words = shlex.split(command, comments=True)
            if len(words) > 1 and words[0].endswith("ceil-jax") and words[1] != "--help":
                # --plugin and --scale, which decide what the others may be, are read before them
                flags = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
                if "--plugin" in flags:  # its method's flags are tried in test_plugins
                    flags = {flag for flag in flags if not flag.startswith("--relative.")}
                flags -= {"--help", "--plugin", "--scale"}
                assert flags <= flags_of(words[1]), (
                    f"{page.name}, line {line}: {flags - flags_of(words[1])}"
                )
            for before, word in zip(["", *words], words, strict=False):
                here = f"{page.name}, line {line}: {command}"
                if before.endswith("ceil-jax"):
                    assert (
                        callable(getattr(cli, word.replace("-", "_"), None))
                        or f'"{word}"' in source
                    ), here


def programs(page):
    """(name, note, code) of each Python program of a page: a block, and the blocks after it that
    say `continue`.

    The note above a block is `run`, `run: packages` if it fetches weights or text, `with: NAME` if
    it starts from what the function of that name below prepares, `continue`, or `not run: REASON`.
    """
    found = []
    for line, note, code in blocks(page, "python"):
        if note == "continue":
            found[-1] = (*found[-1][:2], f"{found[-1][2]}\n{code}")
        else:
            found.append((f"{page.name}:{line}", note or "", code))
    return found


def selector():
    """A selector, as the page that goes on from it has made one."""
    from ceil_jax import CeilSelector

    pytest.importorskip("dspy")
    return {"selector": CeilSelector.from_examples([{"input": "a", "output": "b"}], encoder="tiny")}


def exported():
    """The tutorial's file, and the selector that its command exports with models for tests."""
    import csv

    from ceil_jax.cli.main import main

    pytest.importorskip("langchain_core")
    with open("reviews.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("text", "label"))
        out.writerows((f"film {i} was {w}", w) for i in range(20) for w in ("good", "bad"))
    [command] = [
        code for _, _, code in blocks(ROOT / "docs" / "tutorial.md", "sh") if " export " in code
    ]
    _, *words = shlex.split(command.replace("\\\n", " "))
    assert main([*words, "--method", "topk", "--encoder", "tiny", "--lm", "tiny"]) == 0
    return {}


def tuned():
    """The folder of a selector with a number of examples, as `tune` writes it."""
    from ceil_jax import CeilSelector

    made = CeilSelector.from_examples([{"input": "a", "output": "b"}], encoder="tiny", k=4)
    made.save_pretrained("runs/tune-tickets/selector")
    return {}


PREPARED = {"selector": selector, "exported": exported, "tuned": tuned}
PROGRAMS = [
    pytest.param(
        note, code, id=name, marks=[pytest.mark.packages] if note == "run: packages" else []
    )
    for page in PAGES[1:]  # README's one program is run where its output is compared
    for name, note, code in programs(page)
    if not note.startswith(("not run: ", "file: "))  # files are run by a test of their page
]


@pytest.mark.parametrize(("note", "code"), PROGRAMS)
def test_code_runs(note, code, tmp_path, monkeypatch):
    assert note in ("run", "run: packages", *(f"with: {name}" for name in PREPARED)), (
        f"unknown note {note!r}"
    )
    monkeypatch.chdir(tmp_path)
    names = PREPARED[note.removeprefix("with: ")]() if note.startswith("with: ") else {}
    exec(compile(code, "block", "exec"), {"__name__": "block", **names})


@pytest.mark.packages
def test_the_readme_prints_what_it_says():
    page = ROOT / "README.md"
    [(_, _, code)] = programs(page)
    [(_, _, said)] = blocks(page, "text")
    out = io.StringIO()
    names = {"__name__": "block"}
    with redirect_stdout(out):
        exec(compile(code, "block", "exec"), names)
    assert out.getvalue().rstrip() == said.rstrip()
    # and what it says of top-k
    selector = names["selector"]
    dense = ceil_jax.build_retriever("dense", selector.examples, encoder=selector.encoder)
    query = ceil_jax.Example("query", "A drama that is gripping at first, then tiring.", "")
    nearest = [selector.examples[pick.position].input for pick in dense.retrieve([query], 3)[0]]
    assert sum("gripping" in text for text in nearest) == 2


def test_what_is_not_run_says_why():
    skipped = [
        note for page in PAGES for _, note, _ in programs(page) if note.startswith("not run: ")
    ]
    assert len(skipped) <= 1
    assert all(len(note) > 20 for note in skipped)


def test_the_reference_shows_every_public_name_once_and_what_exists():
    shown = re.findall(r"^::: ([\w.]+)$", (DOCS / "api.md").read_text("utf-8"), re.M)
    missing = {f"{module}.{name}" for name, module in ceil_jax._HOME.items()} - set(shown)
    assert not missing
    assert len(shown) == len(set(shown))
    for path in shown:
        module, name = path.rsplit(".", 1)
        if "adapters" in module:  # needs an extra
            source = (ROOT / (module.replace(".", "/") + ".py")).read_text()
            assert re.search(rf"^(class|def) {name}\b", source, re.M), path
        else:
            assert found(path), path


def found(name):
    """Whether a dotted name is a module, or an attribute of one, at any depth."""
    parts = name.split(".")
    for place in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:place]))
        except ModuleNotFoundError:
            continue
        for part in parts[place:]:
            # a field without a default is not an attribute of its class
            if part in getattr(owner, "__annotations__", {}):
                return True
            owner = getattr(owner, part, None)
            if owner is None:
                return False
        return True
    return False


def test_the_walks_through_the_code_name_what_exists():
    text = (DOCS / "architecture.md").read_text("utf-8")
    paths = re.findall(r"`(ceil_jax\.[\w.]+)`", text)
    assert len(paths) >= 25
    for path in paths:
        assert found(path), path
    # the rows of the table of symbols
    rows = re.findall(r"^\|[^|]+\|[^|]+\| (`.+`) \| `(\w+/\w+)\.py` \|$", text, re.M)
    assert len(rows) >= 10
    for names, file in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert found(f"ceil_jax.{file.replace('/', '.')}.{name}"), name


def test_every_page_is_in_the_sites_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name not in menu] == []


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml")
    import runpy

    convert = runpy.run_path(str(DOCS / "formulas.py"))["on_page_markdown"]
    page = "an $x_i$, a `$PATH`\n\n```sh\necho $HOME $HOME\n```\n\n$$ a + b $$\n"
    made = convert(page)
    assert made.count("<math") == 2
    assert 'display="block"' in made
    assert "<msub>" in made
    assert "`$PATH`" in made
    assert "echo $HOME $HOME" in made


def test_a_formula_that_begins_a_line_stays_in_its_paragraph():
    pytest.importorskip("latex2mathml")
    import runpy

    import markdown

    convert = runpy.run_path(str(DOCS / "formulas.py"))["on_page_markdown"]
    assert markdown.markdown(convert("of\n$k$ examples, $M$ of\nthem")).count("<p>") == 1
    assert markdown.markdown(convert("$k$ examples, $M$ of\nthem")).count("<p>") == 1


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    """Strictly: an unknown page, anchor or name of the reference ends it."""
    pytest.importorskip("mkdocs")
    import subprocess
    import sys

    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",  # --quiet would hide the warnings that it counts
        "--site-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "api.html").read_text("utf-8")
    for name, module in ceil_jax._HOME.items():
        assert f'id="{module}.{name}"' in reference, name
    # formulas of docstrings keep their subscripts
    assert "log det L'_S = (1/λ) Σ_{i ∈ S}" in reference
    assert "<math" in (tmp_path / "mathematics.html").read_text("utf-8")
    assert not list(tmp_path.rglob("*.py"))
    # notebooks are pages with their figures
    notebook = (tmp_path / "notebooks" / "02_greedy_map.html").read_text("utf-8")
    assert "<math" in notebook
    assert 'src="02_greedy_map-1.png"' in notebook
    assert len(list((tmp_path / "notebooks").glob("*.png"))) >= 10


FIDELITY = sorted(DOCS.glob("fidelity*.md"))


@pytest.mark.parametrize("page", FIDELITY, ids=lambda page: page.name)
def test_what_a_page_of_fidelity_names_exists(page):
    """Functions by their dotted names, flags and tasks."""
    from harness.command import ExperimentOptions
    from skill_knn.command import FigureOptions, RecallOptions, SelectedOptions

    from ceil_jax.tasks import TASKS

    text = page.read_text("utf-8")
    quoted = re.findall(r"`([^`\n]+)`", text)
    rooms = {path.parent.name for path in (ROOT / "ceil_jax").glob("*/__init__.py")}
    names = [name for name in quoted if re.fullmatch(r"[a-z_]+(\.\w+)+", name)]
    functions = [name for name in names if name.partition(".")[0] in rooms]
    assert functions
    for name in functions:
        assert found(f"ceil_jax.{name}"), f"{page.name}: {name}"
    for name in set(names) - set(functions):
        assert name in TASKS or (ROOT / "experiments" / name).is_file(), f"{page.name}: {name}"
    options = (ExperimentOptions, SelectedOptions, RecallOptions, FigureOptions)
    fields = [field.name for kind in options for field in dataclasses.fields(kind)]
    own = {f"--{name.replace('_', '-')}" for name in fields}
    known = flags_of("compare") | own | {"--scale"}
    flags = {word for code in quoted for word in code.split() if word.startswith("--")}
    assert flags <= known, f"{page.name}: {sorted(flags - known)}"


def test_a_name_that_does_not_exist_is_not_found():
    assert found("ceil_jax.dpp.kernel.relevance")
    assert found("ceil_jax.lm.prompts.PromptBuilder.build")
    assert not found("ceil_jax.dpp.kernel.relevances")
    assert not found("ceil_jax.dpp.no_module.relevance")
