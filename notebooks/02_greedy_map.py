# %% [markdown]
# # Greedy MAP, step by step
#
# At inference CEIL looks for the set of k examples with the highest $\log\det L'_S$. That is NP-hard; greedy MAP
# adds the example that raises it most, k times (Chen, Zhang & Zhou, 2018). This notebook writes the recursion in
# ten lines, and compares its answer with exhaustive search and with samples of the same distribution.

# %%
from itertools import combinations

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from ceil_jax import (
    conditional_kernel,
    greedy_map,
    sample_k_dpp,
    similarity_from_features,
    subset_log_det,
)
from ceil_jax.dpp.kernel import relevance
from ceil_jax.report.plots import BLUE, GREEN, GREY, ORANGE, RED

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

N, K, TRADE_OFF = 12, 4, 0.1


@jax.jit
def kernel_of(key):
    """Return L' of N random examples and a random query; the examples come in groups of three alike."""
    items_key, noise_key, query_key = jax.random.split(key, 3)
    topics = jnp.repeat(jax.random.normal(items_key, (N // 3, 16)), 3, axis=0)
    items = topics + 0.4 * jax.random.normal(noise_key, (N, 16))
    query = jax.random.normal(query_key, (16,))
    return conditional_kernel(relevance(query, items), similarity_from_features(items), TRADE_OFF)


L = kernel_of(jax.random.key(3))

# %% [markdown]
# ## The recursion
#
# Adding item i to S multiplies the determinant by $d_i^2$, the squared length of its vector after the chosen ones are
# projected out:
# $\log\det L'_{S \cup i} = \log\det L'_S + \log d_i^2$. One more row of a Cholesky factor updates all $d_i^2$:
#
# $$j = \mathrm{argmax}_i \log d_i^2, \qquad e_i = \frac{L_{ji} - \langle c_j, c_i\rangle}{d_j}, \qquad
#   c_i \leftarrow [c_i\ e_i], \qquad d_i^2 \leftarrow d_i^2 - e_i^2 .$$


# %%
def greedy_by_hand(kernel, k):
    """Return the items and, before each choice, the gain log d² of every item (nan once it is chosen)."""
    residual, rows, chosen, gains = np.diagonal(kernel).astype(float), [], [], []
    for _ in range(k):
        gain = np.where(np.isin(np.arange(len(kernel)), chosen), np.nan, np.log(residual))
        best = int(np.nanargmax(gain))
        row = (kernel[best] - sum(c[best] * c for c in rows)) / np.sqrt(residual[best])
        rows.append(row)
        residual = np.maximum(residual - row**2, 1e-12)
        chosen.append(best)
        gains.append(gain)
    return chosen, np.array(gains)


by_hand, gains = greedy_by_hand(np.asarray(L), K)
result = greedy_map(L, K)
total = float(jax.jit(subset_log_det)(L, result.items))
print("by hand:", by_hand)
print("library:", result.items.tolist(), "with gains", np.round(result.gains, 2).tolist())
print(f"Σ gains = {result.gains.sum():.4f} = log det L'_S = {total:.4f}")

figure, axes = plt.subplots(figsize=(8, 3))
image = axes.imshow(np.ma.masked_invalid(gains), cmap="cividis", aspect="auto")
axes.scatter(
    by_hand,
    range(K),
    marker="s",
    s=480,
    facecolors="none",
    edgecolors=RED,
    linewidths=2,
    label="chosen",
)
for (step, item), gain in np.ndenumerate(gains):
    if np.isfinite(gain):
        dark = gain < (np.nanmin(gains) + np.nanmax(gains)) / 2
        axes.text(
            item,
            step,
            f"{gain:.1f}",
            ha="center",
            va="center",
            color="white" if dark else "black",
            size=8,
        )
axes.set_xticks(range(N))
axes.set_yticks(range(K), range(1, K + 1))
axes.set(xlabel="item (groups of three alike)", ylabel="step", title="gain of each item, log d²")
figure.colorbar(image, ax=axes, label="gain")

# %% [markdown]
# ## Against exhaustive search
#
# There are 495 sets of four among 12 items, few enough to compare all of them.

# %%
subsets = jnp.array(list(combinations(range(N), K)))
all_log_dets = jax.jit(jax.vmap(subset_log_det, in_axes=(None, 0)))
log_dets = np.asarray(all_log_dets(L, subsets))
best = subsets[int(log_dets.argmax())].tolist()
print("greedy", sorted(by_hand), "exhaustive", best)

figure, axes = plt.subplots(figsize=(7, 3))
axes.hist(log_dets, bins=40, color=GREY)
axes.axvline(log_dets.max(), color=BLUE, linewidth=4, alpha=0.5, label="best of all")
axes.axvline(total, color=RED, linestyle="--", label="greedy MAP")
axes.set(xlabel="log det $L'_S$ of a set of four", ylabel="number of sets")
axes.legend()

# %% [markdown]
# Greedy MAP is not always exact. Over 200 kernels, this is how often it finds the best set, and how far off it is
# otherwise.

# %%
kernels = jax.vmap(kernel_of)(jax.random.split(jax.random.key(1), 200))
found = jax.lax.map(lambda kernel: greedy_map(kernel, K).gains.sum(), kernels)
highest = jax.lax.map(lambda kernel: all_log_dets(kernel, subsets).max(), kernels)
gaps = np.maximum(np.asarray(highest - found), 0)
exact = float((gaps < 1e-3).mean())
print(f"best set found for {exact:.0%} of the kernels; largest gap {gaps.max():.2f} in log det")

figure, axes = plt.subplots(figsize=(7, 3))
axes.plot(np.sort(gaps), np.arange(1, 201) / 200, color=BLUE)
axes.set(xlabel="best log det minus greedy's", ylabel="share of 200 kernels", ylim=(0, 1.02))
axes.grid(alpha=0.3)

# %% [markdown]
# ## Against samples
#
# The k-DPP draws a set with probability $P(S) = \det L'_S / \sum_{|S'|=k} \det L'_{S'}$: MAP is the mode of the
# distribution that `sample_k_dpp` draws from. If its draws are right, they differ from P only by chance: as much as
# draws from the list of all probabilities do. CEIL's candidate sets may be drawn this way (`--ceil.sampler k_dpp`).

# %%
DRAWS = 4000
drawn = jax.vmap(lambda key: sample_k_dpp(key, L, K))(jax.random.split(jax.random.key(2), DRAWS))
place = {tuple(subset): i for i, subset in enumerate(subsets.tolist())}
counts = np.bincount(
    [place[tuple(sorted(draw))] for draw in drawn.tolist()], minlength=len(subsets)
)
exact_probs = np.exp(log_dets - np.logaddexp.reduce(log_dets))
noise = np.random.default_rng(0).multinomial(
    DRAWS, exact_probs.astype(float) / exact_probs.astype(float).sum()
)


def distance(count):
    """Return the total variation distance between shares of samples and the exact probabilities."""
    return float(np.abs(count / DRAWS - exact_probs).sum() / 2)


print(f"{DRAWS} draws differ from P by {distance(counts):.3f} (total variation),")
print(f"as many draws from the list of all 495 probabilities by {distance(noise):.3f}")

figure, axes = plt.subplots(figsize=(4.8, 4.2))
seen = counts > 0
axes.scatter(exact_probs[seen], counts[seen] / DRAWS, s=12, color=GREEN, label="a set of four")
line = [exact_probs[seen].min(), exact_probs.max()]
axes.plot(line, line, color=GREY, linestyle="--", label="exact")
mode = place[tuple(sorted(by_hand))]
axes.scatter(
    exact_probs[mode],
    counts[mode] / DRAWS,
    marker="D",
    s=70,
    color=ORANGE,
    edgecolors="black",
    label="greedy MAP",
)
axes.set(xscale="log", yscale="log", xlabel="P(S)", ylabel=f"share of {DRAWS} draws")
axes.legend()
