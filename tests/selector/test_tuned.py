"""`CeilSelector.tune` on the test LM."""

import random

import pytest
from refusing import refused

from ceil_jax import CeilSelector
from ceil_jax.lm.tiny import TinyLM

MOODS = {"good": ["bright", "warm", "clever", "funny"], "bad": ["dull", "slow", "empty", "loud"]}

WORDS = ("alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta")


def rows(start, stop):
    return [
        {"text": f"film {i} was {words[i % 4]} and {words[i // 4 % 4]}", "label": label}
        for i in range(start, stop)
        for label, words in [list(MOODS.items())[i % 2]]
    ]


@pytest.fixture(scope="module")
def selector():
    return CeilSelector.from_examples(
        rows(0, 80), encoder="tiny", input_key="text", output_key="label", template="{input} It is {output}"
    )


def test_it_finds_examples_that_help_and_leaves_the_selector_alone(selector):
    lm = TinyLM()
    tuned = selector.tune(rows(100, 180), lm=lm, ks=(2, 4), trade_offs=(0.01, 0.2), lm_tokens=300_000)
    assert tuned.k in (2, 4, 8)
    assert tuned.tokens == lm.tokens_read <= 300_000
    assert tuned.rows == 40
    assert len(tuned.selector.select("a warm film", k=tuned.k)) == tuned.k
    assert tuned.selector.trade_off == tuned.recommended.trade_off
    assert selector.trade_off == 0.1
    assert selector.count_tokens is None
    assert "no examples: " in str(tuned)
    assert "← recommended" in str(tuned)


def test_the_banks_own_rows_will_do(selector):
    tuned = selector.tune(lm="tiny", ks=(2,), trade_offs=(0.1,))
    assert tuned.rows == 40
    assert [setting.k for setting in tuned.settings][-1] == 0


def test_no_row_sees_its_own_answer():
    """Labels by coin toss, rows that all stand in the bank, under other ids and spelled with more white space."""
    toss = random.Random(0)
    bank = [
        {"input": f"{toss.choice(WORDS)} {toss.choice(WORDS)} {i}", "output": toss.choice(["good", "bad"])}
        for i in range(100)
    ]
    selector = CeilSelector.from_examples(bank, encoder="tiny", template="{input} It is {output}")
    rows = [{**row, "id": f"{i + 1}", "input": row["input"].replace(" ", "  ")} for i, row in enumerate(bank)]
    tuned = selector.tune(rows, lm="tiny", ks=(1,), trade_offs=(0.1,))
    assert max(score.mean for score in tuned.scores) < 0.75


def test_what_cannot_be_tuned_is_said(selector):
    with refused("39 rows; give at least 40"):
        selector.tune(rows(100, 139), lm="tiny")
    with refused("every row has the output 'good'"):
        selector.tune([row | {"label": "good"} for row in rows(100, 180)], lm="tiny")
    with refused("lm_tokens=100: a first round and the final rows take"):
        selector.tune(rows(100, 180), lm="tiny", lm_tokens=100)

    class Silent(TinyLM):
        def generate(self, prompts, *_, **__):
            return ["nothing"] * len(prompts)

    with refused("answers no row rightly"):
        selector.tune(rows(100, 180), lm=Silent(), metric="exact_match", ks=(2,))
