"""The pages of reproduction and of methods say what the scales and the defaults are."""

import re
from pathlib import Path

import pytest

from ceil_jax.methods.ceil import CEIL
from ceil_jax.pipeline.config import SCALES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reproduction.md").read_text("utf-8")


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_the_page_has_the_scales_own_numbers(scale):
    config = SCALES[scale]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{scale}` |"))
    _, _, queries, shots, training, _, _ = (cell.strip() for cell in row.split("|"))
    assert queries == (str(config.limit) if config.limit else "all")
    assert shots.split(",")[0] == str(config.shots)
    ceil = config.method(CEIL)
    sets = f"{ceil.instances:,} queries × {ceil.subsets} sets of {ceil.size}"
    assert training == sets or training.startswith(f"{sets}, ")


def test_the_training_table_has_the_defaults():
    page = (DOCS / "methods.md").read_text("utf-8")
    table = page.partition("\n## How EPR and CEIL are trained\n")[2].partition("\n### ")[0]
    flags = re.findall(r"`--ceil\.([a-z-]+) ([^`]+)`", table)
    assert {"subsets", "size", "learning-rate", "train-context", "trade-off"} <= {
        name for name, _ in flags
    }
    for name, value in flags:
        default = getattr(CEIL(), name.replace("-", "_"))
        assert type(default)(value) == default, name
