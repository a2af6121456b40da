# %% [markdown]
# # Reading results
#
# Which method answered better, and how sure is it? Every published run is a line of `experiments/results.jsonl`: its
# task, method, settings and costs, and for each query whether it was answered right. This notebook reads the runs of
# one experiment, `cause`: CEIL, EPR and what lies between them, on MTOP's requests to an assistant. An LM of 135
# million parameters answered; nothing is run here.

# %%
# ruff: noqa: E402 (the experiments are no package: their folder is found first)
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import ceil_jax

ROOT = Path(ceil_jax.__file__).parents[1]
sys.path.append(str(ROOT / "experiments"))

from evidence import places
from harness.crossed import alike
from harness.estimates import estimate
from harness.results_file import RESULTS, read_results

from ceil_jax.metrics.bootstrap import paired
from ceil_jax.report.plots import BLUE, GREY, ORANGE, draw_points

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

TASK = "mtop"
records = read_results(RESULTS)
runs = {row: found for (row, task), found in places(records, "cause").items() if task == TASK}
print(f"{len(records):,} runs on record, {len(runs)} rows of `cause` on {TASK}")

# %% [markdown]
# ## A row
#
# A row has a run for each seed of training. Its value is the mean over seeds; its interval resamples queries (whole
# programs, because many queries share one) and seeds.

# %%
shown = ["dense top-k", "EPR", "EPR, rate 1e-4", "second round", "CEIL top-k", "CEIL"]
for row in shown:
    record = runs[row].record
    print(
        f"{row:15} {runs[row].value:5.1f} %  seeds {len(runs[row].records)}  {record.queries} queries"
        f"  {record.cost.tokens:9,} LM tokens  {record.device}, {record.date}"
    )

figure, axes = plt.subplots(figsize=(7, 2 + 0.4 * len(shown)))
draw_points(
    axes,
    shown,
    [runs[row].interval for row in shown],
    [None] * len(shown),
    f"{record.metric}, % (n = {record.queries})",
)

# %% [markdown]
# ## Paired differences
#
# Two methods answered the same queries, so the difference is taken query by query and then resampled. Its interval is
# narrower than two separate intervals suggest. Where queries share programs it is taken twice: by query, and with
# every program weighing the same. A claim has to hold in both.

# %%
base = runs["dense top-k"]
by_query, by_program = {}, {}
for row in shown[1:]:
    by_query[row] = estimate({TASK: paired(runs[row].sample, base.sample)})
    by_program[row] = estimate({TASK: paired(alike(runs[row]).sample, alike(base).sample)})
    print(
        f"{row:15} {by_query[row].difference()!s:24} by program {by_program[row].difference()!s:24}"
        f" {'significant' if by_query[row].excludes_zero and by_program[row].excludes_zero else ''}"
    )

figure, axes = plt.subplots(figsize=(7, 3.6))
for colour, name, found, shift in (
    (BLUE, "by query", by_query, -0.12),
    (ORANGE, "every program weighs the same", by_program, 0.12),
):
    for place, one in enumerate(found.values()):
        mean, low, high = one.interval
        reach = [[mean - low], [high - mean]]
        label = "" if place else name
        axes.errorbar(
            mean, place + shift, xerr=reach, fmt="o", color=colour, capsize=3, label=label
        )
axes.axvline(0, color=GREY, linewidth=1)
axes.set_yticks(range(len(by_query)), by_query)
axes.set(
    xlabel="points more than the four nearest examples, 95 % interval",
    ylabel="method",
    ylim=(len(by_query) - 0.5, -0.5),
)
axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)

# %% [markdown]
# ## Queries
#
# `statistics` has what the metric is computed from, for each seed and query; here it is 1 for a right answer.
# Where do two methods differ?

# %%
ours, theirs = runs["CEIL"], runs["dense top-k"]
right, before = (found.statistics[0, :, 0] for found in (ours, theirs))
gained = int((right > before).sum())
lost = int((right < before).sum())
print(f"with its first seed, CEIL answers {gained} queries that top-k does not, and loses {lost}")

# %% [markdown]
# ## Runs of your own
#
# A finished `ceil-jax compare` leaves a record in its folder too, with what it chose for every query:
# `ceil_jax.pipeline.records.read_records("runs")` reads them, and `ceil-jax report runs/` makes one page of all, with
# a browser of queries. `python experiments/results.py` prints the tables of this file.
