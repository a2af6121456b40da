# %% [markdown]
# # Reading runs
#
# A run is a folder of stages. Every finished evaluation leaves a *record*: its task, method, settings, costs, and
# where its predictions are. This notebook reads the folder `runs`; if there is none, it first makes a small one with
# the test LM and the test encoder, whose numbers mean nothing.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ceil_jax import load_task
from ceil_jax.metrics.bootstrap import bootstrap_interval
from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.records import read_records
from ceil_jax.pipeline.setup import open_run
from ceil_jax.report.compare import compare
from ceil_jax.report.plots import BLUE, GREY, draw_points
from ceil_jax.report.run_tables import tables

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

folder = Path("runs")
if not any(folder.glob("run-*")):
    config = RunConfig(
        encoder="tiny", lm="tiny", shots=4, shortlist=30, limit=60, bank_limit=300, out=folder
    )
    task = load_task(config.task, limit=config.limit, bank_limit=config.bank_limit)
    compare(*open_run(config, task), ["random", "bm25", "topk", "dpp"])

# %% [markdown]
# ## Records
#
# `read_records` returns the records that are whole, and one line about each that is damaged.

# %%
records, trouble = read_records(folder)
for record in records:
    tokens = record.preparing.tokens + record.answering.tokens
    print(
        f"{record.task:14s} {record.method:8s} {record.metric} {record.value:5.1f} %"
        f"  {tokens:9,} LM tokens  {record.lm}"
    )
print("\n".join(trouble) or "nothing is damaged")

# %% [markdown]
# ## A table
#
# `tables` puts together the records that may be compared: those with the same queries, bank, metric and LM. Intervals
# are 95 % bootstrap intervals over queries.

# %%
table = tables(records)[0]
print(table.lead)
print(table.table().text())

figure, axes = plt.subplots(figsize=(7, 2 + 0.4 * len(table.rows)))
draw_points(
    axes,
    [line.label for line in table.rows],
    [line.interval for line in table.rows],
    [line.paper for line in table.rows],
    f"{table.rows[0].record.metric}, % (n = {len(table.rows[0].scores)})",
)

# %% [markdown]
# ## Paired differences
#
# Two methods answered the same queries, so the difference is taken query by query and then resampled. Its interval is
# narrower than two separate intervals suggest. An interval that contains 0 shows no difference.

# %%
ours, theirs = table.rows[-1], table.rows[0]
difference = bootstrap_interval(ours.scores - theirs.scores).percent()
print(
    f"{ours.label} − {theirs.label}: {difference.mean:+.1f} points ({difference.low:+.1f} to {difference.high:+.1f})"
)

figure, axes = plt.subplots(figsize=(7, 3.2))
pairs = [
    (line, bootstrap_interval(line.scores - theirs.scores).percent()) for line in table.rows[1:]
]
for place, (_, interval) in enumerate(pairs):
    reach = [[interval.mean - interval.low], [interval.high - interval.mean]]
    axes.errorbar(interval.mean, place, xerr=reach, fmt="o", color=BLUE, capsize=3)
axes.axvline(0, color=GREY, linewidth=1)
axes.set_yticks(range(len(pairs)), [line.label for line, _ in pairs])
axes.set(
    xlabel=f"points more than {theirs.label}, 95 % interval",
    ylabel="method",
    ylim=(len(pairs) - 0.5, -0.5),
)

# %% [markdown]
# ## One query
#
# A record's rows hold the examples of the prompt, in prompt order, with their relevance and gain.

# %%
rows = {line.record.method: {row["id"]: row for row in line.record.rows()} for line in table.rows}
ids = list(rows[theirs.record.method])
differing = [
    i
    for i in ids
    if rows[ours.record.method][i]["prediction"] != rows[theirs.record.method][i]["prediction"]
]
shown = (differing or ids)[0]
for line in (theirs, ours):
    row = rows[line.record.method][shown]
    print(f"{line.label}: answered {row['prediction']!r}, gold {row['gold']!r}")
    for example, relevance, gain in row["examples"]:
        print(f"    {example}  relevance {relevance:.3f}  gain {gain:.2f}")
agree = np.mean(
    [
        rows[ours.record.method][i]["prediction"] == rows[theirs.record.method][i]["prediction"]
        for i in ids
    ]
)
print(f"the two agree on {agree:.0%} of the queries")

# %% [markdown]
# `ceil-jax report runs/` makes one page of all of this, with a browser of queries.
