"""The numbers of the pages are those of the records.

A table is checked where the line before it names its experiment, shots and LM (by default that of
the evidence): `<!-- recorded: table2, 4, gemma-3-270m@bfloat16 -->`. Rows are methods or
differences and columns tasks, or turned. Two experiments, `first_runs and table2`, are one with
twice the seeds, on the queries that both answered; in `learning_curve on mtop` the columns are
those of that task's table. Other tables of measured numbers say above them `printed by: COMMAND` or
`no record: WHY`.
"""

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import evidence
import pytest
import results
from harness.crossed import Crossed, alike
from harness.estimates import estimate
from harness.results_file import RESULTS, read_results

from ceil_jax.metrics.bootstrap import paired

ROOT = Path(__file__).parents[2]
DOCUMENTATION = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = sorted((ROOT / "experiments" / "notes").glob("*.md"))
PAGES = [*DOCUMENTATION, *NOTES]
MARK = re.compile(r"^<!-- recorded: ([\w. ]+), (\d+)(?:, (\S+))? -->\n((?:\|.*\n)+)", re.M)
NAMES = {name: task for task, name in evidence.TASKS.items()} | {
    "template split": "geoquery.template",
    "its template split": "geoquery.template",
    "MRPC, accuracy": "mrpc",
    "MTOP, exact match": "mtop",
    "mean (95 % interval)": "mean",
    "top-k": "dense top-k",
}
"""Words of the pages → words of the records."""
KINDS = {
    "labels": ("sst5", "movie_reviews", "mrpc", "qnli", "mnli"),
    "programs": ("geoquery", "geoquery.template", "mtop"),
    "five tasks of the paper": ("geoquery", "cmsqa", "sst5", "webqs", "nl2bash"),
}
"""Columns that are means over the tasks whose outputs are of one kind."""
ALIKE = " by program"
"""The end of a column's name if every program weighs the same in it, on a task or in a mean."""
WITHOUT = "mean without "
"""The beginning of a column's name for a mean without a task."""


def plain(text):
    text = re.sub(r" \(on .*\)$", "", text.replace("*", "").strip())
    return NAMES.get(text, text)


def cells(text):
    """(experiment, examples, LM, row, column, cell) of every cell of the marked tables."""
    for experiment, shots, lm, table in MARK.findall(text):
        header, _, *body = [line.strip("|").split(" | ") for line in table.splitlines()]
        for first, *others in body:
            for column, cell in zip(header[1:], others, strict=True):
                if cell.strip():
                    where = plain(first), plain(column)
                    yield (
                        experiment,
                        int(shots),
                        lm or evidence.LM,
                        *where,
                        cell.replace("*", "").strip(),
                    )


@cache
def published():
    return read_results(RESULTS)


@cache
def runs(experiment, shots, lm, data_dir=None):
    """(row, task) → the runs of that row."""
    records = published()
    if " and " in experiment:
        records = results.together(records, *experiment.split(" and "), data_dir)
    experiment, _, task = experiment.partition(" on ")
    if task:
        records = [replace(one, task=one.column) for one in records if one.task == task]
    return evidence.places(records, experiment, shots, lm)


def base(found, row, column):
    """The baseline of a column: a row in this column, or in the only column that the row has, as with an
    untrained row."""
    columns = [other for name, other in found if name == row]
    return found[row, column if column in columns else columns[0] if len(columns) == 1 else column]


def tasks_of(found, column):
    """The tasks of a column, and whether it is their mean."""
    if column == "mean" or column.startswith(WITHOUT):
        left_out = plain(column.removeprefix(WITHOUT).removeprefix("the "))
        return [task for task in dict.fromkeys(task for _, task in found) if task != left_out], True
    return (list(KINDS[column]), True) if column in KINDS else ([plain(column)], False)


def recorded(found, row, column):
    """The cell of a method, or of "A − B", on a task or in the mean over tasks, as tables print
    it."""
    by_program = column.endswith(ALIKE)
    view = alike if by_program else lambda runs: runs
    tasks, average = tasks_of(found, column.removesuffix(ALIKE))
    name, _, other = map(plain, row.partition(" − "))
    samples = {one: view(found[name, one]).sample for one in tasks}
    if other:
        bases = {one: view(base(found, other, one)).sample for one in tasks}
        samples = {one: paired(samples[one], bases[one]) for one in tasks}
        return str(estimate(samples).difference())
    if average or by_program:
        mean = estimate(samples).interval
        return f"{mean.mean:.1f} ({mean.low:.1f} to {mean.high:.1f})"
    [runs_of_row] = [found[name, one] for one in tasks]
    return f"{runs_of_row.value:.1f}" + (
        "" if runs_of_row.sd is None else f" ± {runs_of_row.sd:.1f}"
    )


def same(printed, cell):
    """Whether a cell is what tables print, or the beginning of it: pages leave out the spread of a
    seed."""
    printed, cell = (re.sub("[−-]", "-", text).replace("+", "") for text in (printed, cell))
    return f"{printed} ".startswith(f"{cell} ")


@cache
def agrees(experiment, shots, lm, first, second, cell, data_dir=None):
    found = runs(experiment, shots, lm, data_dir)
    rows = {row for row, _ in found}
    by_row = all(plain(name) in rows for name in first.split(" − "))
    row, column = (first, second) if by_row else (second, first)
    return same(recorded(found, row, column), cell)


ALL = [(page.name, *one) for page in PAGES for one in cells(page.read_text("utf-8"))]
TOGETHER, ALONE = ([one for one in ALL if (" and " in one[1]) == both] for both in (True, False))


def test_twenty_cells_of_the_marked_tables_are_recorded():
    assert {"results.md", "found.md", "what_teaches.md"} <= {page for page, *_ in ALL}
    assert len(ALL) > 150
    # other cells are drawn after every change of the pages
    drawn = random.Random(repr(ALL)).sample(ALONE, 20)
    assert [one for one in drawn if not agrees(*one[1:])] == []


@pytest.mark.slow
def test_every_cell_of_the_marked_tables_is_recorded():
    assert [one for one in ALONE if not agrees(*one[1:])] == []


@pytest.mark.slow
@pytest.mark.data
def test_cells_of_two_runs_together_are_recorded(data_dir):
    assert TOGETHER
    assert [one for one in TOGETHER if not agrees(*one[1:], data_dir)] == []


@pytest.mark.parametrize("wrong", ["61.1 ± 1.5", "61.0 ± 1.4", "6"])
def test_a_wrong_cell_is_found(wrong):
    settings = ("table2", 4, evidence.LM)
    page = "<!-- recorded: {}, {}, {} -->\n| | GeoQuery |\n| --- | --- |\n| EPR | {} |\n"
    [right], [found] = (
        list(cells(page.format(*settings, cell))) for cell in ("**61.0** ± 1.5", wrong)
    )
    assert right == (*settings, "EPR", "geoquery", "61.0 ± 1.5")
    assert agrees(*right)
    assert not agrees(*found)


INTERVAL = re.compile(r"\(([−-]?\d+\.\d to [−-]?\d+\.\d)")
SAID = [ROOT / "README.md", ROOT / "docs" / "found.md"]
"""Pages whose sentences have intervals too."""


@pytest.mark.parametrize("page", SAID, ids=lambda page: page.name)
def test_intervals_in_sentences_stand_in_a_marked_table(page):
    text = re.sub(r"^\|.*\n", "", page.read_text("utf-8"), flags=re.M)
    said = {one.replace("\n", " ") for one in INTERVAL.findall(" ".join(text.split()))}
    printed = {interval for *_, cell in ALL for interval in INTERVAL.findall(cell)}
    assert said
    assert said - printed == set()


MEASURED = re.compile(r"\| *\**[+−-]?\d+\.\d+ *(?=%|\(|±|\||\*\*)")
SOURCE = re.compile(r"<!-- (recorded|printed by|no record): (.+) -->")


@pytest.mark.parametrize("page", DOCUMENTATION, ids=lambda page: page.name)
def test_tables_of_measured_numbers_say_where_they_come_from(page):
    lines = page.read_text("utf-8").splitlines()
    starts = [
        i
        for i, line in enumerate(lines)
        if line.startswith("|") and not lines[i - 1].startswith("|")
    ]
    for start in starts:
        end = next(
            (i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines)
        )
        if any(len(MEASURED.findall(line)) > 1 for line in lines[start:end]):
            source = SOURCE.fullmatch(lines[start - 1])
            assert source, f"{page.name}, line {start + 1}"
            scripts = [word for word in source[2].split() if word.endswith(".py")]
            assert all((ROOT / script).is_file() for script in scripts), (
                f"{page.name}, line {start}"
            )


@cache
def gains():
    return evidence.gains(published())


def test_the_figure_is_of_the_recorded_runs():
    drawn = evidence.FILE.read_text("utf-8")
    assert evidence.drawing(gains()) == drawn, "run `python experiments/evidence.py`"


def test_the_page_has_the_figures_table():
    assert evidence.table(gains()) in (ROOT / "docs" / "reproduction.md").read_text("utf-8")


def test_the_costs_are_recorded():
    costs = Crossed(runs("table2", 4, evidence.LM), {}).costs().markdown().splitlines()[2:]
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    printed = page[page.index(costs[0]) :].partition("\n\n")[0].splitlines()
    assert len(printed) > 6
    assert [line for line in printed if line not in costs] == []
