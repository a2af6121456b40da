"""CEIL's training step on all pairs, in torch: for each query the kernel of all unique contexts of
the batch, [B, U, U], from which the blocks of subsets are cut. The released code does the same,
with U up to B n."""

from __future__ import annotations

from typing import Any

import numpy as np


class AllPairs:
    """The loss of one training step and its gradients with respect to vectors.

    Args:
        queries: float32 [B, D].
        items: float32 [N, D].
        shortlists: int [B, n], rows of `items`.
        subsets: int [B, M, k], places in the shortlist.
        lm_scores: float32 [B, M], no two of a row equal.
        learn_items: gradients for the contexts too.
    """

    def __init__(
        self,
        queries: np.ndarray,
        items: np.ndarray,
        shortlists: np.ndarray,
        subsets: np.ndarray,
        lm_scores: np.ndarray,
        trade_off: float,
        learn_items: bool,
        device: str,
    ) -> None:
        import torch

        unique, places = np.unique(shortlists, return_inverse=True)
        places = places.reshape(shortlists.shape)
        rows = np.arange(len(queries))[:, None, None]
        device = "cuda" if device == "gpu" and torch.cuda.is_available() else "cpu"
        self.queries = torch.tensor(queries, device=device, requires_grad=True)
        self.items = torch.tensor(items[unique], device=device, requires_grad=learn_items)
        self.subsets = torch.tensor(places[rows, subsets], device=device)
        self.lm_scores = torch.tensor(lm_scores, device=device)
        self.trade_off = trade_off

    def __call__(self) -> dict[str, Any]:
        """Return {"loss": …, "queries": d loss / d queries, [B, D]}."""
        import torch

        self.queries.grad = self.items.grad = None
        queries, items = (
            torch.nn.functional.normalize(x, dim=1) for x in (self.queries, self.items)
        )
        relevance = (1 + queries @ items.T) / 2
        root_quality = torch.exp(
            (relevance - relevance.amax(1, keepdim=True)) / (2 * self.trade_off)
        )
        similarity = (1 + items @ items.T) / 2
        kernel = root_quality[:, :, None] * similarity * root_quality[:, None, :]
        row = torch.arange(len(kernel), device=kernel.device)[:, None, None, None]
        blocks = kernel[row, self.subsets[..., :, None], self.subsets[..., None, :]]
        loss = pairwise_loss(torch.logdet(blocks), self.lm_scores)
        loss.backward()
        gradient: Any = self.queries.grad
        return {"loss": loss.item(), "queries": gradient.cpu().numpy()}


def pairwise_loss(log_probs: Any, lm_scores: Any) -> Any:
    """Return the loss of CEIL's equation 6: the mean over the pairs of an instance, then over instances."""
    import torch

    size = lm_scores.shape[1]
    better = lm_scores[:, :, None] > lm_scores[:, None, :]
    rank = better.sum(1)
    gap = (rank[:, None, :] - rank[:, :, None]) / size
    spread = (log_probs.amax(1) - log_probs.amin(1)).detach()[:, None, None]
    hinge = torch.relu((log_probs[:, None, :] - log_probs[:, :, None]) / spread + gap)
    return (hinge * better).sum() / better.sum()
