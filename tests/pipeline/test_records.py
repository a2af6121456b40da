"""Names of records: what settings they depend on."""

from dataclasses import replace

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.records import FIRST_SETTINGS, settings_of


def test_settings_newer_than_the_first_records_are_left_out_at_their_defaults():
    settings = settings_of(RunConfig())
    flat = {
        f"{group}.{name}" for group in ("skills", "epr", "ceil") for name in settings.pop(group)
    } | settings.keys()
    assert flat == FIRST_SETTINGS


def test_other_values_of_newer_settings_are_in():
    default = RunConfig()
    changed = replace(
        default,
        token_budget=100,
        tst=replace(default.tst, epochs=7),
        ceil=replace(default.ceil, loss_options=("margin=2",)),
    )
    settings = settings_of(changed)
    assert settings["token_budget"] == 100 and settings["tst"]["epochs"] == 7
    assert settings["ceil"]["loss_options"] == ["margin=2"]
    assert settings["ceil"]["loss"] == default.ceil.loss
