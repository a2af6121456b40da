"""Writes what a search found: the page, the numbers, and the recommended selector."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from ceil_jax.pipeline.export import selector_of
from ceil_jax.report.page import page_file
from ceil_jax.report.table import typeset
from ceil_jax.store.folder import write_files
from ceil_jax.tuning.outcome import Outcome, Standing
from ceil_jax.tuning.tune import Search


class TuneFiles(NamedTuple):
    """The files that `write_outcome` wrote, and how the selector is used."""

    page: Path
    selector: Path
    """A selector: the recommended choice, or the best on the final rows that can be one."""
    note: str
    """Which choice the selector is, if it is not the recommended one; else ""."""
    program: str


def write_outcome(search: Search, outcome: Outcome, folder: Path) -> TuneFiles:
    """Write tune.html, tune.json, and the selector with its model card."""
    able = [one for one in outcome.finals if one.candidate.row.exports]
    # plain top-k is one of them
    chosen = (
        outcome.recommended
        if outcome.recommended in able
        else max(able, key=lambda one: one.score.mean)
    )
    note, target = "", folder / "selector"
    if chosen is not outcome.recommended:
        best = f"selector/ holds {chosen.label}, the best here that is one."
        note = f"{outcome.recommended.label} is no selector; {best}"
    fields = {
        name: "…" for name in search.task.template.names[:-1] if name != search.task.template.input
    }
    query = {"input": "a new text", **fields} if fields else "a new text"
    program = (
        "from ceil_jax import CeilSelector\n\nselector = "
        f"CeilSelector.from_pretrained({str(target)!r})\n"
        f"print(selector.select({query!r}, k={chosen.candidate.shots}).prompt)"
    )
    numbers = json.dumps(outcome.data(), indent=2, ensure_ascii=False)
    page = _page(outcome, program, note)
    write_files(folder, {"tune.json": f"{numbers}\n".encode(), "tune.html": page.encode()})
    _export(search, outcome, chosen, target)
    return TuneFiles(folder / "tune.html", target, note, program)


def _export(search: Search, outcome: Outcome, chosen: Standing, folder: Path) -> None:
    setup, score = search.field.setup(chosen.candidate), chosen.score.percent()
    selector = selector_of(search.field.run, setup, setup.row(chosen.candidate.method))
    metric = (
        f"{outcome.metric} (percent of {outcome.final:,} final rows, {chosen.label}, {outcome.lm})"
    )
    notes = (
        f"Chosen by `ceil-jax tune` on {outcome.tuning:,} other rows; 95 % interval "
        f"{score.low:.1f} to {score.high:.1f}. Use it with `k={chosen.candidate.shots}`. "
        f"{' '.join(outcome.advice())}"
    )
    selector.card = replace(selector.card, metrics={metric: round(score.mean, 2)}, notes=notes)
    selector.save_pretrained(folder)


def _page(outcome: Outcome, program: str, note: str) -> str:
    lead = (
        f"{outcome.metric} in percent on {outcome.final:,} final rows, which were looked at once. "
        f"{len(outcome.race)} candidates raced on {outcome.tuning:,} other rows, with "
        f"{outcome.bank:,} examples to choose from. Spent: {outcome.spent}."
    )
    notes = [note for note in (*outcome.notes, note) if note]
    template = resources.files(__package__).joinpath("tune.html").read_text("utf-8")
    return template.format(
        title=html.escape(f"{outcome.task}: the best prompt for {outcome.lm}"),
        style=page_file("page.css"),
        lead=html.escape(lead),
        advice="".join(f"<p>{html.escape(typeset(text))}</p>" for text in outcome.advice()),
        notes="".join(f'<p class="note">{html.escape(text)}</p>' for text in notes),
        finals=outcome.finals_table().html(),
        differences="".join(
            f"<li>{html.escape(typeset(text))}</li>" for text in outcome.differences()
        ),
        program=html.escape(program),
        race=outcome.race_table().html(),
    )
