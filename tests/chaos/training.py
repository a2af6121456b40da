"""Trainings stopped at work, whose scratch folders are harmed or swapped: they end with the same files."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from faults import in_order

from chaos.damage import harm_file
from chaos.runs import Runs

STOPS = (0.3, 0.6, 1.0)
"""Where trainings are stopped, as a share of the events of each scratch folder."""


class Trainings:
    """Runs folders of stopped trainings, made once each."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._stopped: dict[int, Path] = {}

    def _moments(self) -> list[int]:
        """Events in the scratch folder of each training, EPR's and CEIL's."""
        events = self.runs.whole("compare").events
        moments = []
        for stage in ("epr-", "ceil-"):
            own = [i for i, e in enumerate(events, 1) if e.split()[1].startswith(stage) and "/scratch/" in e]
            moments += [own[round(share * (len(own) - 1))] for share in STOPS]
        return moments

    def stopped(self, moment: int) -> Path:
        """The folder of a run that was killed at that event."""
        if moment not in self._stopped:
            out = self.runs.folder / f"stopped-{moment}" / "runs"
            out.parent.mkdir()
            ran = self.runs.server.run(out, kill=moment)
            assert ran["status"] == -9, Path(f"{out}.log").read_text()
            self._stopped[moment] = out
        return self._stopped[moment]

    def damaged(self, draw: random.Random) -> tuple[str, str]:
        """One to three files of the scratch folder harmed; or the whole folder, or its checkpoints, another one's."""
        moments = self._moments()
        moment, other = draw.sample(moments, 2)
        with tempfile.TemporaryDirectory(dir=self.runs.folder) as place:
            out = Path(place) / "runs"
            shutil.copytree(self.stopped(moment), out)
            [scratch] = out.glob("*/scratch")
            how = draw.choice(["harm", "harm", "harm", "another's folder", "another's checkpoints", "lost"])
            if how == "harm":
                harms = []
                for _ in range(draw.randint(1, 3)):
                    found = sorted(file for file in scratch.rglob("*") if file.is_file())
                    harms += [harm_file(draw.choice(found), found, draw)] if found else []
                how = "; ".join(harms).replace(f"{out}/", "")
            elif how == "lost":
                lost = draw.choice(sorted(scratch.rglob("*")))
                how = f"lost: {lost.relative_to(out)}"
                shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
            else:
                [theirs] = self.stopped(other).glob("*/scratch")
                name = "checkpoints" if how.endswith("checkpoints") else "."
                shutil.rmtree(scratch / name, ignore_errors=True)
                if (theirs / name).is_dir():
                    shutil.copytree(theirs / name, scratch / name)
            what = f"stopped at event {moment}; {how} ({other})"
            whole = in_order(self.runs.whole("compare").files)
            return self.runs.ends(out, "compare", whole, what, ordered=True)
