"""What a number was measured on, in words."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def processor() -> str:
    """The processor's model, which `platform` leaves empty on Linux."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def device() -> str:
    """The accelerators that language models run on, or the cores: `2 cores, AMD EPYC`."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}"
    return f"{os.cpu_count()} cores, {processor()}"
