"""Runs of a tiny pipeline in children of a warm process, and the comparison of what they leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

from xla_flags import flags_for

TESTS = Path(__file__).parent


class Server:
    """A warm process whose forked children run the tiny pipeline; see fault_server.py."""

    def __init__(self, hash_seed: int) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(TESTS.parent),
            "PYTHONHASHSEED": str(hash_seed),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "XLA_FLAGS": flags_for(1),
            "TQDM_DISABLE": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / "fault_server.py")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, out: Path, **how) -> dict:
        """The exit status and events of a child that worked in a folder; what it said is in `OUT.log`."""
        self.process.stdin.write(json.dumps({"out": str(out), **how}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def files(out: Path) -> dict[str, bytes]:
    """Every file that a run left, but locks and what is only compared by what it selects."""
    found = (
        file
        for file in sorted(out.rglob("*"))
        if file.is_file() and not file.name.startswith(".lock") and "selector" not in file.parts
    )
    # the page's title names the folder
    return {str(f.relative_to(out)): f.read_bytes().replace(out.name.encode(), b"RUNS") for f in found}


def in_order(found: dict[str, bytes]) -> dict[str, bytes]:
    """With the lines of journals sorted, each once: a chunk computed again is the last, and of equals one counts."""
    return {
        name: b"".join(sorted({*content.splitlines(True)})) if name.endswith(".jsonl") else content
        for name, content in found.items()
    }


def differing(ours: dict[str, bytes], whole: dict[str, bytes]) -> list[str]:
    return sorted(name for name in ours.keys() | whole.keys() if ours.get(name) != whole.get(name))
