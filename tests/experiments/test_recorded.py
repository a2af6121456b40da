"""The marked tables of the pages say what the records say.

A table is marked if the line before it names its experiment, shots and LM (by default that of the evidence):
`<!-- recorded: table2, 4, gemma-3-270m@bfloat16 -->`. Rows are methods or differences and columns tasks, or turned.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from evidence import LM
from harness.results_file import RESULTS, read_results

from ceil_jax.metrics.bootstrap import averaged_interval, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import signed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "experiments" / "NOTES.md"]
MARK = re.compile(r"^<!-- recorded: (\w+), (\d+)(?:, (\S+))? -->\n((?:\|.*\n)+)", re.M)
NAMES = {
    "GeoQuery": "geoquery",
    "its template split": "geoquery.template",
    "template split": "geoquery.template",
    "film reviews": "movie_reviews",
    "CommonsenseQA": "cmsqa",
    "SST-5": "sst5",
    "WebQuestions": "webqs",
    "NL2Bash": "nl2bash",
    "MRPC, accuracy": "mrpc",
    "MTOP, exact match": "mtop",
    "mean (95 % interval)": "mean",
    "top-k": "dense top-k",
}
"""Words of the pages → words of the records."""


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
                    yield experiment, int(shots), lm or LM, *where, cell.replace("*", "").strip()


@cache
def runs(experiment, shots, lm):
    """(row, task) → the runs of that row."""
    places = {}
    for one in read_results(RESULTS):
        if (one.experiment, one.config["shots"], one.lm) == (experiment, shots, lm):
            encoder = one.config["encoder"]
            row = one.row if encoder == "all-MiniLM-L6-v2" else f"{one.row}, {encoder}"
            places.setdefault((row, one.task), []).append(one)
    return {place: Runs(members) for place, members in places.items()}


def recorded(found, row, task):
    """The cell of a method, or of "A − B", on a task or in the mean over tasks, as tables print it."""
    tasks = dict.fromkeys(task for _, task in found) if task == "mean" else [task]
    own, *bases = [[found[plain(name), one] for one in tasks] for name in row.split(" − ")]
    samples = [one.sample for one in own]
    if bases:
        samples = [paired(one, base.sample) for one, base in zip(samples, *bases, strict=True)]
    if task == "mean":
        mean = averaged_interval(samples).percent()
        return str(signed(mean)) if bases else f"{mean.mean:.1f} ({mean.low:.1f} to {mean.high:.1f})"
    if bases:
        return str(signed(own[0].minus(bases[0][0])))
    return f"{own[0].value:.1f}" + ("" if own[0].sd is None else f" ± {own[0].sd:.1f}")


def same(printed, cell):
    """Whether a cell is what tables print, or the beginning of it: pages leave out the spread of a seed."""
    printed, cell = (re.sub("[−-]", "-", text).replace("+", "") for text in (printed, cell))
    return f"{printed} ".startswith(f"{cell} ")


def agrees(experiment, shots, lm, first, second, cell):
    found = runs(experiment, shots, lm)
    tasks = {task for _, task in found} | {"mean"}
    row, task = (first, second) if second in tasks else (second, first)
    return same(recorded(found, row, task), cell)


def test_every_cell_of_the_marked_tables_is_recorded():
    found = [(page.name, *one) for page in PAGES for one in cells(page.read_text("utf-8"))]
    assert len({page for page, *_ in found}) >= 3 and len(found) > 150
    assert [one for one in found if not agrees(*one[1:])] == []


@pytest.mark.parametrize("wrong", ["61.1 ± 1.5", "61.0 ± 1.4", "6"])
def test_a_wrong_cell_is_found(wrong):
    settings = ("table2", 4, LM)
    page = "<!-- recorded: {}, {}, {} -->\n| | GeoQuery |\n| --- | --- |\n| EPR | {} |\n"
    [right], [found] = (list(cells(page.format(*settings, cell))) for cell in ("**61.0** ± 1.5", wrong))
    assert right == (*settings, "EPR", "geoquery", "61.0 ± 1.5") and agrees(*right) and not agrees(*found)
