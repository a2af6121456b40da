"""The keyword arguments of selectors: their names are the settings', and a misspelt one is named."""

from dataclasses import fields

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


def test_fixed_examples_may_be_named_by_the_numbers_that_rows_have_as_ids():
    bank = [{"id": number, **row} for number, row in enumerate(BANK)]
    selector = CeilSelector.from_examples(bank, encoder="tiny", fixed=[1])
    assert selector.fixed == ("1",)
    assert selector.select("a film", k=2).examples[0].id == "1"
    with pytest.raises(UserError, match="expected a list of different ids"):
        CeilSelector.from_examples(bank, encoder="tiny", fixed=(1, "1"))
