"""A description of the current machine, and the device hours that a run has used."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def processor() -> str:
    """Return the processor's model name; `platform` does not give it on Linux."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def device() -> str:
    """Return the accelerators of this machine, or else its processor, in words.

    For example: `2 cores, AMD EPYC`.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}"
    return f"{os.cpu_count()} cores, {processor()}"


def device_hours(seconds: float, device: str) -> float:
    """Return the GPU-hours, or without a GPU the core-hours, of some seconds on a device.

    All GPUs or cores count, busy or not.

    `device` is the result of the function `device`; any other text counts as one device.

    >>> device_hours(1800, "2 cores, AMD EPYC"), device_hours(7200, "4 × NVIDIA A100")
    (1.0, 8.0)
    """
    count = device.split(" ")[0]
    return seconds / 3600 * (int(count) if count.isdigit() else 1)
