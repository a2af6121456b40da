"""Loading a small model without transformers' progress bar, which would be gone before it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SMALL = 2_000_000_000
"""Bytes of weights; larger ones take long enough to load for a bar."""


@contextmanager
def quiet_if_small(source: str | Path) -> Iterator[None]:
    """No bars of transformers within, where `source` is a folder of less than `SMALL` bytes of weights."""
    from transformers.utils import logging

    folder = Path(source)
    weights = sum(
        file.stat().st_size for kind in ("safetensors", "gguf") for file in folder.glob(f"*.{kind}")
    )
    if not 0 < weights < SMALL or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()
