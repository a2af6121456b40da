"""Commands that write: killed at random moments, or given a damaged folder, they end with the same files.

Or they refuse with one line and exit status 2, after which removing what the line names is enough.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from faults import Server, differing, files, in_order

from chaos.damage import harm_file

PAGE = "report.html"


class Whole(NamedTuple):
    """An undisturbed run."""

    folder: Path
    files: dict[str, bytes]
    events: list[str]
    """The files that it wrote, in order."""


class Runs:
    """A warm process and, for each command, what an undisturbed run leaves.

    Args:
        folder: for the runs.
        seconds: a run that takes longer hangs.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self._server: Server | None = None
        self._whole: dict[str, Whole] = {}

    @property
    def server(self) -> Server:
        if self._server is None or self._server.process.poll() is not None:
            self._server = Server(hash_seed=1, seconds=self.seconds)
        return self._server

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def whole(self, command: str) -> Whole:
        """An undisturbed run of a command."""
        if command not in self._whole:
            out = self.folder / command / "runs"
            shutil.rmtree(out.parent, ignore_errors=True)  # of an attempt that failed
            out.parent.mkdir()
            ran = self.server.run(out, command=command)
            assert ran["status"] == 0, Path(f"{out}.log").read_text()
            self._whole[command] = Whole(out, files(out), ran["events"])
        return self._whole[command]

    def killed(self, command: str, draw: random.Random) -> tuple[str, str]:
        """Killed a few times at random events, or moments after them, then left to end."""
        whole = self.whole(command)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out, kills = Path(scratch) / "runs", []
            for _ in range(draw.randint(1, 3)):
                kills.append(draw.randint(1, len(whole.events)))
                ran = self.server.run(out, command=command, kill=kills[-1], delay=moment(draw))
                if ran["status"] not in (0, -9):
                    return "failed", f"killed at events {kills}: {said(out)}"
            return self.ends(out, command, whole.files, f"killed at events {kills}")

    def killed_report(self, draw: random.Random) -> tuple[str, str]:
        """`report` of a finished run killed: the page is the old one or the new one, whole; then left to end."""
        whole = self.whole("compare")
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out = Path(scratch) / "runs"
            shutil.copytree(whole.folder, out)
            old = draw.choice([b"an older page", None])
            (out / PAGE).unlink()
            if old is not None:
                (out / PAGE).write_bytes(old)
            kill = draw.randint(1, 3)  # opens the page beside its place; renames it; after its end
            ran = self.server.run(out, command="report", kill=kill, delay=moment(draw))
            if ran["status"] not in (0, -9):
                return "failed", f"killed at event {kill}: {said(out)}"
            left = files(out).get(PAGE)
            if left not in (old, whole.files[PAGE]):
                return "failed", f"killed at event {kill}: a page of {len(left or b'')} bytes"
            return self.ends(out, "report", whole.files, f"killed at event {kill}")

    def killed_with_ray(self, draw: random.Random) -> tuple[str, str]:
        """Scoring by a Ray actor killed once, then left to end: the scores of an undisturbed run without Ray."""
        scores = "scores.json"
        expected = self.whole("score").files[scores]
        events = [i for i, event in enumerate(self.whole("score-ray").events, 1) if "scores-" in event]
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out, kill = Path(scratch) / "runs", draw.choice(events)
            ran = self.server.run(out, command="score-ray", kill=kill, delay=moment(draw))
            if ran["status"] not in (0, -9):
                return "failed", f"killed at event {kill}: {said(out)}"
            status = self.server.run(out, command="score-ray")["status"]
            if status != 0:
                return "failed", f"killed at event {kill}: status {status}: {said(out)}"
            if (out / scores).read_bytes() != expected:
                return "failed", f"killed at event {kill}: other scores"
            return "the same scores", ""

    def damaged(self, command: str, draw: random.Random) -> tuple[str, str]:
        """One to three files of a finished run harmed."""
        whole = self.whole(command)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out = Path(scratch) / "runs"
            shutil.copytree(whole.folder, out)
            harms = []
            for _ in range(draw.randint(1, 3)):
                found = sorted(
                    file for file in out.rglob("*") if file.is_file() and not file.name.startswith(".lock")
                )
                harms.append(harm_file(draw.choice(found), found, draw).replace(f"{out}/", ""))
            return self.ends(out, command, in_order(whole.files), "; ".join(harms), ordered=True)

    def ends(
        self, out: Path, command: str, whole: dict[str, bytes], what: str, *, ordered: bool = False
    ) -> tuple[str, str]:
        """Run a command undisturbed in a folder; (outcome, failure or "").

        Args:
            out: the folder.
            command: what to run.
            whole: the files that it should leave.
            what: what was done to the folder.
            ordered: `whole` is in order, because lines of journals may be made again in another one.
        """
        log = Path(f"{out}.log")
        log.unlink(missing_ok=True)
        status = self.server.run(out, command=command)["status"]
        if status == 2 and said(out).startswith("ceil-jax: "):
            return "refused in one line", ""
        if status != 0:
            return "failed", f"{what}: status {status}: {said(out)}"
        left = in_order(files(out)) if ordered else files(out)
        other = differing(left, whole)
        return ("failed", f"{what}: other files: {', '.join(other)}") if other else ("the same files", "")


def moment(draw: random.Random) -> float:
    """Seconds from an event to the kill, 0 for before it happens."""
    return draw.choice([0, 0, draw.uniform(0.001, 0.05)])


def said(out: Path) -> str:
    """The last line of a child's log."""
    lines = Path(f"{out}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "nothing"
