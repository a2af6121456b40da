"""Draw the package's subpackages from the code's own imports: `make drawing` writes
docs/architecture.svg.

`tests/test_architecture.py` uses the same functions and fails when the drawing is not that of the
code.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ceil_jax"
DRAWING = ROOT / "docs" / "architecture.svg"

Graph = Mapping[str, set[str]]
"""Module -> the names it imports, both dotted."""

LABELS = {
    "dpp": "the maths of sets",
    "distributed": "devices",
    "store": "stages on disk",
    "tasks": "data to examples",
    "metrics": "answers to scores",
    "lm": "language models",
    "encoders": "texts to vectors",
    "retrieval": "queries to examples",
    "skills": "Skill-KNN",
    "training": "EPR, CEIL, TST",
    "methods": "one file each",
    "selector": "for applications",
    "pipeline": "one run",
    "report": "tables, figures",
    "tuning": "the best prompt",
    "cli": "commands",
}
"""Two or three words below a subpackage's name."""

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .label { font-size: 11px; fill: #59636e }
rect { fill: #eef3fb; stroke: #5b7fb5 } path { fill: none; stroke: #8c96a3; stroke-width: 1.2 }
.head { fill: #8c96a3; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .label { fill: #9aa4af } rect { fill: #1c2a40; stroke: #6f96d1 } path { stroke: #7d8590 }
  .head { fill: #7d8590; stroke: none }
}
"""
WIDTH, HEIGHT, GAP, RISE = 124, 44, 22, 84
"""Width and height of a box, the gap between two boxes, and the distance between two floors, in
pixels."""


def modules() -> dict[str, Path]:
    """Dotted name -> file of every module of the package."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


def imports(file: Path) -> set[str]:
    """Dotted names that a file imports, with the name taken from a module:
    `ceil_jax.dpp.kernel.relevance`.

    Imports inside functions count, those under `if TYPE_CHECKING` too, and so does
    `import_module("ceil_jax.dpp")`.

    Raises:
        ValueError: the file has a relative import.
    """
    tree = ast.parse(file.read_text("utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{file}, line {node.lineno}: a relative import")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call):
            names |= by_name(node)
    return names


def by_name(call: ast.Call) -> set[str]:
    """The module that a call of `import_module` imports, where its name is written out."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    if called not in ("import_module", "__import__") or not call.args:
        return set()
    name = call.args[0]
    literal = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return {name.value} if literal else {"".join(_literals(name))} - {""}


def _literals(name: ast.expr) -> list[str]:
    """The fixed beginning of an f-string: `f"ceil_jax.pipeline.{module}"` -> `ceil_jax.pipeline`."""
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        return [str(name.values[0].value).rpartition(".")[0]]
    return []


def graph() -> Graph:
    """Every module of the package and the modules of the package that it imports."""
    known = modules()

    def module_of(name: str) -> str:
        """The module that `from module import name` reads."""
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {module_of(imported) for imported in imports(file)} - {name, "", "ceil_jax"}
        for name, file in known.items()
    }


def subpackage(module: str) -> str:
    """`ceil_jax.dpp.kernel` -> `dpp`; empty for `ceil_jax` itself."""
    return f"{module}.".split(".")[1]


def subpackages(found: Graph) -> dict[str, set[str]]:
    """Every subpackage and the subpackages that it imports."""
    between: dict[str, set[str]] = {}
    for module, names in found.items():
        if subpackage(module):
            between.setdefault(subpackage(module), set()).update(subpackage(name) for name in names)
    return {name: others - {name, ""} for name, others in between.items()}


def floors(between: Mapping[str, set[str]]) -> dict[str, int]:
    """Subpackage -> floor: 0 for one that imports no other, else one above the highest that it
    imports."""
    levels: dict[str, int] = {}

    def level(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise ValueError(f"subpackages import each other: {' -> '.join((*above, name))}")
        if name not in levels:
            levels[name] = 1 + max(
                (level(other, (*above, name)) for other in between[name]), default=-1
            )
        return levels[name]

    for name in sorted(between):
        level(name)
    return levels


def needed(between: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same subpackages without the lines that others imply: a line from a to c goes where a – b – c
    is drawn."""

    def reached(name: str) -> set[str]:
        return between[name].union(*(reached(other) for other in between[name]))

    return {
        name: {other for other in others if not any(other in reached(third) for third in others)}
        for name, others in between.items()
    }


def drawing() -> str:
    """The subpackages as SVG: a subpackage is above all that it imports, and a line leads down to
    each of them."""
    between = subpackages(graph())
    # nearly every subpackage imports these; boxes for them would only add lines
    everywhere = {"errors", "registry"}
    between = {
        name: others - everywhere for name, others in between.items() if name not in everywhere
    }
    levels, lines = floors(between), needed(between)
    steps = _steps(levels, lines)
    places = _places(levels, steps)
    height = max(levels.values()) * RISE + HEIGHT + 2 * GAP
    width = max(x for x, _ in places.values()) + WIDTH // 2 + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        f"<title>The subpackages of ceil_jax and what they import</title><style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
    ]
    for above, below in sorted(steps):
        (x1, floor1), (x2, floor2) = places[above], places[below]
        # a line that only passes a floor is as long as a box is high there
        y1 = height - GAP - floor1 * RISE
        y2 = height - GAP - HEIGHT - floor2 * RISE
        middle = (y1 + y2) // 2
        curve = f"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"
        if below in levels:
            parts.append(f'<path d="{curve}" marker-end="url(#head)"/>')
        else:
            parts.append(f'<path d="{curve} V{y2 + HEIGHT}"/>')
    for name in sorted(levels):
        x, top = places[name][0], height - GAP - HEIGHT - levels[name] * RISE
        parts.append(
            f'<rect x="{x - WIDTH // 2}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x}" y="{top + 19}" text-anchor="middle">{name}/</text>'
            f'<text class="label" x="{x}" y="{top + 35}" text-anchor="middle">{LABELS[name]}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _steps(levels: Mapping[str, int], lines: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """The lines cut into steps of one floor; "dpp@2" is where lines to dpp pass floor 2."""

    def passing(name: str, floor: int) -> str:
        return name if levels[name] == floor else f"{name}@{floor}"

    return {
        (name if floor == levels[name] else passing(other, floor), passing(other, floor - 1))
        for name, others in lines.items()
        for other in others
        for floor in range(levels[name], levels[other], -1)
    }


def _places(levels: Mapping[str, int], steps: set[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Subpackage or passing line -> (x of its middle, floor), in an order with few crossings and short
    steps."""
    floor_of = dict(levels) | {
        name: int(name.partition("@")[2]) for step in steps for name in step if "@" in name
    }
    by_floor = {
        floor: sorted(name for name in floor_of if floor_of[name] == floor)
        for floor in set(levels.values())
    }
    total = max(map(len, by_floor.values())) * (WIDTH + GAP) + GAP
    places: dict[str, tuple[int, int]] = {}

    def put(floor: int, names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            places[name] = (round(total * (2 * i + 1) / (2 * len(names))), floor)

    def cost(floor: int, names: Sequence[str]) -> tuple[int, int]:
        """Crossings of the steps that touch the floor, and their lengths from side to side."""
        put(floor, names)
        ends = [
            (places[a], places[b]) for a, b in sorted(steps) if floor in (floor_of[a], floor_of[b])
        ]
        crossings = sum(
            a[1] == c[1] and (a[0] - c[0]) * (b[0] - d[0]) < 0
            for (a, b), (c, d) in combinations(ends, 2)
        )
        return crossings, sum(abs(a[0] - b[0]) for a, b in ends)

    for floor, names in by_floor.items():
        put(floor, names)
    for _ in range(4):
        for floor in sorted(by_floor):
            put(floor, min(permutations(by_floor[floor]), key=lambda names: cost(floor, names)))
    return places


if __name__ == "__main__":
    DRAWING.write_text(drawing(), encoding="utf-8")
    print(f"wrote {DRAWING.relative_to(ROOT)}")
