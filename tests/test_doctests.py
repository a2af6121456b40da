"""The examples in the docstrings of the package print what they say."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import ceil_jax
from ceil_jax.errors import UserError

ROOT = Path(__file__).parents[1]


def documented(file):
    """The docstrings with an example in a file, each with the name of what it documents."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node) or ""
            if ">>> " in docstring:
                yield getattr(node, "name", "module"), docstring


EXAMPLES = [
    pytest.param(file, docstring, id=f"{file.relative_to(ROOT).as_posix()}::{name}")
    for file in sorted((ROOT / "ceil_jax").rglob("*.py"))
    for name, docstring in documented(file)
]


def test_there_are_examples():
    assert len(EXAMPLES) > 70


def test_every_public_class_has_an_example():
    with_example = {parameters.id.split("::")[1] for parameters in EXAMPLES}
    classes = {name for name in ceil_jax.__all__ if name[0].isupper() and not name.isupper()}
    assert {"CeilSelector", "Row", "Template"} < classes
    acronyms = {"CEIL", "EPR", "TST"}
    assert (classes | acronyms) - with_example == set()


@pytest.mark.parametrize(("file", "docstring"), EXAMPLES)
def test_an_example_prints_what_it_says(file, docstring):
    # not doctest's own search, which misses jitted functions
    try:
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    except UserError as error:
        pytest.skip(str(error))  # an adapter whose framework is not installed
    example = doctest.DocTestParser().get_doctest(docstring, dict(vars(module)), file.stem, None, 0)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
