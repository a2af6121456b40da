"""A user's type checker sees the public names; the stub and the code say the same."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ceil_jax

ROOT = Path(ceil_jax.__file__).parents[1]
NOT_SHOWN = (
    "datasets",
    "etils",
    "flax",
    "huggingface_hub",
    "openai",
    "optax",
    "orbax",
    "pandas",
    "pyarrow",
    "pydantic",
    "scipy",
    "tokenizers",
    "torch",
    "tqdm",
    "transformers",
)
"""Libraries none of whose types the public functions take or return; to read them takes mypy half a
minute."""

STUB = ast.parse((ROOT / "ceil_jax" / "__init__.pyi").read_text())


def test_the_stub_has_every_public_name_and_no_other():
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    imported = {
        a.asname: n.module for n in STUB.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    imported.pop(None)  # what the stub itself needs
    assert sorted({*functions, *imported}) == ceil_jax.__all__
    for name, module in imported.items():
        if "adapters" in module:  # needs an extra, and loads a framework
            continue
        assert getattr(importlib.import_module(module), name) is getattr(ceil_jax, name)


def test_functions_that_the_stub_writes_out_take_what_it_says():
    written = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]
    assert "greedy_map" in {node.name for node in written}
    for node in written:
        real = inspect.signature(inspect.unwrap(getattr(ceil_jax, node.name)))
        assert [argument.arg for argument in node.args.args] == list(real.parameters), node.name
        required = [
            name for name, p in real.parameters.items() if p.default is inspect.Parameter.empty
        ]
        assert len(node.args.args) - len(node.args.defaults) == len(required), node.name


@pytest.mark.mypy
def test_a_users_mypy_sees_real_types(tmp_path):
    """Every public name, and what the three most used functions return; no `Any` among them."""
    assert (ROOT / "ceil_jax" / "py.typed").exists()
    # an adapter returns what its framework has, whose types are not read here
    adapters = {name for name, module in ceil_jax._HOME.items() if ".adapters" in module}
    shown = [name for name in ceil_jax.__all__ if name not in {"TASKS", *adapters}]
    program = f"import ceil_jax\nfrom ceil_jax import {', '.join(ceil_jax.__all__)}\n"
    program += "".join(f"reveal_type({name})\n" for name in shown)
    program += """
def use(selector: CeilSelector, kernel: "jax.Array") -> None:
    reveal_type(greedy_map(kernel, 3))
    reveal_type(load_task("sst5"))
    reveal_type(selector.select("a query", k=3))
    reveal_type(selector.select("a query", k=3).prompt)
    selector.select("a query", kk=3)
    greedy_map(kernel, "three")
"""
    (tmp_path / "program.py").write_text("import jax\n" + program)
    (tmp_path / "mypy.ini").write_text(f"""
[mypy]
follow_imports = silent
[mypy-{",".join(f"{library}.*" for library in NOT_SHOWN)}]
follow_imports = skip
ignore_missing_imports = True
""")
    cache = ROOT / ".pytest_cache" / "mypy"
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, "program.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    types = re.findall(r'Revealed type is "(.*)"', run.stdout)
    assert len(types) == len(shown) + 4, run.stdout + run.stderr
    assert not [
        type for type in types if re.fullmatch(r"(Any|def \(.*\) -> Any|.*JitWrapped)", type)
    ], types
    # a NamedTuple is shown with the types of its fields
    assert types[-4].startswith("tuple[")
    assert types[-4].endswith("fallback=ceil_jax.dpp.greedy.MapResult]")
    assert types[-3:] == [
        "ceil_jax.tasks.example.Task",
        "ceil_jax.selector.selection.Selection",
        "str",
    ]
    assert re.findall(r"error: .* \[([\w-]+)\]", run.stdout) == ["call-arg", "arg-type"], run.stdout
