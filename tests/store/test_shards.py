"""The part of the prompts that a job reads."""

import pytest

from ceil_jax.errors import UserError
from ceil_jax.store.shards import Shard, parse_shard


@pytest.mark.parametrize("of", [1, 2, 5, 9])
def test_every_chunk_is_one_shards(of):
    owned = [
        [chunk for chunk in range(7) if Shard(number, of).owns(chunk)]
        for number in range(1, of + 1)
    ]
    assert sorted(chunk for own in owned for chunk in own) == list(range(7))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@pytest.mark.parametrize(("text", "shard"), [("3/16", Shard(3, 16)), ("1/1", Shard(1, 1))])
def test_which_shard(text, shard):
    assert parse_shard(text) == shard


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "-1/4", "1/0", "", "slurm"])
def test_no_such_shard(text):
    with pytest.raises(UserError, match=r"expected i/n with i from 1 to n, as in 3/16"):
        parse_shard(text)
