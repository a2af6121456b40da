"""The subpackages: what each may import, and what importing it loads."""

import ast
import functools
import importlib.metadata
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ceil_jax"
DRAWN = runpy.run_path(str(ROOT / "docs" / "architecture.py"))
MODULES: dict[str, Path] = DRAWN["modules"]()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GRAPH: dict[str, set[str]] = DRAWN["graph"]()

SUBPACKAGES = [
    "errors",
    "registry",
    "dpp",
    "distributed",
    "store",
    "tasks",
    "metrics",
    "lm",
    "encoders",
    "retrieval",
    "skills",
    "training",
    "methods",
    "selector",
    "pipeline",
    "report",
    "tuning",
    "cli",
]
"""From the bottom up: a subpackage imports only subpackages before it."""

HOMES = {
    "torch": ("lm.torch",),
    "accelerate": ("lm.torch",),
    "gguf": ("lm.torch",),
    "openai": ("lm.openai",),
    "transformers": ("lm",),
    "pydantic": ("store.opened", "encoders", "training.free", "selector"),
    "flax": ("encoders", "training"),
    "optax": ("training",),
    "orbax": ("training",),
    "ray": ("lm.ray_reading",),
    "sklearn": ("training.free",),
    "datasets": ("tasks",),
    "bm25s": ("retrieval",),
    "langchain_core": ("selector.adapters.langchain",),
    "dspy": ("selector.adapters.dspy", "selector.adapters.dspy_bank"),
    "lm_eval": ("selector.adapters.lm_eval",),
    "matplotlib": ("report",),
    "tyro": ("cli",),
}
"""The subpackages or modules that may import a heavy library."""


@functools.cache
def names_imported(file: Path) -> set[str]:
    return DRAWN["imports"](file)


def inside(module: str, places: tuple[str, ...]) -> bool:
    """Whether a module is one of these subpackages or modules, or lies in one."""
    return any(f"{module}.".startswith(f"ceil_jax.{place}.") for place in places)


def test_every_file_is_in_a_subpackage():
    """`ceil_jax/` itself holds only its contents page, the errors and what a registry is."""
    assert {DRAWN["subpackage"](module) for module in MODULES} == {"", *SUBPACKAGES}
    assert {file.name for file in PACKAGE.glob("*.py")} == {
        "__init__.py",
        "errors.py",
        "registry.py",
    }


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_subpackage_imports_only_subpackages_below_it(module):
    here = DRAWN["subpackage"](module)
    if here:
        above = SUBPACKAGES[SUBPACKAGES.index(here) + 1 :]
        assert [name for name in sorted(GRAPH[module]) if DRAWN["subpackage"](name) in above] == []
        ours = {
            name for name in names_imported(MODULES[module]) if name.split(".")[0] == "ceil_jax"
        }
        assert {name for name in ours if DRAWN["subpackage"](name) not in SUBPACKAGES} == set(), (
            "name the module"
        )


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """A shortest way from each module back to itself, each circle once."""
    found = {}
    for start in sorted(graph):
        paths = [[start]]
        seen = set()
        while paths:
            path = paths.pop(0)
            for name in sorted(graph[path[-1]]):
                if name == start:
                    found.setdefault(frozenset(path), path)
                    paths = []
                    break
                if name not in seen:
                    seen.add(name)
                    paths.append([*path, name])
    return list(found.values())


def test_modules_do_not_import_each_other(tmp_path):
    """Imports inside functions, for types alone, and by name count: none mends a circle."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]
    hidden = """
from typing import TYPE_CHECKING
import importlib
if TYPE_CHECKING:
    from ceil_jax.dpp.kernel import relevance
def later(name):
    importlib.import_module("ceil_jax.store.folder")
    importlib.import_module(f"ceil_jax.lm.{name}")
    importlib.import_module(name)
"""
    file = tmp_path / "hidden.py"
    file.write_text(hidden)
    inside = {name for name in DRAWN["imports"](file) if name.startswith("ceil_jax")}
    assert inside == {"ceil_jax.dpp.kernel.relevance", "ceil_jax.store.folder", "ceil_jax.lm"}
    assert circles(GRAPH) == []


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_stays_in_its_subpackage(library):
    used = [
        name
        for name, file in MODULES.items()
        if library in {n.split(".")[0] for n in names_imported(file)}
    ]
    assert used, f"nothing imports {library}: take it out of the table"
    assert [name for name in used if not inside(name, HOMES[library])] == []


def test_the_maths_imports_jax_and_numpy_only():
    allowed = {"jax", "jaxtyping", "numpy", "ceil_jax.dpp", *sys.stdlib_module_names}
    for name, file in MODULES.items():
        if inside(name, ("dpp",)):
            roots = {
                imported if imported.startswith("ceil_jax.") else imported.split(".")[0]
                for imported in names_imported(file)
            }
            others = {root for root in roots if not root.startswith("ceil_jax.dpp")} - allowed
            assert others == set(), name


def test_nothing_imports_what_is_private():
    """Neither jax's insides nor another module's underscored names."""
    for module, file in MODULES.items():
        for name in names_imported(file):
            parts = name.split(".")
            private = [
                part for part in parts[1:] if part.startswith("_") and not part.startswith("__")
            ]
            assert not private, f"{module} imports {name}"


def test_every_subpackage_has_a_contents_page():
    """It names every module of the subpackage, so that a reader finds one without opening them."""
    missing = set()
    for subpackage in SUBPACKAGES[2:]:
        page = (
            ast.get_docstring(ast.parse((PACKAGE / subpackage / "__init__.py").read_text("utf-8")))
            or ""
        )
        here = {
            e.stem
            for e in (PACKAGE / subpackage).iterdir()
            if e.suffix == ".py" or any(e.glob("*.py"))
        }
        unnamed = {name for name in here - {"__init__"} if f"`{name}" not in page}
        missing |= (
            {subpackage}
            if unnamed == here - {"__init__"}
            else {f"{subpackage}.{name}" for name in unnamed}
        )
    assert missing == set()


LOADS = {
    "ceil_jax": {"numpy", "jax", "torch", "transformers", "datasets", "flax", "matplotlib"},
    "dpp": {"transformers", "datasets", "torch", "flax", "optax", "orbax", "tokenizers", "pyarrow"},
    "retrieval": {
        "torch",
        "transformers",
        "datasets",
        "flax",
        "optax",
        "orbax",
        "bm25s",
        "matplotlib",
    },
    "encoders": {"torch", "transformers", "datasets", "orbax", "matplotlib"},
    "encoders.registry": {"openai"},
    "lm.registry": {"torch", "openai", "transformers"},
    "training": {"sklearn", "torch", "openai", "datasets", "ray", "matplotlib"},
    "selector": {"sklearn", "torch", "openai", "datasets", "optax", "orbax", "matplotlib", "tyro"},
    "pipeline": {"torch", "openai", "matplotlib", "tyro", "ray"},
    "cli.main": {"torch", "openai", "matplotlib", "datasets", "ray"},
}
"""A subpackage with all its modules, or one module, and libraries that importing it must not load,
not even by a detour."""

TOGETHER = (
    ("ceil_jax", "dpp", "retrieval", "lm.registry", "encoders.registry", "training", "pipeline"),
    ("encoders",),
    ("selector",),
    ("cli.main",),
)
"""Places that are imported one after another by one process, those that load least first."""


def test_every_place_is_imported():
    assert sorted(place for places in TOGETHER for place in places) == sorted(LOADS)


@pytest.mark.parametrize("places", TOGETHER, ids=lambda places: places[-1])
def test_importing_a_subpackage_loads_no_more_than_it_needs(places):
    adapters = ("selector.adapters",)
    lines = ["import sys"]
    for place in places:
        modules = [
            name for name in MODULES if inside(name, (place,)) and not inside(name, adapters)
        ]
        lines += [f"import {name}" for name in (modules if place != "ceil_jax" else ["ceil_jax"])]
        lines.append(f"print({place!r}, *sorted({LOADS[place]} & sys.modules.keys()))")
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [*places]


def test_the_drawing_is_that_of_the_code():
    assert DRAWN["DRAWING"].read_text("utf-8") == DRAWN["drawing"](), "run `make drawing`"
    assert set(DRAWN["LABELS"]) == set(SUBPACKAGES) - {"errors", "registry"}


def test_every_package_that_is_imported_is_a_declared_dependency():
    """One that only another package brings is missing where that one no longer brings it."""
    declared = {
        re.match(r"[\w.-]+", text)[0].lower().replace("_", "-")
        for texts in (
            PROJECT["dependencies"],
            *(texts for extra, texts in PROJECT["optional-dependencies"].items() if extra != "dev"),
        )
        for text in texts
    }
    distributions = importlib.metadata.packages_distributions()
    for name, file in MODULES.items():
        for imported in imported_packages(ast.parse(file.read_text("utf-8"))):
            if imported in sys.stdlib_module_names or imported == "ceil_jax":
                continue
            brought_by = {one.lower().replace("_", "-") for one in distributions.get(imported, ())}
            assert brought_by & declared, f"{name} imports {imported}, which pyproject.toml lacks"


def imported_packages(tree):
    """The first parts of the names of all modules that a file imports, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]
