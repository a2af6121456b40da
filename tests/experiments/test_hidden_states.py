"""experiments/hidden_states.py: vectors of an LM's states, and the head that reads them."""

import hidden_states
import numpy as np
import pytest
import torch
from harness.beside import beside
from harness.results_file import RESULTS, read_results


def test_texts_are_read_shortest_first_within_the_tokens_of_a_pass():
    lengths = [9, 2, 3, 30, 2]
    found = hidden_states.batches(lengths, tokens=10)
    assert found == [[1, 4, 2], [0], [3]]


def test_padding_is_in_no_mean_and_is_no_last_token():
    states = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    found = hidden_states.pooled(states, mask)
    assert found["mean"].tolist() == [[2, 3], [6, 7]]
    assert found["last token"].tolist() == [[4, 5], [6, 7]]


def test_blocks_are_centred_and_scaled_by_the_bank_alone():
    rng = np.random.default_rng(0)
    bank = rng.normal(5, [1, 100], size=(200, 2))
    standard = hidden_states.Block(bank, bank[:1] + 1).standard()
    np.testing.assert_allclose(standard.bank.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose((standard.bank**2).sum(axis=1).mean(), 1)
    np.testing.assert_allclose(
        standard.queries[0], standard.bank[0] + 1 / (bank.std(axis=0) * np.sqrt(2))
    )


def test_the_block_and_the_penalty_are_those_that_predict_held_out_labels():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=240)
    shown = np.eye(3)[labels] + 0.3 * rng.normal(size=(240, 3))
    noise = rng.normal(size=(240, 3))
    blocks = {
        name: hidden_states.Block(rows[:200], rows[200:])
        for name, rows in (("noise", noise), ("shown", shown))
    }
    fitted = hidden_states.classify(blocks, [f"label {label}" for label in labels[:200]])
    assert fitted.block == "shown"
    right = [
        label == f"label {own}" for label, own in zip(fitted.labels, labels[200:], strict=True)
    ]
    assert np.mean(right) > 0.9


def test_the_record_of_another_row_has_its_own_value_and_interval():
    base = next(one for one in read_results(RESULTS) if one.experiment == "cause")
    right = np.arange(base.queries)[:, None] % 4 == 0
    record = beside(base, "other", right.astype(float), base.cost)
    assert (record.row, record.task, record.texts) == ("other", base.task, base.texts)
    assert record.value == pytest.approx(25)
    assert record.low < 25 < record.high
