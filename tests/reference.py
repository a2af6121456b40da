"""Slow, obvious versions in float64 numpy of every formula in the maths modules."""

from __future__ import annotations

import itertools

import numpy as np


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def similarity(features):
    features = np.asarray(features, np.float64)
    return np.array([[(1 + cosine(a, b)) / 2 for b in features] for a in features])


def relevance(query, items):
    query = np.asarray(query, np.float64)
    items = np.asarray(items, np.float64)
    r = np.array([(1 + cosine(query, item)) / 2 for item in items])
    return r - r.max()


def conditional_kernel(r, S, trade_off):
    quality = np.diag(np.exp(np.asarray(r, np.float64) / (2 * trade_off)))
    return quality @ np.asarray(S, np.float64) @ quality


def log_det(kernel, subset):
    """log det of the block of the items that are not −1."""
    items = [i for i in subset if i >= 0]
    return (
        float(np.linalg.slogdet(np.asarray(kernel, np.float64)[np.ix_(items, items)])[1])
        if items
        else 0.0
    )


def subsets(n, size=None):
    sizes = range(n + 1) if size is None else [size]
    return [s for k in sizes for s in itertools.combinations(range(n), k)]


def subset_probabilities(kernel, size=None):
    """P(S) by enumeration, of all subsets or of those of one size."""
    every = subsets(len(kernel), size)
    det = np.array([np.linalg.det(np.asarray(kernel, np.float64)[np.ix_(s, s)]) for s in every])
    return dict(zip(every, np.maximum(det, 0) / np.maximum(det, 0).sum(), strict=True))


def greedy_map(S, log_quality, k, candidates=None):
    """The items whose addition raises Σ log q_i + log det S_S most, by trying each."""
    S = np.asarray(S, np.float64)
    chosen = []
    gains = []
    value = 0.0
    left = list(range(len(S)) if candidates is None else candidates)
    for _ in range(min(k, len(left))):
        with_item = [
            log_det(S, [*chosen, i]) + sum(log_quality[j] for j in [*chosen, i]) for i in left
        ]
        best = int(np.argmax(with_item))
        gains.append(with_item[best] - value)
        value = with_item[best]
        chosen.append(left.pop(best))
    return chosen, gains


def pairwise_margin_loss(log_probs, lm_scores, reduction="pairs"):
    m = len(log_probs)
    spread = max(max(log_probs) - min(log_probs), 0.1)
    rank = [sum(other > score for other in lm_scores) for score in lm_scores]
    by_gap = {}
    for better in range(m):
        for worse in range(m):
            if lm_scores[better] > lm_scores[worse]:
                gap = rank[worse] - rank[better]
                hinge = max(0.0, (log_probs[worse] - log_probs[better]) / spread + gap / m)
                by_gap.setdefault(gap, []).append(hinge)
    every = [hinge for hinges in by_gap.values() for hinge in hinges]
    if not every:
        return 0.0
    means = [np.mean(hinges) for hinges in by_gap.values()]
    return float(np.mean(every) if reduction == "pairs" else sum(means))


def info_nce_loss(scores, positive):
    return float(np.log(sum(np.exp(s - scores[positive]) for s in scores)))


def epr_contrastive_loss(queries, positives, negatives, positive_ids, negative_ids):
    losses = []
    for i, query in enumerate(queries):
        scores = [query @ positives[i]]
        for j in range(len(queries)):
            if j != i and positive_ids[j] != positive_ids[i]:
                scores.append(query @ positives[j])
            if negative_ids[j] != positive_ids[i]:
                scores.append(query @ negatives[j])
        losses.append(info_nce_loss(scores, 0))
    return float(np.mean(losses))


def top_k(queries, items, k):
    """[(score, index)] of each query, best first, lower index first among equals."""
    rows = []
    for query in np.asarray(queries, np.float64):
        scored = [(float(query @ item), j) for j, item in enumerate(np.asarray(items, np.float64))]
        rows.append(sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:k])
    return rows
