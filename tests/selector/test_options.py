"""The keyword arguments of selectors: their names are the settings', and a misspelt one is named."""

from dataclasses import fields

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.selector.selector import CeilSelector
from ceil_jax.selector.settings import CallSettings, Options, SettingOptions, Settings

BANK = [{"input": "a fine film", "output": "good"}, {"input": "a dull film", "output": "bad"}]


def test_the_typed_options_are_the_settings():
    settings = {field.name for field in fields(Settings)}
    assert set(SettingOptions.__annotations__) == settings
    of_a_call = {field.name for field in fields(CallSettings)}
    assert set(Options.__annotations__) == {
        "k",
        "token_budget",
        "filter",
        "balance",
        "trade_off",
        "near_duplicate",
        "min_relevance",
        "own_answer",
    }
    assert set(Options.__annotations__) <= of_a_call


@pytest.mark.parametrize("make", ["from_examples", "from_csv"])
def test_a_misspelt_setting_is_named(make, tmp_path):
    file = tmp_path / "bank.csv"
    file.write_text("input,output\na fine film,good\n")
    bank = BANK if make == "from_examples" else file
    with pytest.raises(UserError, match=r"'tradeoff'; did you mean 'trade_off'\?"):
        getattr(CeilSelector, make)(bank, encoder="tiny", tradeoff=0.2)


def test_a_misspelt_setting_of_a_saved_selector_is_named(tmp_path):
    CeilSelector.from_examples(BANK, encoder="tiny").save_pretrained(tmp_path / "saved")
    with pytest.raises(UserError, match=r"'shortlists'; did you mean 'shortlist'\?"):
        CeilSelector.from_pretrained(tmp_path / "saved", shortlists=5)


def test_a_misspelt_option_of_a_call_is_named():
    selector = CeilSelector.from_examples(BANK, encoder="tiny")
    with pytest.raises(UserError, match=r"'token_budgets'; did you mean 'token_budget'\?"):
        selector.select("a film", token_budgets=5)


@pytest.mark.parametrize(
    ("setting", "wrong", "expected"),
    [
        ("trade_off", 0, "a number above 0, or None"),
        ("near_duplicate", 1.5, "a number above 0 and at most 1, or None"),
        ("min_relevance", -0.1, "a number from 0 to 1, or None"),
        ("origin", 1.0, "a number from 0 to below 1, or None"),
        ("own_answer", 1, "True or False"),
        ("fixed", ("1", "1"), "a list of different ids of examples"),
        ("balance", "", "the name of a field, or None"),
        ("shortlist", True, "a whole number at least 1"),
        ("k", "8", "a whole number at least 0, or None"),
        ("context", "inptu", "'input' or 'example'"),
        ("system_role", ["user"], "'system' or 'user'"),
        ("count_tokens", 5, "a function from texts to token counts, or None"),
        ("card", {}, "a Card"),
    ],
)
def test_a_setting_is_refused_by_what_its_annotation_allows(setting, wrong, expected):
    with pytest.raises(UserError) as refused:
        Settings(**{setting: wrong})
    assert str(refused.value) == f"{setting} is {wrong!r}; expected {expected}"


def test_numbers_of_numpy_are_numbers():
    made = Settings(trade_off=np.float32(0.5), k=np.int64(3), shortlist=10**30)
    assert (made.trade_off, made.k, made.shortlist) == (0.5, 3, 10**30)


def test_fixed_examples_may_be_named_by_the_numbers_that_rows_have_as_ids():
    bank = [{"id": number, **row} for number, row in enumerate(BANK)]
    selector = CeilSelector.from_examples(bank, encoder="tiny", fixed=[1])
    assert selector.fixed == ("1",)
    assert selector.select("a film", k=2).examples[0].id == "1"
    with pytest.raises(UserError, match="expected a list of different ids"):
        CeilSelector.from_examples(bank, encoder="tiny", fixed=(1, "1"))
