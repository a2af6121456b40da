"""Runs to a page: tables, figures, and one query looked at closely."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ceil_jax.compare import Comparison
from ceil_jax.methods import METHODS
from ceil_jax.pipeline import Pipeline
from ceil_jax.retrievers import unit_rows
from ceil_jax.runs import Stage
from ceil_jax.tasks.base import Example

_SHOWN = 50
"""Candidates of the query that the page looks at."""


class Files(NamedTuple):
    """What `write_report` wrote."""

    page: Path
    figure: Path


class _View(NamedTuple):
    """One query's candidates, and what methods chose among them."""

    vector: np.ndarray
    items: np.ndarray
    positions: np.ndarray
    kernel: np.ndarray
    sets: dict[str, list[int]]


def write_report(folder: Path, pipeline: Pipeline, comparison: Comparison) -> Files:
    """`report.html`, self-contained, with `report.png`, `results.csv` and `results.md` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    row = _telling_query(comparison)
    view = None
    if any(METHODS[method].encoder for method in comparison.evaluations):
        view = _view(pipeline, comparison, pipeline.task.validation[row])
    picture = _figure(pipeline, comparison, view)
    stage = Stage(folder)
    stage.write("report.png", picture)
    stage.write("results.csv", comparison.csv().encode())
    stage.write("results.md", comparison.markdown().encode())
    stage.write("report.html", _page(pipeline, comparison, row, picture).encode())
    return Files(folder / "report.html", folder / "report.png")


def _first_and_last(comparison: Comparison) -> tuple[str, str]:
    """The two methods whose sets are drawn: top-k, or what comes nearest to it, and the table's last."""
    last = comparison.rows[-1].method
    return next((m for m in ("topk", "epr", "dpp") if m in comparison.evaluations), last), last


def _telling_query(comparison: Comparison) -> int:
    """The first query that the last method gets right and top-k wrong, else the first query."""
    first, last = _first_and_last(comparison)
    return int(np.argmax(comparison.evaluations[last].scores > comparison.evaluations[first].scores))


def _view(pipeline: Pipeline, comparison: Comparison, query: Example) -> _View:
    """The query's nearest examples, their kernel, and the sets of two methods among them."""
    import jax.numpy as jnp

    from ceil_jax.index import top_k
    from ceil_jax.kernel import conditional_kernel, relevance, similarity_from_features

    first, best = _first_and_last(comparison)
    encoders = pipeline.encoders(METHODS[best].encoder or "base")
    bank = pipeline.inputs.bank
    items = unit_rows(pipeline.embed(encoders.context, [example.input for example in bank]))
    vector = unit_rows(encoders.query.encode([pipeline.inputs.seen([query])[0].input]))
    _, near = top_k(vector, items, min(_SHOWN, len(bank)), np.array([-1], np.int32))
    chosen = {method: [r.position for r in pipeline.retrieve(method, [query])[0]] for method in {first, best}}
    # what the methods chose outside the nearest is shown too
    extra = [p for picks in chosen.values() for p in picks if p not in set(np.asarray(near)[0].tolist())]
    positions = np.concatenate([np.asarray(near)[0], np.array(sorted(set(extra)), np.int32)]).astype(int)
    place = {int(p): i for i, p in enumerate(positions)}
    features = jnp.asarray(items[positions])
    trade_off = pipeline.config.ceil.trade_off
    kernel = np.asarray(
        conditional_kernel(
            relevance(jnp.asarray(vector[0]), features), similarity_from_features(features), trade_off
        )
    )
    sets = {METHODS[m].label: [place[p] for p in chosen[m]] for m in dict.fromkeys((first, best))}
    return _View(vector[0], items[positions], positions, kernel, sets)


def _figure(pipeline: Pipeline, comparison: Comparison, view: _View | None) -> bytes:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from ceil_jax.plots import draw_kernel, draw_plane, draw_scores

    columns = 1 if view is None else 3
    figure, row = pyplot.subplots(
        1, columns, figsize=(5.3 * columns, 4.8), layout="constrained", squeeze=False
    )
    axes = row[0]
    draw_scores(axes[0], comparison)
    axes[0].set_title(f"{comparison.task}, {comparison.lm}", fontsize="medium")
    if view is not None:
        labels = [pipeline.task.train[p].output for p in view.positions]
        draw_plane(axes[1], view.vector, view.items, labels, view.sets)
        axes[1].set_title("one query's candidates and two sets", fontsize="medium")
        draw_kernel(axes[2], view.kernel / view.kernel.max(), list(view.sets.values())[-1])
        axes[2].set_title("their conditional kernel", fontsize="medium")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    pyplot.close(figure)
    return out.getvalue()


def _page(pipeline: Pipeline, comparison: Comparison, row: int, picture: bytes) -> str:
    def table(header: list[str], rows: list[list[str]]) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    lines = [line.strip("| ").split(" | ") for line in comparison.markdown().splitlines()]
    query = pipeline.task.validation[row]
    examples = {example.id: example for example in pipeline.task.train}
    answers = []
    for method, result in comparison.evaluations.items():
        found = result.rows[row]
        shown = [
            [str(rank), f"{relevance:.3f}", f"{gain:.2f}", examples[id].input, examples[id].output]
            for rank, (id, relevance, gain) in enumerate(found["examples"], 1)
        ]
        verdict = "right" if result.scores[row] > 0 else "wrong"
        answers.append(
            f"<details><summary>{html.escape(METHODS[method].label)}: <b>{html.escape(found['prediction'])}</b> "
            f"({verdict})</summary>"
            + table(["place in prompt", "relevance", "gain", "example", "answer"], shown)
            + "</details>"
        )
    costs = [
        [s, f"{c.seconds:.1f}", f"{c.tokens:,}" if c.tokens else ""] for s, c in comparison.costs.items()
    ]
    differences = "".join(
        f"<li>{html.escape(d.better)} − {html.escape(d.worse)}: {d.interval.mean:+.1f} points "
        f"({d.interval.low:+.1f} to {d.interval.high:+.1f})</li>"
        for d in comparison.differences
    )
    image = base64.b64encode(picture).decode()
    return _PAGE.format(
        title=html.escape(f"{comparison.task}: choosing in-context examples"),
        lead=html.escape(
            f"{comparison.metric} in percent on {comparison.queries} held-out queries; {comparison.lm}; "
            f"{pipeline.config.shots} examples at most from a bank of {len(pipeline.task.train):,}; encoder "
            f"{pipeline.config.encoder}"
        ),
        table=table(lines[0], lines[2:]),
        differences=differences,
        image=image,
        query=html.escape(query.input),
        gold=html.escape(query.output),
        answers="".join(answers),
        costs=table(["stage", "seconds", "LM tokens"], costs),
        note=html.escape(comparison.note),
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8884; }}
th:first-child, td:first-child {{ text-align: left; }}
details td:nth-child(n+4) {{ text-align: left; }}
img {{ max-width: 100%; background: white; border-radius: 6px; }}
summary {{ cursor: pointer; padding: .2rem 0; }}
</style></head><body>
<h1>{title}</h1><p>{lead}</p>
{table}
<p>Paired differences on the same queries, with 95 % bootstrap intervals:</p><ul>{differences}</ul>
<img alt="Scores with intervals, and where vectors are compared one query's candidates and their kernel"
 src="data:image/png;base64,{image}">
<h2>One query, by every method</h2>
<p>“{query}” — gold answer: <b>{gold}</b>. The examples stand in prompt order: the last is next to the query.</p>
{answers}
<h2>What it cost</h2>{costs}
<p>{note}</p>
</body></html>
"""
