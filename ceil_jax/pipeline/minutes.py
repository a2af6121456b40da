"""Reduction of a comparison so that it ends within a time limit on this machine.

First training queries are cut, then rows, then queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ceil_jax.methods.registry import ZERO_ROW, registered_methods
from ceil_jax.methods.row import Row
from ceil_jax.pipeline import row_stages
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.evaluate import Lineup, lineup_of
from ceil_jax.pipeline.plan import duration, minutes_for, plan
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import Setup, setup_of
from ceil_jax.pipeline.speed import Machine, this_machine, tokens_as_read
from ceil_jax.store.kept import Files, Noted, kept
from ceil_jax.tasks.bank import Examples
from ceil_jax.tasks.draws import draw

FEWEST_QUERIES = 150
"""The smallest number of queries that are answered; with fewer, intervals are too wide to be of use."""

LEAST_TRAINING = 40
"""The smallest number of training queries of a method; if even these take too long, its rows are dropped."""

_WARM = 8
"""Number of queries that are answered before the LM's speed is measured."""

_PROBE = 64
"""Number of queries that the LM answers to measure its speed, with random examples if the comparison
has the row `random`, else without examples."""

_SHARES = (1.0, 0.75, 0.5, 0.25)
"""The shares of a method's training queries that are tried before its rows are dropped."""

SHARE = 0.95
"""The share of the minutes that is used for planning; the rest is for loading models and writing the page."""


class Comparison(NamedTuple):
    """A comparison that was reduced to fit the time limit."""

    lineup: Lineup
    message: str
    """The reductions in words, and the minutes that the full comparison would take."""


def cut_to_fit(lineup: Lineup, minutes: float) -> Comparison:
    """Return the largest comparison that this machine finishes within some minutes.

    These are cut, in this order, until it fits: the training queries of methods that learn from the
    LM, to three quarters, a half and a quarter; the rows of these methods one by one, those that
    learn from sets first, with all training queries restored each time; queries, down to 150; rows
    that learn from the bank's outputs alone. If the command is stopped or repeated, it uses the
    same cut again. If nothing fits, the smallest comparison is run, which takes longer.
    """
    targets = tuple(metric.key for metric in lineup.metrics)
    return lineup.run.get(first_cut_that_fits(targets, minutes, lineup))


@kept(
    "minutes",
    files=Files(
        lambda folder, value: None,
        lambda run, cut, folder: _comparison(run, cut.whole, run.notes(cut)),
    ),
    unkeyed=("whole",),
)
def first_cut_that_fits(
    run: Run, targets: tuple[str, ...], minutes: float, whole: Lineup
) -> Comparison | Noted:
    """Return the first cut that fits, recorded by its number in `cuts`, and its message.

    Args:
        run: measures the machine.
        targets: the keys of the rows' metrics.
        minutes: the time limit.
        whole: the comparison before it is cut.
    """
    machine = measured_machine(run, whole.setup, whole.rows)
    limit = 60 * SHARE * minutes
    seconds_of_cuts: list[float] = []
    # if nothing fits, the loop ends with the smallest comparison, which is run all the same
    for setup, rows in cuts(whole.setup, whole.rows):
        seconds_of_cuts.append(seconds_of(run, setup, rows, machine))
        if seconds_of_cuts[-1] <= limit:
            break
    seconds = seconds_of_cuts[-1]
    message = _message(
        run,
        setup,
        rows,
        all_rows=whole.rows,
        machine=machine,
        whole=seconds_of_cuts[0],
        seconds=seconds,
    )
    if seconds > limit:
        message += f". That is more than --minutes {minutes:g}: fewer queries would show nothing"
    return Noted(None, {"cut": len(seconds_of_cuts) - 1, "message": message})


def _comparison(run: Run, whole: Lineup, notes: Mapping[str, Any]) -> Comparison:
    setup, rows = list(cuts(whole.setup, whole.rows))[notes["cut"]]
    return Comparison(lineup_of(run, setup, rows), notes["message"])


def cuts(setup: Setup, rows: Sequence[Row]) -> Iterator[tuple[Setup, tuple[Row, ...]]]:
    """Yield the setups and rows of ever smaller comparisons, the full one first.

    `cut_to_fit` has their order.
    """
    remaining = tuple(rows)
    trained = [row for row in reversed(remaining) if row.trains]
    # first the methods that learn from sets, then those that learn from single examples; of each
    # kind, the last one first
    trained_with_lm = [row for row in trained if row.learns_from_lm]
    trained_with_lm.sort(key=lambda row: not row.method.learns_sets)
    trained_without_lm = [row for row in trained if row not in trained_with_lm]
    queries = len(setup.task.validation)
    for share in _SHARES:
        yield _smaller(setup, remaining, queries, share)
    for dropped in trained_with_lm:
        remaining = tuple(row for row in remaining if row != dropped)
        has_training_queries = any(row in trained_with_lm for row in remaining)
        for share in _SHARES if has_training_queries else (1.0,):
            yield _smaller(setup, remaining, queries, share)
    while queries > FEWEST_QUERIES:
        queries = max(FEWEST_QUERIES, int(0.9 * queries))
        yield _smaller(setup, remaining, queries)
    for dropped in trained_without_lm:
        remaining = tuple(row for row in remaining if row != dropped)
        yield _smaller(setup, remaining, queries)


def _smaller(
    setup: Setup, rows: Sequence[Row], queries: int, share: float = 1.0
) -> tuple[Setup, tuple[Row, ...]]:
    """Return a smaller comparison: some rows, queries and training queries.

    It has the first `queries` queries of a draw, and a share of the training queries of methods
    that learn from the LM.
    """
    drawn = draw(setup.task.validation, queries, setup.config.data_seed)
    config = with_fewer_training_queries(setup.config, share)
    smaller = setup_of(config, replace(setup.task, validation=drawn), setup.models)
    return smaller, tuple(config.configured(row) for row in rows)


def with_fewer_training_queries(config: RunConfig, share: float) -> RunConfig:
    """Return settings with a share of the training queries of methods that use the LM."""
    if share == 1:
        return config
    fewer = []
    for registered in registered_methods().values():
        method = config.method(type(registered))
        if method.scored_by_lm:
            count = max(LEAST_TRAINING, int(share * method.training_query_count))
            fewer.append(method.with_training_queries(count))
    return config.using(*fewer)


def measured_machine(run: Run, setup: Setup, rows: Sequence[Row]) -> Machine:
    """Return the measured speed of this machine.

    That of the LM is measured by answering the first prompts of a row.
    """
    row = next((row for row in rows if row.name == "random"), ZERO_ROW)
    run.get(row_stages.predictions(setup, row, Examples(setup.queries.examples[:_WARM])))
    probe = row_stages.predictions(setup, row, Examples(setup.queries.examples[:_PROBE]))
    for need in probe.needs:
        run.get(need)
    work = run.estimate(probe)
    with run.lm(setup.lm).metered("measuring the LM's speed") as meter:
        run.get(probe)
    machine = this_machine()
    if work.read and meter.now.seconds:
        return machine._replace(lm=tokens_as_read(work) * work.parameters / meter.now.seconds)
    # if all was answered before, use the time that it took then
    cost = run.own_cost(probe)
    if not cost.tokens or not cost.seconds:
        return machine
    return machine._replace(lm=cost.tokens * work.parameters / cost.seconds)


def seconds_of(run: Run, setup: Setup, rows: Sequence[Row], machine: Machine) -> float:
    """Return the seconds that some rows take.

    Args:
        run: stages on its disk take no time.
        setup: the task and its settings.
        rows: the rows, with the setup's settings.
        machine: the measured speeds of the machine.
    """
    return plan(run, [row_stages.metric(setup, row) for row in rows]).seconds(machine)


def _message(
    run: Run,
    setup: Setup,
    rows: Sequence[Row],
    *,
    all_rows: Sequence[Row],
    machine: Machine,
    whole: float,
    seconds: float,
) -> str:
    """Return the cuts as one line of text.

    `whole` and `seconds` are the times of the whole comparison and of the one with these rows.
    """
    counting = run.models.counting(setup.lm)
    speed = machine.lm / counting.parameters
    parts = [f"{len(setup.queries):,} queries"]
    taught = {row.method.name: row.method for row in rows if row.learns_from_lm}
    parts += [
        f"{method.title} on {method.training_query_count} training queries"
        for method in taught.values()
    ]
    names = {row.name for row in rows}
    dropped = [row.label for row in all_rows if row.name not in names]
    if dropped:
        parts.append(f"no {' and no '.join(dropped)}")
    rest = f"; --minutes {minutes_for(whole, SHARE)} for all of it" if seconds < whole else ""
    about = "" if counting.exact else "about "
    return (
        f"this machine reads {about}{speed:,.0f} LM tokens a second: {', '.join(parts)}, about "
        f"{duration(seconds)}{rest}"
    )
