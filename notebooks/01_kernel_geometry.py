# %% [markdown]
# # The kernel's geometry
#
# CEIL scores a *set* S of examples for a query x by the determinant of a kernel conditioned on x,
#
# $$L' = \mathrm{Diag}(e^{r/2\lambda})\; S\; \mathrm{Diag}(e^{r/2\lambda}), \qquad
#   \log\det L'_S = \frac1\lambda \sum_{i \in S} r_i + \log\det S_S,$$
#
# with the relevance $r_i$ of example $a_i$ to x and the similarity $S_{ij}$ of two examples. This notebook draws
# what that means: determinants are volumes, relevance stretches them, and λ weighs one against the other.

# %%
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from ceil_jax import (
    conditional_kernel,
    greedy_map,
    greedy_map_from_features,
    similarity_from_features,
    subset_log_det,
)
from ceil_jax.dpp.kernel import similarity as shifted_cosine
from ceil_jax.report.plots import BLUE, GREEN, GREY, ORANGE, RED

plt.rcParams.update({"figure.facecolor": "white", "figure.constrained_layout.use": True})

# %% [markdown]
# ## A determinant is a squared volume
#
# For two unit vectors at angle θ, $S = \begin{pmatrix}1 & \cos\theta\\ \cos\theta & 1\end{pmatrix}$ and
# $\det S = 1 - \cos^2\theta = \sin^2\theta$: the square of the parallelogram's area. Two examples that say the same
# thing span no area. The library's similarity is $(1+\cos\theta)/2$, which is the dot product of the vectors
# $(1, a)/\sqrt2$. It falls from 1 to 0 over half a turn, where the cosine falls to −1, so that its determinant is
# largest for opposite vectors.


# %%
def pair(angle):
    """Return two unit vectors in the plane with this angle, in degrees, between them."""
    turn = np.deg2rad(angle)
    return np.array([[1.0, 0.0], [np.cos(turn), np.sin(turn)]], np.float32)


angles = np.linspace(2, 178, 45)
pairs = jnp.array([pair(angle) for angle in angles])
kernels = {"cosine": pairs @ pairs.swapaxes(1, 2), "shifted": similarity_from_features(pairs)}
dets = {name: np.linalg.det(kernel) for name, kernel in kernels.items()}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4))
for panel, angle in zip(axes, (20, 75), strict=False):
    a, b = pair(angle)
    panel.fill(*np.array([0 * a, a, a + b, b]).T, color=BLUE, alpha=0.25)
    for vector, name in ((a, "$a_1$"), (b, "$a_2$")):
        panel.annotate("", vector, (0, 0), arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 2})
        panel.annotate(name, vector, (4, 4), textcoords="offset points")
    area = float(np.linalg.det(np.array([a, b])))
    panel.set(
        xlim=(-0.1, 2.1),
        ylim=(-0.1, 1.1),
        aspect="equal",
        xlabel="first feature",
        ylabel="second feature",
    )
    panel.set_title(f"θ = {angle}°: area {area:.2f}, det S = {area**2:.2f}", fontsize="medium")
axes[2].plot(angles, dets["cosine"], color=BLUE, label="S = cos θ")
axes[2].plot(angles, dets["shifted"], color=ORANGE, linestyle="--", label="S = (1 + cos θ)/2")
axes[2].set(xlabel="angle θ between two examples, degrees", ylabel="det S")
axes[2].legend()

# %% [markdown]
# ## Relevance stretches the vectors
#
# $L'_S$ is the kernel of the same vectors, each stretched to the length $e^{r_i/2\lambda}$. Stretching a vector
# stretches the volume by the same factor, so that relevance and diversity separate into two sums: the formula at
# the top, which is checked here on three vectors.

# %%
r = jnp.array([0.0, -0.1, -0.3])
features = jax.random.normal(jax.random.key(0), (3, 8))
similarity = similarity_from_features(features)
whole = jnp.arange(3)
log_det = jax.jit(subset_log_det)
left = log_det(conditional_kernel(r, similarity, trade_off=0.1), whole)
right = r.sum() / 0.1 + log_det(similarity, whole)
print(f"log det L'_S = {left:.4f}; Σ r / λ + log det S_S = {right:.4f}")

# %% [markdown]
# ## λ: relevance against diversity
#
# There are four groups of candidates around a query, at different distances. Only near neighbours are similar
# ($\cos \approx e^{-d^2/2\sigma^2}$, by random Fourier features). For a small λ the first sum decides, and the most
# probable set (MAP) has the nearest candidates, which are near to one another too. For a large λ it spreads out and
# forgets the query.


# %%
def plane_to_features(points, width=1.0, dim=512):
    """Return unit vectors whose cosines are about exp(−d²/2·width²), where d is the distance of two points."""
    rng = np.random.default_rng(1)
    waves = points @ rng.normal(size=(2, dim // 2)) / width
    return jnp.asarray(np.hstack([np.cos(waves), np.sin(waves)]) / np.sqrt(dim // 2), jnp.float32)


rng = np.random.default_rng(0)
centres = np.array([[0.5, 0.3], [-0.9, 0.8], [0.9, -1.2], [-1.6, -1.2]])
points = np.concatenate([centre + 0.28 * rng.normal(size=(15, 2)) for centre in centres])
vectors = plane_to_features(points)
closeness = vectors @ plane_to_features(np.zeros((1, 2)))[0]
relevance = shifted_cosine(closeness) - shifted_cosine(closeness.max())
K = 6


class Choice(NamedTuple):
    """A MAP set, and the two sums that it was chosen by."""

    items: jax.Array
    mean_relevance: jax.Array
    diversity: jax.Array


@jax.jit
def choose(trade_off):
    """Return the MAP set of K items."""
    items = greedy_map_from_features(vectors, relevance, K, trade_off).items
    volume = subset_log_det(similarity_from_features(vectors), items)
    return Choice(items, relevance[items].mean(), volume)


def draw(axes, trade_off):
    """Draw the candidates in the plane, and circle those that MAP takes."""
    items = np.asarray(choose(trade_off).items)
    axes.scatter(*points.T, s=14, color=GREY, label="candidates")
    axes.scatter(
        *points[items].T, s=80, facecolors="none", edgecolors=BLUE, linewidths=1.8, label="MAP set"
    )
    for place, item in enumerate(items, 1):
        axes.annotate(str(place), points[item], (5, 5), textcoords="offset points", color=BLUE)
    axes.scatter(0, 0, marker="*", s=160, color=RED, label="query")
    axes.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
    axes.set_title(f"λ = {trade_off:g}", fontsize="medium")


shown = (0.005, 0.05, 0.5)
figure, axes = plt.subplots(1, 3, figsize=(11, 4))
for panel, trade_off in zip(axes, shown, strict=True):
    draw(panel, trade_off)
axes[0].legend(fontsize="small")

# %% [markdown]
# With `ipywidgets` the same figure has a slider; the row above shows three of its positions.

# %%
try:
    from ipywidgets import FloatLogSlider, interact
except ModuleNotFoundError:
    print("pip install ipywidgets for a slider")
else:

    @interact(trade_off=FloatLogSlider(value=0.05, min=-3, max=0, step=0.1, description="λ"))
    def slide(trade_off):
        draw(plt.subplots(figsize=(4.5, 4.5))[1], trade_off)
        plt.gca().legend(fontsize="small")


# %% [markdown]
# As λ grows, the mean relevance of the set falls and its volume grows, apart from small steps back, because
# greedy MAP is not exact. The paper searches λ ∈ {0.01, 0.05, 0.1} for each task.

# %%
grid = np.logspace(-3, 0, 31)
choices = jax.lax.map(choose, jnp.asarray(grid))
figure, (upper, lower) = plt.subplots(2, 1, figsize=(6, 4.6), sharex=True)
upper.plot(grid, choices.mean_relevance, "o-", color=BLUE, markersize=4)
upper.set_ylabel("mean relevance of the set")
lower.plot(grid, choices.diversity, "s-", color=GREEN, markersize=4)
lower.set(xscale="log", xlabel="trade-off λ", ylabel="diversity, log det $S_S$")
for panel in (upper, lower):
    panel.grid(alpha=0.3)
    panel.axvspan(0.01, 0.1, color=ORANGE, alpha=0.15, linewidth=0)
upper.set_title("shaded: the paper's range", fontsize="medium")

# %% [markdown]
# The kernel need not be formed. `greedy_map_from_features` takes the vectors and r/λ, so that no exponential exceeds
# the range of float32, and returns the same set as `greedy_map` on $L'$.

# %%
formed = greedy_map(conditional_kernel(relevance, similarity_from_features(vectors), 0.05), K)
print(formed.items, choose(0.05).items)
