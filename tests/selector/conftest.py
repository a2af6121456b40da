"""A selector whose encoder is saved quickly, and the folder that it was saved to."""

import pytest
from selector_words import ROWS

from ceil_jax import CeilSelector, load_encoder
from ceil_jax.selector.card import Card
from ceil_jax.tasks.example import Template


@pytest.fixture(scope="session")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="session")
def saved(tiny, tmp_path_factory):
    card = Card(license="mit", metrics={"accuracy": 0.5}, training_data='"quoted": text')
    settings = {
        "trade_off": 0.2,
        "shortlist": 30,
        "template": Template("{town}: {input} = {output}"),
    }
    selector = CeilSelector.from_examples(ROWS, encoder=tiny, card=card, **settings)
    folder = tmp_path_factory.mktemp("saved") / "selector"
    selector.save_pretrained(folder)
    return selector, folder
