"""MTOP's intents as a task from outside the package."""

import importlib
import sys

import pytest

from ceil_jax.tasks.registry import TASKS
from ceil_jax.tasks.spec import FieldError


@pytest.fixture
def spec():
    importlib.import_module("intents")
    yield TASKS["mtop.intents"]
    del sys.modules["intents"]


def test_an_utterances_label_is_its_outermost_intent_in_words(spec):
    form = "[IN:SEND_MESSAGE [SL:CONTENT_EXACT [IN:GET_WEATHER ] ] ]"
    example = spec.example("train-0", {"question": " Tell Ann . ", "logical_form": form})
    assert (example.input, example.output) == ("Tell Ann .", "send message")


def test_a_form_without_an_intent_is_refused(spec):
    with pytest.raises(FieldError, match=r"'logical_form': expected \[IN:NAME …"):
        spec.example("train-0", {"question": "x", "logical_form": "[SL:CONTACT Ann ]"})
