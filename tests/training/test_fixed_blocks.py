"""A network trained beside a free method: what is trained is what chooses."""

import numpy as np
import pytest

from ceil_jax.dpp.lengths import unit_rows
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import EncoderPair
from ceil_jax.tasks.example import Example
from ceil_jax.training.fixed_blocks import beside_blocks
from ceil_jax.training.free.encoder import FreeEncoder, observe
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.token_table import TokenTable

BASE = load_encoder("tiny")
BANK = [Example(str(i), f"text {i % 7} of {i}", ("good", "bad")[i % 3 == 0]) for i in range(20)]


def test_vectors_in_training_are_those_that_retrieval_compares():
    head = fit_label_head(observe(BASE, BANK))
    network = BASE.with_params({name: 1.1 * value for name, value in BASE.params.items()})
    used = FreeEncoder(BASE, head, EncoderPair(network, network))
    queries = BANK[:5]
    rows = np.arange(5)
    seen = observe(BASE, BANK)
    apply = beside_blocks(BASE.apply, head.cosine_weight)
    sides = (
        (queries, head.query_block(seen)[:5], used.encode_queries),
        (BANK, head.example_block(seen), used.encode_bank),
    )
    for texts, part, encode in sides:
        table = TokenTable(BASE, [one.input for one in texts], part)
        trained = np.asarray(apply(network.params, table[rows]))
        assert trained == pytest.approx(unit_rows(encode(texts[:5])), abs=1e-4)
        assert np.linalg.norm(trained, axis=1) == pytest.approx(1, abs=1e-5)
