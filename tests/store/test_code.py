"""The code of plugins in keys: what changes a digest, and what does not."""

import functools
import importlib
import sys

import pytest

from ceil_jax.metrics import METRICS, PerExample
from ceil_jax.retrieval.retriever import RETRIEVERS
from ceil_jax.store.code import code_digest

PLUGIN = """
import numpy as np
import {helper}
from {helper} import scale

WEIGHT = 2

class Retriever:
    def __init__(self, arguments):
        self.weight = WEIGHT

def loss(scores, beta=0.1):
    return scale(scores) * beta
"""
HELPER = "def scale(x):\n    return x + 1\n"


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Write, import and forget a plugin and the module beside it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(code=PLUGIN, helper=HELPER):
        names = ["a_plugin_of_tests", "a_helper_of_tests"]
        (tmp_path / f"{names[0]}.py").write_text(code.format(helper=names[1]))
        (tmp_path / f"{names[1]}.py").write_text(helper)
        for name in names:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(names[0])

    yield load
    for name in ("a_plugin_of_tests", "a_helper_of_tests"):
        sys.modules.pop(name, None)


def digests(module):
    values = [module.Retriever, module.loss, functools.partial(module.loss, beta=1)]
    return [code_digest(value) for value in (*values, PerExample(module.loss))]


def test_this_packages_own_code_is_no_part_of_a_key():
    for value in (*METRICS.values(), *RETRIEVERS.values(), PerExample, functools.partial(max, 1)):
        assert code_digest(value) == ""
    assert code_digest() == code_digest("text", 1.5) == ""


def test_the_same_code_has_the_same_digest(plugin):
    first = digests(plugin())
    assert "" not in first
    assert digests(plugin()) == first


@pytest.mark.parametrize(
    "change",
    [
        {"code": PLUGIN.replace("WEIGHT = 2", "WEIGHT = 3")},
        {"code": PLUGIN.replace("* beta", "/ beta")},
        {"code": PLUGIN.replace("beta=0.1", "beta=0.2")},
        {"helper": HELPER.replace("+ 1", "+ 2")},
    ],
)
def test_an_edit_of_the_plugin_or_of_what_it_uses_changes_it(plugin, change):
    first = digests(plugin())
    assert all(a != b for a, b in zip(digests(plugin(**change)), first, strict=True))


def test_arguments_and_closures_count(plugin):
    module = plugin()

    def made(beta):
        return lambda scores: module.loss(scores, beta)

    assert code_digest(made(1)) != code_digest(made(2))
    assert code_digest(functools.partial(module.loss, beta=1)) != code_digest(
        functools.partial(module.loss, beta=2)
    )


def typed(code):
    """Functions as a cell of a notebook makes them: their module has no file."""
    namespace = {"__name__": "a_session"}
    exec(compile(code, "<cell>", "exec"), namespace)
    return namespace


def test_code_that_was_typed_into_a_session():
    cell = (
        "factor = 2\ndef twice(x):\n    return factor * x\ndef metric(p, e):\n    return twice(1)\n"
    )
    first = code_digest(typed(cell)["metric"])
    assert first
    assert code_digest(typed("\n\n" + cell)["metric"]) == first
    for old, new in (("factor = 2", "factor = 3"), ("* x", "+ x"), ("twice(1)", "twice(2)")):
        assert code_digest(typed(cell.replace(old, new))["metric"]) != first
