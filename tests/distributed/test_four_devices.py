"""The tests that need several devices run in a process of their own; all others have one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from xla_flags import flags_for


@pytest.mark.slow
def test_on_four_devices():
    file = Path(__file__).parent / "four_devices.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "XLA_FLAGS": flags_for(4)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
