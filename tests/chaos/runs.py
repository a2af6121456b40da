"""Commands that write: killed at random moments, or given a damaged folder, they end with the same files.

Or they refuse with one line and exit status 2, after which removing what the line names is enough.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from faults import Server, differing, files, in_order

from chaos.damage import harm_file


class Runs:
    """A warm process and, for each command, what an undisturbed run leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(hash_seed=1)
        self._whole: dict[str, tuple[Path, dict[str, bytes], int]] = {}

    def close(self) -> None:
        self.server.close()

    def whole(self, command: str) -> tuple[Path, dict[str, bytes], int]:
        """An undisturbed run's folder, files and number of events."""
        if command not in self._whole:
            out = self.folder / command / "runs"
            out.parent.mkdir()
            ran = self.server.run(out, command=command)
            assert ran["status"] == 0, Path(f"{out}.log").read_text()
            self._whole[command] = out, files(out), len(ran["events"])
        return self._whole[command]

    def killed(self, command: str, draw: random.Random) -> tuple[str, str]:
        """Killed a few times at random events, or moments after them, then left to end."""
        _, whole, events = self.whole(command)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out, kills = Path(scratch) / "runs", []
            for _ in range(draw.randint(1, 3)):
                kills.append(draw.randint(1, events))
                delay = draw.choice([0, 0, draw.uniform(0.001, 0.05)])
                ran = self.server.run(out, command=command, kill=kills[-1], delay=delay)
                if ran["status"] not in (0, -9):
                    return "failed", f"killed at events {kills}: {_said(out)}"
            return self._ends(out, command, whole, f"killed at events {kills}")

    def damaged(self, command: str, draw: random.Random) -> tuple[str, str]:
        """One to three files of a finished run harmed."""
        place, whole, _ = self.whole(command)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out = Path(scratch) / "runs"
            shutil.copytree(place, out)
            harms = []
            for _ in range(draw.randint(1, 3)):
                found = sorted(
                    file for file in out.rglob("*") if file.is_file() and not file.name.startswith(".lock")
                )
                harms.append(harm_file(draw.choice(found), found, draw).replace(f"{out}/", ""))
            return self._ends(out, command, in_order(whole), "; ".join(harms), ordered=True)

    def _ends(
        self, out: Path, command: str, whole: dict[str, bytes], what: str, *, ordered: bool = False
    ) -> tuple[str, str]:
        log = Path(f"{out}.log")
        log.unlink(missing_ok=True)
        status = self.server.run(out, command=command)["status"]
        if status == 2 and _said(out).startswith("ceil-jax: "):
            return "refused in one line", ""
        if status != 0:
            return "failed", f"{what}: status {status}: {_said(out)}"
        left = in_order(files(out)) if ordered else files(out)
        other = differing(left, whole)
        return ("failed", f"{what}: other files: {', '.join(other)}") if other else ("the same files", "")


def _said(out: Path) -> str:
    lines = Path(f"{out}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing"
