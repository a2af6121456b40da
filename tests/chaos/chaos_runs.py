"""Runs whose files are damaged, and runs that are killed: the same record, nothing left behind."""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chaos.generators import cases, harm, harms
from films import SMALL, TASK, evaluated
from hypothesis import given
from hypothesis import strategies as st

from ceil_jax.lm.readings import Readings
from ceil_jax.lm.request import LMRequest, Reading
from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.records import read_records
from ceil_jax.pipeline.run import Run
from ceil_jax.pipeline.setup import open_run
from ceil_jax.store import folder as stored
from ceil_jax.store.cost import Cost
from ceil_jax.store.kept import Noted, array, kept

FEW = replace(TASK, validation=TASK.validation[:4])
MODELS = Models()
METHODS = ("random", "topk")


def evaluated_again(folder):
    """Evaluate the rows in a folder of runs; their records without what was measured in seconds."""
    stored._checked.clear()
    opened = open_run(replace(SMALL, out=folder), FEW, MODELS)
    return [
        (record.name, record.value, record.predictions, record.rows(), record.scores().tolist())
        for record in (evaluated(*opened, method) for method in METHODS)
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return folder, evaluated_again(folder)


@cases(0.1)
@given(st.lists(harms, min_size=1, max_size=3))
def chaos_of_damage_at_rest(finished, several):
    """Whatever is damaged in a finished folder, the same command gives the same records."""
    whole, expected = finished
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "runs"
        shutil.copytree(whole, folder)
        for chosen in several:
            files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            harm([file for file in files if not file.name.endswith(".lock")], chosen)
        stored._checked.clear()
        records, _ = read_records(folder)
        known = {name: value for name, value, *_ in expected}
        assert all(known[record.name] == record.value for record in records)
        assert evaluated_again(folder) == expected
        assert evaluated_again(folder) == expected
        assert len(read_records(folder)[0]) == len(METHODS)


KEYS = [LMRequest(f"p{i}", ("a", "b")).key("x") for i in range(900)]
KEPT = {key: Reading([float(i), 1.0], Cost(0.1, 5)) for i, key in enumerate(KEYS)}


@cases(0.2)
@given(harms)
def chaos_of_readings(chosen):
    """Whatever is damaged in a file of readings, no reading is another one, and work goes on."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        Readings(folder).keep(KEPT)
        harm(sorted(folder.glob("*.sqlite")), chosen)
        readings = Readings(folder)
        found = readings.find(KEYS)
        assert found == {key: KEPT[key] for key in found}
        readings.keep(KEPT)
        assert Readings(folder).find(KEYS) == KEPT


@kept("sum", files=array("sum.npz", "total"))
def added(run, value, others=()):
    """A sum of others, in an array, and a reading. It needs no jax, which a fork would hang."""
    total = value + sum(float(other[0]) for other in others)
    run.readings.keep({KEYS[value]: KEPT[KEYS[value]]})
    return Noted(np.full(2000, float(total)), {"total": float(total)})


FIRST = added(1)
LAST = added(5, (added(3, (FIRST,)), added(4, (FIRST, added(2)))))
TOTAL = 5 + (3 + 1) + (4 + 1 + 2)


def _killed_at(folder, event):
    """Compute in a process that dies at its n-th opening, renaming or removing of a file."""
    count = 0

    def hook(name, arguments):
        nonlocal count
        if name in ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect"):
            path = str(arguments[0]) if arguments else ""
            count += str(folder) in path
            if count == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    Run(folder, Models()).get(LAST)
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork")
@cases(0.25)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=4))
def chaos_of_kills(events):
    """Killed at any file operation, any number of times, work ends as if it was left alone."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "runs"
        for event in events:
            process = multiprocessing.get_context("fork").Process(
                target=_killed_at, args=(folder, event)
            )
            process.start()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
        stored._checked.clear()
        run = Run(folder, Models())
        assert run.get(LAST)[0] == TOTAL
        assert run.missing([LAST]) == []
        assert run.readings.find(KEYS) == {key: KEPT[key] for key in KEYS[1:6]}
        assert list(folder.rglob("*.part")) == []
        assert not (folder / "damaged").exists()
