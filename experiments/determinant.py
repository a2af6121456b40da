"""When a determinant pays: the gain of greedy MAP over the nearest examples, by λ and by the number
of examples K.

    python experiments/determinant.py --data-dir DATA
    python experiments/determinant.py --data-dir DATA --answer 220 --splits geoquery.template

The first needs no LM calls. It measures *coverage* on GeoQuery's splits with the untrained encoder: the
share of a query's names and edges (`tasks.structures`) that are in at least one of its K
examples. That is a world in which a determinant must pay, because a second example with the same
parts adds nothing. Each bank is taken twice: as it is, and with two more wordings of every example
beside it (*near-copies*, a bank made for this). It writes docs/determinant.svg, with what an LM
makes of the same sets below, where that is recorded.

With `--answer N` an LM answers the first N queries with every set, and the runs go into a results
file under the experiment `determinant`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness.command import script
from harness.results_file import RESULTS, Published, keep, measured_here, read_results

from ceil_jax import load_encoder, load_task
from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.lm import load_lm
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.prompts import Prompt, PromptBuilder, answer_reserve
from ceil_jax.lm.readings import Readings
from ceil_jax.metrics import METRICS
from ceil_jax.metrics.bootstrap import Interval, Sample, bootstrap_interval, by_group, mean, paired
from ceil_jax.report.runs import Runs
from ceil_jax.report.table import Table, signed
from ceil_jax.retrieval.index import top_k
from ceil_jax.retrieval.shortlists import greedy_map_shortlists
from ceil_jax.store.hashing import digest
from ceil_jax.tasks.example import Task
from ceil_jax.tasks.structures import programs, structure_parser_of
from ceil_jax.tasks.words import overlap

FILE = Path(__file__).parents[1] / "docs" / "determinant.svg"
GRID = (0.001, 0.003, 0.01, 0.03, 0.05, 0.1)
COUNTS = (4, 8, 16, 50)
SHORTLIST = 100
SPLITS = {"geoquery": "GeoQuery", "geoquery.template": "template split"}
WORDINGS = ("{}", "please tell me : {}", "i would like to know {}")
"""Wordings of an input: a bank with near-copies has every example once in each of them."""
NEAREST = "dense top-k"


class Choice(NamedTuple):
    """The examples of every query, chosen with one λ, or the nearest ones if λ is None."""

    trade_off: float | None
    positions: np.ndarray
    """int [Q, K]: positions in the bank, in the order of the choice."""
    relevance: np.ndarray
    """float [Q, K]."""

    @property
    def row(self) -> str:
        """The name of the choice in tables."""
        return NEAREST if self.trade_off is None else f"MAP, λ = {self.trade_off:g}"


@dataclass(frozen=True)
class Bank:
    """A task with its own bank or with near-copies, and the unit vectors of queries and bank."""

    task: Task
    name: str
    queries: np.ndarray
    examples: np.ndarray

    def choices(self, count: int) -> Iterator[Choice]:
        """Yield the nearest `count` examples of every query, and the MAP set of each λ."""
        size = min(SHORTLIST, len(self.examples))
        cosines, shortlist = top_k(self.queries, self.examples, size)
        yield Choice(None, shortlist[:, :count], cosines[:, :count])
        for trade_off in GRID:
            chosen = greedy_map_shortlists(
                self.queries, self.examples, shortlist, count, trade_off
            ).items
            near = np.einsum("qd,qkd->qk", self.queries, self.examples[chosen])
            yield Choice(trade_off, np.asarray(chosen), near)


def with_near_copies(task: Task) -> Task:
    """Return a task whose bank has every example in each of WORDINGS."""
    return replace(
        task,
        train=[
            replace(example, id=f"{example.id}-{number}", input=wording.format(example.input))
            for example in task.train
            for number, wording in enumerate(WORDINGS)
        ],
    )


def coverage(task: Task, positions: np.ndarray) -> np.ndarray:
    """Return the share of each query's structures that its examples cover together, float [Q]."""
    parser = structure_parser_of(task.train)
    assert parser is not None, f"the outputs of {task.name} are not programs"
    parts = [parser(example.output) for example in task.train]
    shares = []
    for query, row in zip(task.validation, positions, strict=True):
        wanted = parser(query.output)
        covered = frozenset().union(*(parts[position] for position in row if position >= 0))
        shares.append(len(wanted & covered) / max(1, len(wanted)))
    return np.array(shares)


class Gain(NamedTuple):
    """The gain of MAP over the nearest examples, in points."""

    panel: str
    shots: int
    trade_off: float
    nearest: float
    points: Interval


def coverage_gains(bank: Bank) -> Iterator[Gain]:
    """Yield the gains in coverage for each K and λ; their intervals resample programs."""
    groups = programs(bank.task.validation, bank.task.train)
    title = f"coverage, {SPLITS[bank.task.name]}{bank.name}"
    for count in COUNTS:
        nearest, *others = bank.choices(count)
        base = coverage(bank.task, nearest.positions)
        for choice in others:
            assert choice.trade_off is not None
            less = coverage(bank.task, choice.positions) - base
            grouped = by_group(Sample(less[:, None], mean), groups)
            points = bootstrap_interval(*grouped).percent()
            yield Gain(title, count, choice.trade_off, 100 * float(base.mean()), points)


def answered(
    bank: Bank, count: int, lm: CachedLM, encoder: str, shots_column: str
) -> Iterator[Published]:
    """Yield the record of each choice: the exact match of the LM's answers with its examples."""
    task = bank.task
    metric = METRICS[task.metric]
    prompt = Prompt(task.template)
    reserve = answer_reserve(lm, prompt, task.validation, task.max_new_tokens)
    builder = PromptBuilder(lm, prompt, reserve)
    shared = overlap(task.validation, task.train)
    if (groups := programs(task.validation, task.train)) is not None:
        shared = shared._replace(question=groups)
    for choice in bank.choices(count):
        prompts = [
            builder.build(query, [task.train[i] for i in row], relevance.tolist()).text
            for query, row, relevance in zip(
                task.validation, choice.positions, choice.relevance, strict=True
            )
        ]
        with lm.metered(f"answering with {choice.row}, K = {count}") as meter:
            answers = lm.generate(prompts, task.max_new_tokens, task.stop)
        texts = [answer.strip() for answer in answers]
        scores = metric.scored(texts, task.validation)
        statistics = np.asarray(metric.statistics(scores, texts, task.validation), np.float64)
        value = 100 * float(metric.from_sums(statistics.sum(axis=0), len(statistics)))
        settings = [task.name, bank.name, len(prompts), count, choice.row, lm.name, encoder]
        record = Published(
            name=f"run-{digest(settings)}",
            task=task.name,
            method="topk" if choice.trade_off is None else "dpp",
            metric=task.metric,
            lm=lm.name,
            config={"encoder": encoder, "shots": count},
            queries=len(prompts),
            bank=len(task.train),
            texts="",
            value=value,
            cost=meter.cost,
            seed=None,
            trade_off=choice.trade_off,
            examples=float(count),
            statistics=statistics,
            overlap=shared,
            experiment="determinant",
            row=choice.row,
            column=shots_column,
        )
        yield measured_here(record)


def answer_gains(records: Sequence[Published], *, best: bool = False) -> Iterator[Gain]:
    """Yield the recorded gains in exact match over the same number of nearest examples; with
    `best`, over the best number of nearest examples in that bank."""
    answers = [record for record in records if record.experiment == "determinant"]
    for record in answers:
        near = ", near-copies" if "near-copies" in record.column else ""
        nearest = [
            other
            for other in answers
            if (other.row, other.task) == (NEAREST, record.task)
            and other.column == f"K = {other.config['shots']}{near}"
            and (best or other.column == record.column)
        ]
        if record.trade_off is None or not nearest:
            continue
        base = max(nearest, key=lambda other: other.value)
        points = bootstrap_interval(*paired(Runs((record,)).sample, Runs((base,)).sample)).percent()
        less = f" less the nearest {base.config['shots']}" if best else ""
        title = f"exact match, {SPLITS[record.task]}{near}{less}"
        yield Gain(title, record.config["shots"], record.trade_off, base.value, points)


STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .head { font-weight: 600 } .soft { fill: #59636e }
.end { text-anchor: end } line { stroke: #d0d7de } .zero { stroke: #59636e } polyline { fill: none; stroke-width: 2 }
.mark { stroke-width: 1.5 }
.c0 { stroke: #2f6f9f } .c1 { stroke: #bf5700 } .c2 { stroke: #6a3d9a } .c3 { stroke: #1a7f37 }
.t0 { fill: #2f6f9f } .t1 { fill: #bf5700 } .t2 { fill: #6a3d9a } .t3 { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9aa4af } line { stroke: #3d444d } .zero { stroke: #9aa4af }
  .c0 { stroke: #58a6d8 } .c1 { stroke: #ffa657 } .c2 { stroke: #c9a2f2 } .c3 { stroke: #56d364 }
  .t0 { fill: #58a6d8 } .t1 { fill: #ffa657 } .t2 { fill: #c9a2f2 } .t3 { fill: #56d364 }
}
"""
LEFT = 34
TOP = 72
"""The top of the first panel, in pixels, like all sizes here."""
WIDTH = 210
HEIGHT = 150
"""The size of a panel."""
GAP = 56
"""The gap between panels."""
COLUMNS = 2
"""Panels in a row, so that the words can be read on a phone."""


def drawing(gains: Sequence[Gain]) -> str:
    """Return the figure as SVG, with a panel for each measure and bank, and a line for each K."""
    panels = list(dict.fromkeys(gain.panel for gain in gains))
    rows = -(-len(panels) // COLUMNS)
    width = LEFT + COLUMNS * (WIDTH + GAP)
    height = TOP + 10 + rows * (HEIGHT + GAP + 20)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<title>Points of MAP over the nearest examples, by λ and K</title><style>{STYLE}</style>",
        '<text class="head" x="4" y="18">Points of a set over the K nearest examples</text>',
        '<text class="soft" x="4" y="37">greedy MAP, untrained encoder, by λ; 95 % intervals over '
        "programs</text>",
    ]
    for position, count in enumerate(COUNTS):
        x = LEFT + 70 * position
        parts.append(f'<text class="t{position}" x="{x}" y="58">K = {count}</text>')
    for position, panel in enumerate(panels):
        x = LEFT + position % COLUMNS * (WIDTH + GAP)
        y = TOP + 40 + position // COLUMNS * (HEIGHT + GAP + 20)
        parts += _panel([gain for gain in gains if gain.panel == panel], x, y)
    return "\n".join([*parts, "</svg>", ""])


def _panel(gains: Sequence[Gain], left: float, top: float) -> Iterator[str]:
    low = min(0.0, *(gain.points.low for gain in gains))
    high = max(1.0, *(gain.points.high for gain in gains))
    step = 5 if high - low > 12 else 2

    def x(trade_off: float) -> float:
        share = np.log(trade_off / GRID[0]) / np.log(GRID[-1] / GRID[0])
        return round(left + 8 + (WIDTH - 20) * float(share), 1)

    def y(points: float) -> float:
        return round(top + HEIGHT * (high - points) / (high - low), 1)

    measure, _, bank = gains[0].panel.partition(", ")
    yield f'<text class="head" x="{left}" y="{top - 26}">{measure}</text>'
    yield f'<text class="soft" x="{left}" y="{top - 9}">{bank}</text>'
    for points in range(step * math.ceil(low / step), int(high) + 1, step):
        kind = "" if points else ' class="zero"'
        yield f'<line{kind} x1="{left}" x2="{left + WIDTH}" y1="{y(points)}" y2="{y(points)}"/>'
        number = f"{points:+}" if points else "0"
        yield f'<text class="soft end" x="{left - 4}" y="{y(points) + 4}">{number}</text>'
    for trade_off in (0.001, 0.01, 0.1):
        name = f"{trade_off:g}"
        yield f'<text class="soft" x="{x(trade_off) - 8}" y="{top + HEIGHT + 16}">{name}</text>'
    for position, count in enumerate(COUNTS):
        line = [gain for gain in gains if gain.shots == count]
        corners = " ".join(f"{x(gain.trade_off)},{y(gain.points.mean)}" for gain in line)
        if line:
            yield f'<polyline class="c{position}" points="{corners}"/>'
        for gain in line:
            at = x(gain.trade_off) + 2 * (position - 1)
            ends = f'y1="{y(gain.points.low)}" y2="{y(gain.points.high)}"'
            yield f'<line class="c{position} mark" x1="{at}" x2="{at}" {ends}/>'


def table(gains: Sequence[Gain]) -> str:
    """Return the gains as Markdown, with a row for each measure, bank and K, and a column for each λ."""
    body: list[list[str | None]] = []
    for panel, count in dict.fromkeys((gain.panel, gain.shots) for gain in gains):
        by_trade_off = {
            gain.trade_off: gain for gain in gains if (gain.panel, gain.shots) == (panel, count)
        }
        nearest = next(iter(by_trade_off.values())).nearest
        cells = [
            str(signed(by_trade_off[value].points)) if value in by_trade_off else None
            for value in GRID
        ]
        body.append([f"{panel}, K = {count}", f"{nearest:.1f}", *cells])
    return Table(["", "nearest", *(f"λ = {value:g}" for value in GRID)], body).markdown()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=list(SPLITS))
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--answer", type=int, metavar="N", help="an LM answers N queries too")
    parser.add_argument(
        "--shots", type=int, nargs="+", default=[COUNTS[0]], help="K, with --answer"
    )
    parser.add_argument("--lm", default="SmolLM2-135M-Instruct")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="a folder for cached LM outputs"
    )
    parser.add_argument("--record", type=Path, default=RESULTS, help="a results file")
    options = parser.parse_args(arguments)
    encoder = load_encoder(options.encoder)
    banks = []
    for split in options.splits:
        standard = load_task(split, options.data_dir, limit=options.answer)
        for task, name in ((standard, ""), (with_near_copies(standard), ", near-copies")):
            queries = unit_rows(encoder.encode([example.input for example in task.validation]))
            examples = unit_rows(encoder.encode([example.input for example in task.train]))
            banks.append(Bank(task, name, queries, examples))
    if options.answer is not None:
        lm = CachedLM(load_lm(options.lm), Readings(options.out))
        for bank in banks:
            for count in options.shots:
                column = f"K = {count}{bank.name}"
                keep(options.record, answered(bank, count, lm, options.encoder, column))
        records = read_results(options.record)
        print(table([*answer_gains(records), *answer_gains(records, best=True)]))
        return
    records = read_results(options.record)
    gains = [gain for bank in banks for gain in coverage_gains(bank)]
    gains += answer_gains(records)
    FILE.write_text(drawing(gains), encoding="utf-8")
    print(f"{table([*gains, *answer_gains(records, best=True)])}\nwrote {FILE.name}")


if __name__ == "__main__":
    script(main)
