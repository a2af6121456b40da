"""What the pages say about adding something from outside, followed: their files, their flags, a
run."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from films import SMALL, TASK

from ceil_jax.errors import UserError
from ceil_jax.pipeline.evaluate import evaluate
from ceil_jax.pipeline.graph import open_run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def plugin(tmp_path, monkeypatch, registrations_undone):
    """Write a page's file to the current folder, and return what is run with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(page, name):
        text = (DOCS / page).read_text("utf-8")
        [code] = re.findall(
            rf"`{name}\.py`:\n\n<!-- run -->\n```python\n(.*?)^```$", text, re.M | re.S
        )
        (tmp_path / f"{name}.py").write_text(code)
        written.append(name)
        return replace(SMALL, out=tmp_path / "runs")

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_function_that_returns_an_lm(plugin):
    config = replace(plugin("new_lm.md", "my_lm"), lm="my_lm:letters")
    run, graph = open_run(config, TASK)
    assert graph.lm.key == "letters"
    found = evaluate(run, graph, "topk")
    assert len(found.rows()) == len(TASK.validation) and graph.lm.get().tokens_read > 0


def test_an_order_of_examples(plugin):
    config = replace(plugin("extending.md", "my_orders"), order="ends")
    with pytest.raises(UserError, match="unknown order of examples 'ends'"):
        open_run(config, TASK).graph.metric("topk")
    importlib.import_module("my_orders")
    found = evaluate(*open_run(config, TASK), "topk")
    similarities = [[shown[1] for shown in row["examples"]] for row in found.rows()]
    # three examples: the second, the least and the most similar
    assert all(row == [sorted(row)[1], sorted(row)[0], sorted(row)[2]] for row in similarities)
