"""Skill-KNN compared with other methods (its Tables 2 and 3): scores, wins, and measures of the
selected examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.command import Experiment, ExperimentOptions
from harness.drawing import points
from harness.grid import Cell, Entry, Grid, Measured
from harness.table import ExperimentTable

from ceil_jax.errors import UserError
from ceil_jax.methods.epr import EPR
from ceil_jax.methods.registry import ROWS
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import SCALES, RunConfig, SkillConfig
from ceil_jax.pipeline.rewriting import rewriting_note, skills_of
from ceil_jax.pipeline.run import Run
from ceil_jax.report.table import Table
from ceil_jax.retrieval.retriever import Choice
from ceil_jax.store.cost import Cost
from ceil_jax.store.kept import Lazy, closure
from ceil_jax.tasks import TASKS
from skill_knn import diversity, gold
from skill_knn.selection import averaged, selected, selection_table

DATABASES = ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql")
COGS = ("cogs.ps", "cogs.pa")
SKILLS = ("skill_base", "skill_consistency", "skill_distinct")
ORACLES = ("target_knn", "target_sketch")
"""The paper's two oracles."""
NAMES = ("random", "topk", *SKILLS, "target_knn", "target_skill", "target_sketch")

_PAPER = RunConfig(encoder="all-mpnet-base-v2", shots=4)

SKILL_SCALES: dict[str, RunConfig] = {
    # a quick check
    "tiny": replace(
        _PAPER,
        limit=8,
        bank_limit=48,
        skills=SkillConfig(orders=2),
        methods=(SCALES["tiny"].method(EPR),),
    ),
    # about 20 to 25 minutes on 2 idle CPU cores with a 135M LM, by the rates in README.md
    "small": replace(_PAPER, limit=40, bank_limit=200, methods=(EPR(epochs=4),)),
    # the papers' banks and queries
    "paper": replace(_PAPER, methods=(SCALES["paper"].method(EPR),)),
}


def skill_experiment(
    name: str,
    title: str,
    tasks: tuple[str, ...],
    method: tuple[str, ...] = NAMES,
    lms: tuple[str, ...] = (),
) -> Experiment:
    """Return an experiment of Skill-KNN with the given default options."""
    defaults = ExperimentOptions(tasks, lms, method=method)
    return Experiment(name, title, entries, points, with_selection, defaults, SKILL_SCALES)


def entries(config: RunConfig, options: ExperimentOptions) -> list[Entry]:
    """Return a row for each answering LM and each method, and a row of the nearest examples for
    each of --encoders.

    Whatever answers, the LM of --lm rewrites, unless --skills.lm names another, and scores what EPR
    learns from.

    Raises:
        UserError: a task without skills; an unknown method.
    """
    check(config.task, options.method)
    rewriter = replace(config.skills, lm=config.skills.lm or config.lm)
    all_entries = []
    for lm in options.lms or (config.lm,):
        answered = replace(config, lm=lm, skills=rewriter)
        suffix = f", {lm}" if len(options.lms) > 1 else ""
        for name in options.method:
            row = config.row(name)
            by = (config,) if row.trains and lm != config.lm else ()
            all_entries.append(Entry(row.title + suffix, config.task, Cell(answered, name, by)))
        for encoder in options.encoders:
            cell = Cell(replace(answered, encoder=encoder), "topk")
            all_entries.append(Entry(f"{ROWS['topk'].label}, {encoder}{suffix}", config.task, cell))
    return all_entries


def check(task: str, methods: Sequence[str]) -> None:
    """Register this folder's methods.

    Raises:
        UserError: a task without skills; an unknown method.
    """
    gold.register()
    diversity.register()
    for name in methods:
        ROWS.require(name)
    if not TASKS[task].language:
        raise UserError(
            f"{task} is neither a SQL nor a COGS task, which this needs; use ceil-jax compare"
        )


def with_selection(grid: Grid, table: ExperimentTable) -> ExperimentTable:
    """Add tables of the wins, of the measures of selected examples, and of how rewriting went."""
    sections = [wins_table(table.measured)]
    notes = []
    for task, members in table.by_task().items():
        rows = {}
        stages = []
        for measurement in members:
            measures = []
            for cell in measurement.entry.cell.repeats(measurement.seeds):
                run, setup = grid.open(cell)
                stages.append(row_stages.choice(setup, setup.row(cell.method)))
                measures.append(selected(setup.task, run.get(stages[-1])))
            rows[measurement.entry.row] = averaged(measures)
        sections.append(selection_table(rows, f"{task}: the selected examples"))
        notes += [f"{task}: {note}" for note in rewriting(run, stages)]
    return replace(table, sections=sections, notes=notes)


def rewriting(run: Run, chosen: Sequence[Lazy[Choice]]) -> Iterator[str]:
    """Yield how many rewrites failed and what rewriting cost, if any method rewrites."""
    if not (note := rewriting_note(run, chosen)):
        return
    cost = sum((run.own_cost(stage) for stage in closure(chosen) if stage.is_of(skills_of)), Cost())
    yield note
    yield f"rewriting bank and queries took {cost.seconds:,.0f} s and {cost.tokens:,} LM tokens"


def wins_table(measured: Sequence[Measured]) -> Table:
    """Return a table of wins as in the paper's Table 2, among the rows of each LM.

    A method wins a task if no method that is not an oracle scores higher; scores are compared with
    the one decimal that is printed, and equal ones win together, as in the paper's own numbers. The
    second column counts the tasks on which it scores above at least one of the paper's oracles,
    which the paper underlines.
    """
    body: list[list[str | int | None]] = []
    for lm in dict.fromkeys(measurement.record.lm for measurement in measured):
        of_lm = [measurement for measurement in measured if measurement.record.lm == lm]
        scores: dict[str, dict[str, float]] = {}
        for measurement in of_lm:
            scores.setdefault(measurement.entry.task, {})[measurement.entry.row] = round(
                measurement.value, 1
            )
        kinds = {
            measurement.entry.row: ROWS[measurement.entry.cell.method] for measurement in of_lm
        }
        oracles = [
            measurement.entry.row
            for measurement in of_lm
            if measurement.entry.cell.method in ORACLES
        ]
        competing = [row for row, method in kinds.items() if not method.needs.gold_outputs]
        won, above = wins(scores, competing, oracles)
        body += [[row, won[row], above[row]] for row in competing]
    return Table(
        ["", "wins", "above an oracle"],
        body,
        "Wins: tasks on which no other but an oracle is better",
    )


def wins(
    scores: Mapping[str, Mapping[str, float]], methods: Sequence[str], oracles: Sequence[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return, for each method, the tasks on which no other method is better, and those on which it
    beats an oracle.

    Args:
        scores: task → method → score as printed, oracles included; a task that failed has some of
            them.
        methods: those that compete.
        oracles: those that see gold outputs.
    """
    won = dict.fromkeys(methods, 0)
    above = dict.fromkeys(methods, 0)
    for scores_of_task in scores.values():
        competing = {
            method: scores_of_task[method] for method in methods if method in scores_of_task
        }
        for method, score in competing.items():
            won[method] += score == max(competing.values())
            above[method] += any(
                score > scores_of_task[oracle] for oracle in oracles if oracle in scores_of_task
            )
    return won, above
