"""The peak memory of one contender: the harness calls `python -m benchmarks.memory SUBJECT CASE
CONTENDER SETTINGS`, which prints bytes.

On a GPU it is what JAX's allocator counts; a contender in another library must be measured by that
library. On a CPU it is the process's resident memory, whose high-water mark Linux resets on
request.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from pathlib import Path


def resident(field: str) -> int:
    """Return VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(
        f"no {field} in /proc/self/status: peak memory on a CPU can be measured on Linux only"
    )


def peak(subject: str, name: str, contender: str, settings_json: str) -> int:
    """Return the peak memory of a run in bytes, above the memory in use before."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    from benchmarks.harness import Settings, finished, load_cases

    settings = Settings(**json.loads(settings_json))
    case = next(case for case in load_cases(subject, settings) if case.name == name)
    run = case.contenders[contender]
    if settings.device == "gpu":
        # the allocator's peak cannot be reset, so the first run counts; compiling takes no device
        # memory
        device = jax.devices()[0]
        before = device.memory_stats()["bytes_in_use"]
        finished(run())
        return device.memory_stats()["peak_bytes_in_use"] - before
    finished(run())
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    finished(run())
    return resident("VmHWM") - before


if __name__ == "__main__":
    print(peak(*sys.argv[1:]))
