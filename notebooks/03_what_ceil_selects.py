# %% [markdown]
# # What CEIL selects
#
# The query is one film review, the bank is the packaged reviews, and the encoder is the packaged MiniLM. What do the
# nearest examples have in common, and what does the most probable set (MAP) of the conditional DPP hold instead? If a
# run of yours in `runs/` trained CEIL on these reviews, its encoders are shown too.

# %%
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm, Normalize

from ceil_jax import (
    CeilSelector,
    conditional_kernel,
    greedy_map_from_features,
    load_encoder,
    load_task,
    similarity_from_features,
)
from ceil_jax.dpp.kernel import relevance
from ceil_jax.methods.ceil import CEIL
from ceil_jax.pipeline.records import config_of, read_records
from ceil_jax.pipeline.setup import open_run
from ceil_jax.pipeline.steps import StepsOf
from ceil_jax.report.plots import BLUE, GREEN, GREY, MARKERS, ORANGE, RED

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

K, SHORTLIST, TRADE_OFF = 6, 50, 0.1
task = load_task("movie_reviews", bank_limit=400, limit=20)
query = max(task.validation, key=lambda example: len(example.input))
print(len(task.train), "examples; the query:", query.input, "→", query.output)

# %% [markdown]
# ## Vectors, shortlist, sets
#
# The n = 50 nearest examples are the shortlist, from which both choose. Top-k takes the first k of them. DPP-MAP
# takes the set that greedily maximises $\log\det L'_S$, here with λ = 0.1.


# %%
def shortlisted(query_encoder, bank_encoder, bank):
    """Return the query's vector, and the vectors and positions of its nearest examples, nearest first."""
    asked = query_encoder.encode([query.input])[0]
    vectors = bank_encoder.encode([example.input for example in bank])
    nearest = np.argsort(
        -np.asarray(relevance(jnp.asarray(asked), jnp.asarray(vectors))), kind="stable"
    )
    nearest = np.array([i for i in nearest if bank[i].id != query.id][:SHORTLIST])
    return asked, vectors[nearest], nearest


def map_set(asked, vectors, trade_off):
    """Run greedy MAP on the shortlist: the places in it and their gains."""
    r = relevance(jnp.asarray(asked), jnp.asarray(vectors))
    return greedy_map_from_features(jnp.asarray(vectors), r, K, trade_off)


encoder = load_encoder("all-MiniLM-L6-v2")
asked, vectors, nearest = shortlisted(encoder, encoder, task.train)
chosen = map_set(asked, vectors, TRADE_OFF)
sets = {"top-k": list(range(K)), "DPP-MAP": np.asarray(chosen.items).tolist()}

# %% [markdown]
# ## Trained encoders, if there are any
#
# `ceil-jax demo` trains CEIL on these reviews and keeps it in `runs/`. An evaluation's record holds its settings,
# and a run with the same settings finds the encoders on disk.


# %%
records, _ = read_records(Path("runs"))
trained = [
    record for record in records if record.method == "ceil" and record.task == "movie_reviews"
]
if trained:
    config = config_of(trained[0].config, Path("runs"))
    full = load_task(
        "movie_reviews", limit=config.limit, seed=config.data_seed, bank_limit=config.bank_limit
    )
    run, setup = open_run(config, full)
    ceil = run.get(StepsOf(setup).learnt(config.method(CEIL)).networks)
    r_asked, r_vectors, r_nearest = shortlisted(ceil.query, ceil.bank, full.train)
    picks = np.asarray(
        map_set(
            r_asked,
            r_vectors,
            trained[0].trade_off,
        ).items
    )
    print("CEIL of", trained[0].name, "with", config.encoder)
    for item in picks[picks >= 0]:
        example = full.train[r_nearest[item]]
        print(f"  {example.output:9s} {example.input}")
else:
    print("no CEIL run on movie_reviews in runs/; `ceil-jax demo` makes one")

# %% [markdown]
# ## In the plane
#
# The candidates are drawn on their two principal axes. Markers and colours are labels. Circles are top-k's set,
# squares that of DPP-MAP.

# %%
COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", "#B8860B", GREY, "#8C6BB1")


def draw_plane(axes, query, items, labels, sets):
    """Draw a query's candidates on their two principal axes, and the sets that methods choose.

    Args:
        axes: the panel.
        query: float [D], drawn as a star.
        items: float [n, D].
        labels: the output of each item, which sets its marker, and its colour if there are at most eight outputs.
        sets: method → indices of the items it chose, which stand in a circle or a square.
    """
    centre = items.mean(axis=0)
    _, _, axes_of_items = np.linalg.svd(items - centre, full_matrices=False)
    plane = (items - centre) @ axes_of_items[:2].T
    star = (query - centre) @ axes_of_items[:2].T
    names = sorted(set(labels))
    if 1 < len(names) <= len(COLOURS):
        for name, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
            here = np.array([label == name for label in labels])
            axes.scatter(
                plane[here, 0], plane[here, 1], s=26, marker=marker, color=colour, label=name
            )
    else:
        axes.scatter(plane[:, 0], plane[:, 1], s=14, color=GREY)
    ink = axes.xaxis.label.get_color()
    for (name, places), ring, size in zip(sets.items(), "osD", (110, 260, 480), strict=False):
        at = plane[list(places)]
        axes.scatter(
            at[:, 0],
            at[:, 1],
            s=size,
            marker=ring,
            facecolors="none",
            edgecolors=ink,
            linewidths=1.4,
            label=f"set: {name}",
        )
    axes.scatter(star[0], star[1], marker="*", s=220, color=RED, edgecolors=ink, label="the query")
    axes.set_xlabel("first principal axis of the candidates")
    axes.set_ylabel("second principal axis")
    # beside the points, so that it hides none of them
    axes.legend(
        fontsize="small",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        labelspacing=1.1,
        frameon=False,
    )


figure, axes = plt.subplots(figsize=(7, 5))
draw_plane(axes, asked, vectors, [task.train[i].output for i in nearest], sets)

# %% [markdown]
# ## Gains
#
# Each example's gain, by which it raised $\log\det L'_S$ when it was chosen, splits into its relevance,
# $r_i/\lambda$, and its novelty, $\log d_i^2$. Both are 0 at best: relevance for the nearest example, novelty for one
# that is wholly new. DPP-MAP gives up some relevance for novelty, and its sum is higher than that of top-k.


# %%
@jax.jit
def log_det_path(similarity, order):
    """Return log d² of each item of an order, given those before it."""
    block = similarity[order[:, None], order[None, :]]
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(block)))


r = np.asarray(relevance(jnp.asarray(asked), jnp.asarray(vectors)))
similarity = similarity_from_features(jnp.asarray(vectors))
parts = {
    name: (r[places] / TRADE_OFF, np.asarray(log_det_path(similarity, jnp.array(places))))
    for name, places in sets.items()
}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
for panel, (name, (from_relevance, from_novelty)) in zip(axes, parts.items(), strict=True):
    places = np.arange(1, K + 1)
    panel.bar(places, from_relevance, color=BLUE, label="relevance, $r_i/λ$")
    panel.bar(
        places, from_novelty, bottom=from_relevance, color=ORANGE, label="novelty, log $d_i^2$"
    )
    total = sum(map(np.sum, (from_relevance, from_novelty)))
    panel.set(xlabel="order of choice", title=f"{name}: log det L'_S = {total:.2f}")
    panel.axhline(0, color=GREY, linewidth=0.8)
axes[0].set_ylabel("gain")
axes[0].legend(fontsize="small")

for name, places in sets.items():
    print(f"\n{name}")
    for place in places:
        example = task.train[nearest[place]]
        print(f"  rank {place + 1:2d}  r = {r[place]:+.3f}  {example.output:9s} {example.input}")

# %% [markdown]
# ## The kernel
#
# A bright cell off the diagonal is a pair of similar examples. Top-k takes the whole corner at the top left.


# %%
def draw_kernel(axes, kernel, chosen):
    """Draw a conditional kernel as a heat map, with its diagonal beside it and the chosen items in red in both.

    The colours span the values off the diagonal, on a logarithmic scale where these differ more than tenfold.

    Args:
        axes: the panel.
        kernel: float [n, n], items ordered by relevance.
        chosen: indices of the chosen items.
    """
    diagonal = np.eye(len(kernel), dtype=bool)
    off = kernel[~diagonal] if len(kernel) > 1 else kernel.ravel()
    low, high = float(off.min()), float(off.max())
    norm = LogNorm(low, high) if 0 < 10 * low < high else Normalize(low, high)
    ink, places = axes.xaxis.label.get_color(), np.asarray(chosen, int)
    shown = axes.imshow(
        np.ma.masked_array(kernel, diagonal), cmap="cividis", interpolation="nearest", norm=norm
    )
    for place in places:
        axes.axhline(place, color=RED, linewidth=0.9, alpha=0.7)
        axes.axvline(place, color=RED, linewidth=0.9, alpha=0.7)
    axes.scatter(
        places, places, marker="s", s=22, color=RED, edgecolors=ink, linewidths=0.6, zorder=3
    )
    axes.set_xlabel("candidate, most relevant first; red: chosen")
    axes.set_ylabel("candidate")
    beside = axes.inset_axes((1.04, 0.0, 0.2, 1.0), sharey=axes)
    values = np.diag(kernel)
    beside.barh(
        np.arange(len(values)),
        values,
        0.9,
        color=[RED if i in places else GREY for i in range(len(values))],
    )
    if values.max() > 10 * values.min() > 0:
        beside.set_xscale("log")
    beside.tick_params(axis="y", labelleft=False)
    beside.tick_params(axis="x", labelsize="x-small")
    beside.set_title("L'ᵢᵢ", fontsize="small")
    bar = axes.figure.colorbar(shown, ax=axes)
    bar.set_label("L'ᵢⱼ, i ≠ j")


kernel = np.asarray(conditional_kernel(jnp.asarray(r), similarity, TRADE_OFF))
figure, axes = plt.subplots(figsize=(5.6, 4.6))
draw_kernel(axes, kernel / kernel.max(), sets["DPP-MAP"])

# %% [markdown]
# ## λ
#
# The selector that an application imports does all of this in one call; `trade_off` is λ. The larger it is, the
# further down the list of the nearest examples the set reaches.

# %%
selector = CeilSelector.from_examples(task.train, encoder=encoder, shortlist=SHORTLIST)
trade_offs = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
selections = [selector.select(query, k=K, trade_off=trade_off) for trade_off in trade_offs]
ranks = {task.train[place].id: rank for rank, place in enumerate(nearest, 1)}
figure, axes = plt.subplots(figsize=(6, 3.2))
for trade_off, selection in zip(trade_offs, selections, strict=True):
    at = [ranks[pick.example.id] for pick in selection.picks]
    axes.scatter([trade_off] * len(at), at, color=GREEN, s=26)
axes.set_xscale("log")
axes.set_xticks(trade_offs, map(str, trade_offs))
axes.minorticks_off()
axes.set(xlabel="trade-off λ", ylabel="rank among the nearest")
axes.grid(alpha=0.3)
