"""The rows that are read together."""

from ceil_jax.lm.torch.padded import by_token_budget


def test_batches_keep_the_budget_and_lose_nothing():
    lengths = [3, 10, 4, 4, 0, 25, 1]
    batches = by_token_budget(lengths, 12)
    # longest first: 25 is over the budget and goes alone, 10 has no room for a second, 3 × 4, then
    # 2 × 1
    assert batches == [[5], [1], [2, 3, 0], [6, 4]]
    assert by_token_budget([], 12) == []
