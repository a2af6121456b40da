"""The sub-commands of `ceil-jax`. Their docstrings are their help texts."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ceil_jax.cli.data_flags import NO_OWN_DATA, OwnData
from ceil_jax.errors import Range, UserError
from ceil_jax.pipeline.config import COMPARED, RunConfig
from ceil_jax.tuning.config import HELD_OUT, TuneConfig

if TYPE_CHECKING:
    from ceil_jax.cli.first import CheckedCommand
    from ceil_jax.tasks.example import Task

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]
Flags = tyro.conf.arg(name="")
"""Annotation of a dataclass parameter whose fields become flags without a prefix."""

_TUNE = TuneConfig()

METHOD_ROWS = (
    "The rows of the table, in order; by default those of these that the task allows: "
    f"{' '.join(COMPARED)}. All: majority classifier copied zero random bm25 topk mmr dpp; trained "
    "without LM calls: free free_map tst; trained on the LM's scores: epr epr_map second_round "
    "ceil_topk ceil; the same examples for every query, found by the LM's scores, or by its answers "
    "if it gives no log-probabilities: fixed fixed_near; skill_base skill_consistency "
    "skill_distinct target_knn target_sketch, or a retriever that --plugin registers."
)


def compare_command(
    config: Annotated[RunConfig, Flags],
    method: Annotated[Sequence[str] | None, tyro.conf.arg(help=METHOD_ROWS)] = None,
    own_data: Annotated[OwnData, Flags] = NO_OWN_DATA,
    minutes: Annotated[float | None, Range(above=0)] = None,
    price: str | None = None,
    dry_run: Switch = False,
    json: Switch = False,
) -> None:
    """Compare ways of choosing examples on one task, and write a report.

    The flag --scale tiny (the default, a quick check), demo, small or paper sets the defaults of
    all other flags; --help-verbose says what each flag does; with --quiet only warnings are logged.
    Stages and report-TASK-*/report.html are written into the folder runs (--out); the next run
    reuses the stages.

    The flag --plugin MODULE, which all commands take, first imports a module of yours, such as one
    that registers a retriever or a loss.

    Args:
        minutes: Finish within this many minutes on this machine. To fit, the number of training
            queries is reduced first, then rows that learn from the LM are left out, then queries
            down to 150, and last the rows that learn without it; a line says what was left out. No
            limit by default.
        price: IN,OUT[,CACHED]: the prices in dollars of a million LM tokens: input, output
            and cached input. The table then has the price of a thousand queries
            and of preparing each method. For another currency add its name: 0.15,0.6,EUR.
        dry_run: Print the stages that would run, their LM tokens and their time, and compute
            nothing.
        json: Print the results as JSON.
    """
    from ceil_jax.cli.first import begin
    from ceil_jax.lm.price import parse_price

    if method is not None and not method:
        raise UserError("--method: name at least one")
    tokens_price = None if price is None else parse_price(price)
    needed = () if dry_run else ("matplotlib",)
    opened = begin(config, own_data, method, *needed)
    # the rest imports jax, for which nobody has to wait who mistyped a flag
    from ceil_jax.pipeline.evaluate import evaluate_rows, lineup_of
    from ceil_jax.pipeline.models import CountingModels
    from ceil_jax.pipeline.setup import open_run
    from ceil_jax.report.compare import comparison_of
    from ceil_jax.report.dry_run import planned

    models = CountingModels() if dry_run else opened.models
    session = open_run(opened.config, opened.task, models)
    lineup = lineup_of(*session, opened.rows)
    remarks = [*filter(None, [_quick_look(opened.task)]), *opened.remarks]
    if dry_run:
        print("\n".join([planned(lineup, tokens_price), *remarks]))
        return
    if minutes is not None:
        from ceil_jax.pipeline.minutes import cut_to_fit

        lineup, message = cut_to_fit(lineup, minutes)
        print(message, file=sys.stderr if json else sys.stdout)
        remarks.append(f"With --minutes {minutes:.3g}: {message}.")
    evaluation = evaluate_rows(lineup, count_tokens=tokens_price is not None)
    table = comparison_of(evaluation, remarks=remarks, price=tokens_price)
    if not json:
        print("\n" + table.text())
    page = table.write_report(
        _folder("report", opened, own_data, [row.name for row in lineup.rows], price)
    )
    if json:
        _print_json({**table.data(), "report": str(page), "figure": str(page.with_suffix(".png"))})
    else:
        print(f"\nreport: {page}\nfigure: {page.with_suffix('.png')}")


def export_command(
    folder: Annotated[Path, tyro.conf.Positional],
    config: Annotated[RunConfig, Flags],
    method: str = "ceil",
    license: str = "",
    own_data: Annotated[OwnData, Flags] = NO_OWN_DATA,
) -> None:
    """Export a method as a selector that `CeilSelector.from_pretrained` opens.

    Takes the flags of `compare`, including `--scale`, and reuses what compare trained in the folder
    runs (--out); what is missing is trained now. FOLDER gets the examples, vectors, encoders and a
    card with the run's metrics.

    Args:
        folder: The folder to write; an existing selector is replaced.
        method: A row of compare that chooses a set (ceil epr_map free_map dpp), the nearest
            examples (epr free topk) or fixed examples (fixed fixed_near); or classifier, for
            LabelClassifier.from_pretrained.
        license: The license of your examples as an SPDX name, for the card.
    """
    from ceil_jax.cli.first import begin

    opened = begin(config, own_data, (method,))
    # the rest imports jax, for which nobody has to wait who mistyped a flag
    from ceil_jax.pipeline.export import export_row
    from ceil_jax.pipeline.setup import open_run

    run, setup = open_run(opened.config, opened.task, opened.models)
    [row] = opened.rows
    print(export_row(run, setup, row, folder, license))


def tune_command(
    config: Annotated[RunConfig, Flags],
    own_data: Annotated[OwnData, Flags] = NO_OWN_DATA,
    search: Annotated[TuneConfig, Flags] = _TUNE,
    price: str | None = None,
    json: Switch = False,
) -> None:
    """Find a way of choosing examples for your data and your LM within a budget, and export it.

    Methods, numbers of examples and values of λ are compared on some of the rows, the cheapest
    first, and clearly worse ones are dropped early. Four finalists then answer held-out final rows,
    which no choice has seen: the best; the cheapest that is within noise of it; a standard choice
    without any search (four examples: the nearest, or by `free` for programs); and zero examples.
    The cheapest finalist that does as well as the best is recommended, so that the expected loss is
    at most --tolerance points. The same command resumes a search that was stopped, with the same
    result.

    Writes tune-TASK-*/ into the folder runs (--out): tune.html, tune.json, and selector/ for
    CeilSelector.from_pretrained. A fifth of --data is held out as final rows, and a fifth of the
    rest are the rows to compare on; compare, which chooses nothing, holds out a tenth.

    Args:
        price: IN,OUT[,CACHED]: the prices in dollars of a million LM tokens: input, output
            and cached input. The table then has the price of a thousand queries
            and of preparing each method, and "cheapest" means money; by default it means tokens.
            For another currency add its name: 0.15,0.6,EUR.
        json: Print the outcome as JSON.
    """
    began = time.perf_counter()
    from ceil_jax.cli.first import begin
    from ceil_jax.lm.price import parse_price

    tokens_price = None if price is None else parse_price(price)
    opened = begin(config, own_data, search.method, held_out=HELD_OUT)
    # the rest imports jax, for which nobody has to wait who mistyped a flag
    from ceil_jax.tuning.search import Search
    from ceil_jax.tuning.write import write_outcome

    config = opened.config
    running = Search(config, opened.task, search, opened.models, began, tokens_price)
    outcome = running.run()
    files = write_outcome(running, outcome, _folder("tune", opened, own_data, search, price))
    if json:
        written = {"page": str(files.page), "selector": str(files.selector)}
        if files.classifier is not None:
            written["classifier"] = str(files.classifier)
        _print_json({**outcome.data(), **written})
        return
    print(f"\n{outcome.text()}\n")
    if files.note:
        print(files.note)
    print(f"page: {files.page}\nselector: {files.selector}")
    if files.classifier is not None:
        print(f"classifier: {files.classifier}")
    print(f"\n{files.program}")


def tasks_command(
    name: Annotated[str | None, tyro.conf.Positional] = None, data_dir: Path | None = None
) -> None:
    """List the tasks, or show one: the sizes of its splits and five sample prompts.

    Args:
        name: A task's name.
        data_dir: A folder of datasets with the column names of the hub; by default the hub or the
            embedded copy.
    """
    from ceil_jax.cli.task_list import list_of_tasks, task_details
    from ceil_jax.tasks import TASKS

    if name is None:
        print(list_of_tasks(data_dir))
        return
    spec = TASKS[name]
    if spec.hub is not None and data_dir is None:
        from ceil_jax.store.hub import go_offline_without_hub

        go_offline_without_hub([spec.hub.repo])
    print(task_details(spec, data_dir))


def report_command(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("runs"),),
    out: Path | None = None,
) -> None:
    """Write one self-contained HTML page with every evaluation in one or several folders of runs.

    Args:
        runs: Folders that were the --out of compare, demo or an experiment.
        out: The page to write; by default report.html in the first folder.
    """
    from ceil_jax.report.write import write_page

    print(f"report: {write_page(runs, out or runs[0] / 'report.html')}")


def show_command(
    method: Annotated[str, tyro.conf.Positional],
    config: Annotated[RunConfig, Flags],
    query: str,
    own_data: Annotated[OwnData, Flags] = NO_OWN_DATA,
) -> None:
    """Show how a row of compare answered one query: its examples, the prompt and the answer; for a
    training query, its candidate sets with the LM's scores of them; and the folders of all steps.

    Takes the flags of `compare`, and reads what compare wrote into the folder runs (--out).

    Args:
        method: A row of compare.
        query: The id of a held-out query, or of a training query: `compare` shows ids on its page.
    """
    from ceil_jax.cli.first import begin

    opened = begin(config, own_data, (method,))
    # the rest imports jax, for which nobody has to wait who mistyped a flag
    from ceil_jax.pipeline.setup import open_run
    from ceil_jax.report.show import explanation

    run, setup = open_run(opened.config, opened.task, opened.models)
    [row] = opened.rows
    print(explanation(run, setup, row, query))


QUICK_LOOK = 100
"""A comparison on fewer queries than this, and fewer than the task has, counts as a quick check."""


def _quick_look(task: Task) -> str:
    """Return a remark for a comparison on few of a task's queries; "" if there are many, or if the
    task has no more."""
    asked = len(task.validation)
    if asked >= min(task.available, QUICK_LOOK):
        return ""
    return (
        f"A quick check: {task.asked}, which only shows that everything runs. --scale small uses "
        f"up to 200 and trains on more; --limit {task.available} uses all."
    )


def _folder(kind: str, opened: CheckedCommand, own_data: OwnData, *more: Any) -> Path:
    """The folder of a command's results.

    Its name depends on the settings and on the rows, so that only the same command on the same rows
    writes into it again.

    Args:
        kind: the beginning of its name.
        opened: the settings and the rows.
        own_data: the user's file.
        more: further settings of the command.
    """
    from ceil_jax.store.hashing import digest

    task = opened.task
    settings = replace(opened.config, out=Path())
    key = digest([settings, own_data, [*task.train], [*task.validation], *more])
    return opened.config.out / f"{kind}-{task.name}-{key[:8]}"


def _print_json(value: Any) -> None:
    print(json_module.dumps(value, indent=2, ensure_ascii=False))
