"""Saves of a selector over another one, killed at random moments: the old one or the new one loads, whole."""

from __future__ import annotations

import random
import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from faults import Server
from selector_words import ROWS

from ceil_jax import CeilSelector
from ceil_jax.errors import UserError
from chaos.runs import said


class Saves:
    """A warm process, and a folder that was saved once."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        if self._server is None or self._server.process.poll() is not None:
            self._server = Server(hash_seed=1, script="chaos/save_server.py", seconds=self.seconds)
        return self._server

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    @cached_property
    def whole(self) -> tuple[Path, int]:
        """The folder, and the number of events of a save over it."""
        first, over = self.folder / "saved" / "first", self.folder / "saved" / "over"
        first.parent.mkdir()
        assert self.server.run(first, label="old")["status"] == 0, said(first)
        shutil.copytree(first, over)
        return first, len(self.server.run(over, label="new")["events"])

    def killed(self, draw: random.Random) -> tuple[str, str]:
        """A save killed at a random event or a moment after it, then a save that ends."""
        first, events = self.whole
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            out = Path(scratch) / "selector"
            shutil.copytree(first, out)
            kill, delay = draw.randint(1, events), draw.choice([0, 0, draw.uniform(0.0005, 0.02)])
            what = f"killed at event {kill} + {1000 * delay:.1f} ms"
            ran = self.server.run(out, label="new", kill=kill, delay=delay)
            if ran["status"] not in (0, -9):
                return "failed", f"{what}: {said(out)}"
            found = _label(out)
            if found not in ("old", "new"):
                return "failed", f"{what}: {found}"
            if self.server.run(out, label="next")["status"] != 0 or _label(out) != "next":
                return "failed", f"{what}: then the next save: {said(out)}"
            left = [path.name for path in out.glob("content-*")]
            if len(left) != 1:
                return "failed", f"{what}: left behind: {left}"
            return f"the {found} one", ""


def _label(folder: Path) -> str:
    """The one output of the examples of a saved selector; or what is wrong with it."""
    try:
        examples = CeilSelector.from_pretrained(folder).examples
    except UserError as error:
        return f"refused: {error}"
    outputs = {example.output for example in examples}
    return outputs.pop() if len(outputs) == 1 and len(examples) == len(ROWS) else f"a mixture of {outputs}"
