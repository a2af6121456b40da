"""A network trained beside a free method: what is trained is what chooses."""

from dataclasses import replace

import numpy as np
import pytest

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.retrieval.embedded_bank import unit_rows
from ceil_jax.tasks.example import Example
from ceil_jax.training.fixed import beside_fixed
from ceil_jax.training.free.encoder import FreeEncoder, observe
from ceil_jax.training.free.head import fit_label_head
from ceil_jax.training.gradient_cache import TokenTable

BASE = load_encoder("tiny")
BANK = [Example(str(i), f"text {i % 7} of {i}", ("good", "bad")[i % 3 == 0]) for i in range(20)]


def test_vectors_in_training_are_those_that_retrieval_compares():
    free = FreeEncoder(BASE, fit_label_head(observe(BASE, BANK)))
    network = BASE.with_params({name: 1.1 * value for name, value in BASE.params.items()})
    used = replace(free, network=network)
    queries, rows = BANK[:5], np.arange(5)
    fixed = free.fixed(queries, BANK)
    apply = beside_fixed(BASE.apply, fixed.weight)
    sides = (queries, fixed.queries, used.encode_queries), (BANK, fixed.bank, used.encode_examples)
    for texts, part, encode in sides:
        table = TokenTable(BASE, [one.input for one in texts], part)
        trained = np.asarray(apply(network.params, table[rows]))
        assert trained == pytest.approx(unit_rows(encode(texts[:5])), abs=1e-4)
        assert np.linalg.norm(trained, axis=1) == pytest.approx(1, abs=1e-5)


def test_a_bank_that_asks_itself_takes_the_cross_fitted_vectors_by_id():
    free = FreeEncoder(BASE, fit_label_head(observe(BASE, BANK)))
    other = {
        one.id: vector for one, vector in zip(BANK, free.encode_queries(BANK)[::-1], strict=True)
    }
    asked = replace(free, cross_fitted=other)
    last = free.encode_queries(BANK)[:-3:-1]
    assert asked.encode_queries(BANK[:2]) == pytest.approx(last)
    assert asked.fixed(BANK[:2], BANK).queries == pytest.approx(last[:, : -BASE.dim])
