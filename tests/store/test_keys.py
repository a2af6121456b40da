"""The part of a configuration that is in a stage's key."""

import json
import logging
from dataclasses import dataclass, field, fields, make_dataclass

from ceil_jax.store.keys import LAYOUT, differing, warn_of_older_stages
from ceil_jax.training.config import BASELINE, CEILConfig, EPRConfig


@dataclass(frozen=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True)
class Config:
    epochs: int = 6
    loss: str = "pairwise"
    inner: Inner = field(default_factory=Inner)


BEGAN = {"Config": {"epochs": 6, "loss": "pairwise"}}


def test_a_key_holds_what_differs():
    assert differing(Config(), BEGAN) == {}
    assert differing(Config(epochs=2, loss="other"), BEGAN) == {"epochs": 2, "loss": "other"}
    assert differing(Config(epochs=2, loss="other"), BEGAN, without=("epochs",)) == {"loss": "other"}
    assert differing(Config(inner=Inner(depth=2)), BEGAN) == {"inner": {"kind": "Inner", "depth": 2}}


def test_a_new_option_leaves_the_key_and_a_new_default_changes_it():
    grown = make_dataclass("Config", [("epochs", int, 6), ("loss", str, "pairwise"), ("new", int, 3)])
    assert differing(grown(), BEGAN) == {} and differing(grown(new=4), BEGAN) == {"new": 4}
    changed = make_dataclass("Config", [("epochs", int, 9), ("loss", str, "pairwise")])
    assert differing(changed(), BEGAN) == {"epochs": 9} and differing(changed(epochs=6), BEGAN) == {}


def test_the_baseline_names_fields_that_exist():
    for kind in (EPRConfig, CEILConfig):
        assert set(BASELINE[kind.__name__]) <= {one.name for one in fields(kind)}
    # EPR's defaults are still those of the baseline; CEIL's that have changed since are in its keys
    assert differing(EPRConfig(), BASELINE, without=("instances",)) == {}
    changed = differing(CEILConfig(), BASELINE, without=("instances",))
    assert set(changed) == {"subsets", "size", "epochs", "learning_rate"}


def test_encoders_of_an_older_layout_are_named_in_one_line(tmp_path, caplog):
    for name, key in (("ceil-1", {"config": {}}), ("ceil-2", {"layout": LAYOUT}), ("epr-3", {"config": {}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key.json").write_text(json.dumps(key))
    with caplog.at_level(logging.WARNING):
        warn_of_older_stages(tmp_path, "ceil")
        warn_of_older_stages(tmp_path, "ceil")
    [record] = caplog.records
    assert "1 trained encoder (ceil-1) of an older layout" in record.getMessage()
    assert "delete them, or use the version of ceil_jax that made them" in record.getMessage()
