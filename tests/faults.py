"""Servers whose children work in a folder and may be killed in it, and the comparison of what they leave."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from xla_flags import flags_for

from ceil_jax.store.journal import whole_line

TESTS = Path(__file__).parent


class Server:
    """A warm process that forks children for a folder; see watched.py.

    Args:
        hash_seed: PYTHONHASHSEED of the process.
        script: `fault_server.py`, whose children run the tiny pipeline, or another one that serves.
    """

    def __init__(self, hash_seed: int, script: str = "fault_server.py") -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "PYTHONHASHSEED": str(hash_seed),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "XLA_FLAGS": flags_for(1),
            "TQDM_DISABLE": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / script)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, **how) -> dict:
        """The exit status and events of a child that worked in a folder; what it said is in `FOLDER.log`."""
        self.process.stdin.write(json.dumps({"folder": str(folder), **how}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def files(out: Path) -> dict[str, bytes]:
    """Every file that a run left, but locks and half-written pages."""
    found = (
        file
        for file in sorted(out.rglob("*"))
        if file.is_file()
        and not file.name.startswith(".lock")
        and not re.fullmatch(r"\.report\.html\.\d+", file.name)
    )
    # the page's title names the folder
    return {str(f.relative_to(out)): f.read_bytes().replace(out.name.encode(), b"RUNS") for f in found}


def in_order(found: dict[str, bytes]) -> dict[str, bytes]:
    """With the whole lines of journals sorted, each once: a chunk that is computed again is the last.

    A damaged line whose chunk stands in another line as well may stay; no reader takes it.
    """

    def lines(content: bytes) -> bytes:
        return b"".join(sorted({line for line in content.splitlines(True) if whole_line(line)}))

    return {name: lines(content) if name.endswith(".jsonl") else content for name, content in found.items()}


def differing(ours: dict[str, bytes], whole: dict[str, bytes]) -> list[str]:
    return sorted(name for name in ours.keys() | whole.keys() if ours.get(name) != whole.get(name))
