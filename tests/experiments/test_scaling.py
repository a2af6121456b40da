"""docs/scaling.md and docs/reproduction.md show what experiments/scaling.py prints."""

from pathlib import Path

import pytest
import scaling

ROOT = Path(__file__).parents[2]


def test_the_page_holds_the_table():
    assert scaling.scoring_table() in (ROOT / "docs" / "scaling.md").read_text("utf-8")
    assert scaling.table_2() in (ROOT / "docs" / "reproduction.md").read_text("utf-8")


def test_flops_by_hand():
    scored = scaling.scoring("7B", 8, 17)
    length = 17 * (757_407 - 206_102) / (240 * 12 * 7)
    assert scored.tokens == pytest.approx(44_000 * 50 * length)
    # 32 layers of width 4,096
    assert scored.flops == pytest.approx(scored.tokens * (2 * 7e9 + 2 * 32 * 4096 * length))
    # 14 GB from disk at 2 GB/s, then 8 GPUs at 40 % of 989 TFLOP/s
    assert scored.seconds == pytest.approx(14e9 / 2e9 + scored.flops / (8 * 0.4 * 989e12))
    assert scored.gpus_an_lm == 1
    assert scaling.scoring("70B", 8, 17).gpus_an_lm == 4  # 140 GB in parts of 48
