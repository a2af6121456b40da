"""Virtual environments, one for each server and created once: servers pin versions that the package must not pin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ceil_jax.tasks.assets import cache_path


def environment(name: str, packages: Sequence[str], without: Sequence[str] = ()) -> Path:
    """Return the path of Python in an environment with some packages.

    Args:
        name: its folder in the cache.
        packages: what pip installs.
        without: packages that these bring along and cannot be imported with.
    """
    folder = cache_path() / "servers" / name
    python = folder / "bin" / "python"
    finished = folder / "finished"
    if not finished.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", *packages], check=True)
        if without:
            subprocess.run([*pip, "uninstall", "--yes", *without], check=True)
        finished.touch()
    return python
