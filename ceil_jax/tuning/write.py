"""Writes what a search found: the page, the frontier, the numbers, and the recommended selector."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from ceil_jax.pipeline.export import selector_of
from ceil_jax.report.page import stylesheet
from ceil_jax.report.table import Table, typeset
from ceil_jax.selector.folder import check_target
from ceil_jax.store.folder import write as write_file
from ceil_jax.store.locking import held
from ceil_jax.tuning.frontier import draw
from ceil_jax.tuning.outcome import Finished, Outcome
from ceil_jax.tuning.tune import Search
from ceil_jax.tuning.usage import BANK, SELECTOR, selects, usage


class Files(NamedTuple):
    """The files that `write` wrote."""

    page: Path
    selector: Path
    """A selector: the recommended choice, or the best on the final rows that can be one."""
    note: str
    """Which choice the selector is, if it is not the recommended one; else ""."""
    programs: dict[str, str]
    """Python programs that use what is recommended."""


def write(search: Search, outcome: Outcome, folder: Path) -> Files:
    """Write tune.html, frontier.svg, tune.json, tune.csv, and the selector with its model card.

    Args:
        search: it has been run.
        outcome: what it found.
        folder: where to write.
    """
    chosen = outcome.recommended
    exported = chosen if selects(chosen.candidate) else _best_selector(outcome)
    note = ""
    if exported is not chosen:
        note = (
            f"{chosen.label} is no selector; {SELECTOR}/ holds {exported.label}, the best here that is one."
        )
    programs = usage(chosen.candidate, chosen.candidate.config(search.config), search.task, folder)
    page = _page(outcome, programs, note)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        write_file(folder / "frontier.svg", draw(outcome).encode())
        write_file(
            folder / "tune.json", (json.dumps(outcome.data(), indent=2, ensure_ascii=False) + "\n").encode()
        )
        write_file(folder / "tune.csv", outcome.race_table().csv().encode())
        write_file(folder / BANK, _bank(search).encode())
        write_file(folder / "tune.html", page.encode())
    _export(search, outcome, exported, folder / SELECTOR)
    return Files(folder / "tune.html", folder / SELECTOR, note, programs)


def _best_selector(outcome: Outcome) -> Finished:
    """The best on the final rows that can be written as a selector; plain top-k is one of them."""
    able = [one for one in outcome.finals if selects(one.candidate)]
    return max(able, key=lambda one: one.score.mean)


def _export(search: Search, outcome: Outcome, one: Finished, folder: Path) -> None:
    selector = selector_of(search.field.run, search.field.graph(one.candidate), one.candidate.method)
    score = one.score.percent()
    metric = f"{outcome.metric} (percent of {outcome.final:,} final rows, {one.label}, {outcome.lm})"
    notes = (
        f"Chosen by `ceil-jax tune` on {outcome.tuning:,} other rows; 95 % interval {score.low:.1f} to "
        f"{score.high:.1f}. Use it with `k={one.candidate.shots}`. {' '.join(outcome.advice())}"
    )
    selector.card = replace(selector.card, metrics={metric: round(score.mean, 2)}, notes=notes)
    check_target(folder)
    selector.save_pretrained(folder)


def _bank(search: Search) -> str:
    rows = (
        {"id": e.id, "input": e.input, "output": e.output, "fields": dict(e.fields)}
        for e in search.task.train
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _page(outcome: Outcome, programs: dict[str, str], note: str) -> str:
    escape = html.escape
    numbered = outcome.table()
    rows = [[f"{i}. {row[0]}", *row[1:]] for i, row in enumerate(numbered.rows, 1)]
    lead = (
        f"{outcome.metric} in percent on {outcome.final:,} final rows, which were looked at once. "
        f"{len(outcome.runners)} candidates raced on {outcome.tuning:,} other rows, with {outcome.bank:,} examples "
        f"to choose from. Spent: {outcome.spent}."
    )
    return (
        resources.files(__package__)
        .joinpath("tune.html")
        .read_text("utf-8")
        .format(
            title=escape(f"{outcome.task}: the best prompt for {outcome.lm}"),
            style=stylesheet(),
            lead=escape(lead),
            advice="".join(f"<p>{escape(typeset(text))}</p>" for text in outcome.advice()),
            notes="".join(f'<p class="note">{escape(text)}</p>' for text in (*outcome.notes, note) if text),
            finals=Table(numbered.header, rows).html(),
            frontier=draw(outcome),
            differences="".join(f"<li>{escape(typeset(text))}</li>" for text in outcome.differences()),
            code="".join(
                f"<h3>{escape(name)}</h3><pre class='wide'>{escape(text)}</pre>"
                for name, text in programs.items()
            ),
            race=outcome.race_table().html(),
        )
    )
