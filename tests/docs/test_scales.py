"""The page of reproduction says what the scales are."""

from pathlib import Path

import pytest

from ceil_jax.pipeline.config import SCALES

PAGE = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text("utf-8")


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_the_page_has_the_scales_own_numbers(scale):
    config = SCALES[scale]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{scale}` |"))
    _, _, queries, shots, training, _, _ = (cell.strip() for cell in row.split("|"))
    assert queries == (str(config.limit) if config.limit else "all")
    assert shots.split(",")[0] == str(config.shots)
    sets = f"{config.ceil.instances:,} queries × {config.ceil.subsets} sets of {config.ceil.size}"
    assert training == sets or training.startswith(f"{sets}, ")
