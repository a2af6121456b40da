"""A file of a user's own, and the command in another process."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def apart():
    """Run the command in a process of its own."""

    def run(*arguments, **more):
        command = [sys.executable, "-m", "ceil_jax.cli.main", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=Path(__file__).parents[2], **more
        )

    return run


@pytest.fixture
def reviews(tmp_path):
    """Write a file with columns input and output, and return its name."""

    def write(count=40):
        rows = [
            f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}"
            for i in range(count)
        ]
        (tmp_path / "mine.csv").write_text("\n".join(["input,output", *rows]) + "\n")
        return str(tmp_path / "mine.csv")

    return write
