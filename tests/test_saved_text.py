"""Every place where a text becomes an object or code: a new one has to be looked at and named here."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ceil_jax"

MAKES_CODE = {
    "__import__",
    "compile_command",
    "entry_points",
    "eval",
    "exec",
    "import_module",
    "imported",
    "imported_module",
    "literal_eval",
    "run_path",
    "run_module",
    "spec_from_file_location",
}
"""Functions that import or run what a text names."""

READS_OBJECTS = {
    "from_pretrained",
    "load_encoder",
    "load_lm",
    "open_encoder",
    "read_array",
    "safe_load",
    "unpickle",
}
"""Functions that make an object of a name or a folder."""

READERS = {"joblib", "marshal", "np", "numpy", "pickle", "shelve", "torch", "yaml", "dill"}
"""Modules whose `load`, `loads`, `Unpickler` and `open` may run code."""

PLACES = {
    # the names of this package, by attribute
    "__init__.py: import_module": "the table of public names",
    "registry.py: import_module": "module:function that the user named on the command line or in a call",
    "registry.py: imported_module": "the same",
    "registry.py: entry_points": "plugins that the user has installed",
    # names that the user gives to a function or a flag
    "encoders/registry.py: imported": "load_encoder('module:function')",
    "lm/registry.py: imported": "load_lm('module:function')",
    "cli/": "flags of the command line",
    "pipeline/models.py: load_encoder": "--encoder",
    "pipeline/models.py: load_lm": "--lm",
    "pipeline/learning.py: load_encoder": "a folder of a run, never a name in it",
    "pipeline/heads.py: from_pretrained": "a folder of a run",
    "selector/vectors.py: open_encoder": "an argument encoder=…",
    "training/free/encoder.py: load_encoder": "open_encoder of the user's argument",
    "training/free/encoder.py: from_pretrained": "the same, for a folder with a head",
    # files
    "store/opened.py: read_array": "npz without pickles",
    "store/folder.py: np.load": "npz of a run, without pickles",
    "selector/vectors.py: np.load": "npz of the user's cache folder, without pickles",
    "lm/": "transformers, on the model that the user named, without code of the model's",
}
"""FILE: FUNCTION → why the text is the user's own; a folder stands for all of its files."""


def name_of(function):
    """`f` of f(…) and x.f(…); with x if that is a module that reads objects."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        if isinstance(function.value, ast.Name) and function.value.id in READERS:
            return f"{function.value.id}.{function.attr}"
        return function.attr
    return ""


def found_in(source):
    """The calls in a program that turn a text into an object."""
    reads = {f"{module}.{name}" for module in READERS for name in ("load", "loads", "Unpickler")}
    suspect = MAKES_CODE | READS_OBJECTS | reads
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {name for call in calls if (name := name_of(call.func)) in suspect}


def test_each_place_is_known():
    unknown = set()
    unused = {*PLACES}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        for name in found_in(file.read_text("utf-8")):
            here = {place for place in PLACES if f"{path}: {name}" == place}
            here |= {place for place in PLACES if place.endswith("/") and path.startswith(place)}
            unused -= here
            if not here:
                unknown.add(f"{path}: {name}")
    assert unknown == set(), "where does the text come from? If a file names it, pass an object"
    assert unused == set()


@pytest.mark.parametrize(
    "program",
    [
        "import importlib; importlib.import_module(json.loads(text)['method'])",
        "pickle.loads(text)",
        "np.load(file, allow_pickle=True)",
        "yaml.load(text)",
        "torch.load(file)",
        "exec(text)",
        "def f(): return load_encoder(settings['base'])",
    ],
)
def test_a_new_place_is_noticed(program):
    assert len(found_in(program)) == 1


def test_no_pickle_is_read():
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        modules = {
            alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not modules & {
            "pickle",
            "cloudpickle",
            "dill",
            "joblib",
            "marshal",
            "shelve",
            "yaml",
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "trust_remote_code"):
                assert isinstance(node.value, ast.Constant), file
                assert node.value.value is False, file
