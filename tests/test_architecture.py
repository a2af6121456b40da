"""Imports point one way; heavy libraries stay where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ceil_jax"

LAYERS = [
    {
        "errors",
        "config",
        "demo",
        "methods",
        "runs",
        "disk",
        "journal",
        "packages",
        "parallel",
        "intervals",
        "rates",
        "shards",
        "helptext",
        "machine",
    },
    {"kernel", "dpp", "greedy", "budgeted", "stepwise", "mmr", "losses", "ranking", "skill_similarity"},
    {"index", "approximate"},
    {"hosts"},
    {
        "tokens",
        "hf_names",
        "transformer",
        "checkpoint",
        "encoder",
        "endpoint_encoder",
        "pretrained",
        "tasks",
        "data",
        "metrics",
        "lm",
        "prompts",
        "lexical",
        "sketches",
        "gold_skills",
        "skills",
        "records",
    },
    {"inputs", "serve", "gradient_cache"},
    {"embedded_bank"},
    {"retrievers"},
    {"selector", "proposals"},
    {"adapters"},
    {"candidates", "train", "training_state", "epr", "ceil", "evaluate", "tuning", "skill_analysis"},
    {"ray_scoring"},
    {"workspace", "scored"},
    {"supervision"},
    {"training"},
    {"pipeline"},
    {"compare", "plots", "report", "grid", "latency", "diagnosis", "results", "export", "doctor"},
    {"task_flags"},
    {"tables", "work"},
    {"published"},
    {"plan"},
    {"drawing", "skill_table", "skill_recall", "skill_figure"},
    {"cli"},
    {"experiment"},
    {"skill_experiments"},
]
STAGES = {"candidates", "evaluate", "report"}
FLAX = {"encoder", "transformer", "pretrained", "checkpoint"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def unit(path: Path) -> str:
    """The module or sub-package of ceil_jax that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path, *, at_run_time: bool = True) -> set[str]:
    """Dotted names a file imports, those under TYPE_CHECKING left out."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in skipped and at_run_time:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}, line {node.lineno}: a relative import"
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def ours(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("ceil_jax.")}


def test_every_module_has_a_layer():
    known = set().union(*LAYERS) | {"__init__"}
    assert {unit(path) for path in modules()} == known


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    level = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    here = unit(path)
    if here == "__init__":
        return
    upward = {name for name in ours(path) if name in level and level[name] > level[here]}
    assert not upward, f"{here} imports {upward}, which stand above it"
    assert here not in STAGES or not (ours(path) & STAGES - {here}), "stages meet through files only"


def test_torch_and_flax_stay_in_their_files():
    torch = {
        path.relative_to(PACKAGE)
        for path in modules()
        if any(n.split(".")[0] == "torch" for n in imports(path))
    }
    flax = {unit(path) for path in modules() if any(n.split(".")[0] == "flax" for n in imports(path))}
    assert torch == {
        Path(f"lm/{name}.py")
        for name in ("torch_lm", "torch_plain", "torch_reader", "torch_session", "tree_attention")
    }
    assert flax <= FLAX


def test_no_private_jax():
    assert not [path for path in modules() if any(n.startswith("jax._src") for n in imports(path))]


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["jax", "torch", "transformers", "datasets", "numpy"]
    code = f"import sys, ceil_jax; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    import ceil_jax

    for name in ceil_jax.__all__:
        assert getattr(ceil_jax, name) is not None
