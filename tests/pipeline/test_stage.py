"""Keys, and the walks over the setup, on a diamond made by hand."""

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.stage import Run, Stage, Work, closure, unkeyed
from ceil_jax.store.code import code_digest
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import finish, read_json, write_json

COMPUTED = []


@dataclass(frozen=True)
class Number(Stage[int]):
    """A number, and the sum of what it needs."""

    value: int
    needs_too: tuple[Stage[int], ...] = ()
    scale: float = 1.0
    label: str = unkeyed("")
    data: np.ndarray | None = None

    def compute(self, run, folder):
        COMPUTED.append(self.label)
        write_json(folder / "value.json", self.value + sum(run.get(one) for one in self.needs_too))
        return {"is": self.label}

    def load(self, run, folder):
        return read_json(folder / "value.json")

    def estimate(self, run):
        return Work(read=self.value)


@dataclass(frozen=True)
class Held(Stage[int]):
    """A value that is never on disk."""

    in_memory: ClassVar[bool] = True
    number: Number

    def load(self, run, folder):
        return 10 * run.get(self.number)


class Newer(Number):
    version = 2


@dataclass(frozen=True)
class Other(Number):
    pass


FIRST = Number(1, label="first")
LEFT = Number(2, (FIRST,), label="left")
RIGHT = Number(3, (Held(FIRST),), label="right")
LAST = Number(4, (LEFT, RIGHT), label="last")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    COMPUTED.clear()
    return Run(tmp_path, Models())


def test_a_key_is_of_what_a_value_depends_on():
    plain = Number(1)
    assert plain.key == Number(1, scale=1.0, label="another").key == FIRST.key
    assert plain.key.startswith("number-")
    assert Other(1).key.startswith("other-")
    ones = np.ones(3)
    others = [
        Number(2),
        Number(1, scale=2.0),
        Number(1, (FIRST,)),
        Number(1, (LEFT,)),
        Newer(1),
        Number(1, data=ones),
        Number(1, data=ones + 1),
        Number(1, data=ones.astype(np.float32)),
    ]
    digests = {one.key.rpartition("-")[2] for one in [plain, *others]}
    assert len(digests) == 1 + len(others)
    assert Number(1, (Number(2, (Number(3),)),)).key != Number(1, (Number(2, (Number(4),)),)).key


def test_each_stage_is_computed_once_needs_first(run):
    # 4 + (2 + 1) + (3 + 10 · 1)
    assert run.get(LAST) == 20
    assert COMPUTED == ["first", "left", "right", "last"]
    assert run.get(LAST) == Run(run.root, run.models).get(LAST) == 20
    assert len(COMPUTED) == 4
    assert run.summary(LAST)["is"] == "last"
    key = read_json(run.folder(LEFT) / "key.json")
    # the class is not of the package, so that its code is a part of the key
    assert key == {"needs_too": [FIRST.key], "value": 2, "code": code_digest(Number)}


@dataclass(frozen=True)
class Scaled(Number):
    """Names a function by the name under which it is registered."""

    FUNCTIONS: ClassVar[dict] = {}
    name: str = "double"

    @property
    def registered(self):
        return (self.FUNCTIONS[self.name],)


def test_the_code_of_what_a_stage_names_is_in_its_key():
    keys = []
    for source in ("lambda x: 2 * x", "lambda x: 2 * x", "lambda x: x + x"):
        Scaled.FUNCTIONS["double"] = eval(source, {"__name__": "a_session"})
        keys.append(Scaled(1).key)
    assert keys[0] == keys[1] != keys[2]


def test_walks(run):
    assert [one.label for one in closure([LAST]) if isinstance(one, Number)] == [
        "first",
        "left",
        "right",
        "last",
    ]
    assert [one.label for one in run.missing([LAST])] == ["first", "left", "right", "last"]
    assert list(run.root.iterdir()) == []
    run.get(LEFT)
    assert [one.label for one in run.missing([LAST, RIGHT])] == ["right", "last"]
    run.get(LAST)
    assert run.missing([LAST]) == []


def test_a_cost_is_of_the_whole_closure_each_stage_once(run):
    run.get(LAST)
    for number, stage in enumerate((FIRST, LEFT, RIGHT, LAST)):
        file = run.folder(stage) / "done.json"
        assert run.own_cost(stage) == Cost(run.summary(stage)["cost"][0], 0)
        finish(file.parent, {"cost": [10.0**number, 2**number]})
    assert run.cost([LAST]) == Cost(1111.0, 15)
    assert run.cost([LEFT]) == Cost(11.0, 3)
    assert run.cost([LEFT, RIGHT]) == Cost(111.0, 7)
    assert run.cost([Number(99)]) == Cost()


@pytest.mark.parametrize("harmed", ["first", "left"])
def test_a_damaged_file_is_computed_again_and_nothing_else(run, monkeypatch, harmed):
    run.get(LAST)
    stage = {"first": FIRST, "left": LEFT}[harmed]
    (run.folder(stage) / "value.json").write_text("7")
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    COMPUTED.clear()
    again = Run(run.root, run.models)
    assert [again.get(one) for one in (LAST, LEFT, FIRST)] == [20, 3, 1]
    assert [harmed] == COMPUTED


@dataclass(frozen=True)
class Summed(Number):
    """A number that is read from the folders of others, as a record is."""

    @property
    def reads(self):
        return self.needs_too

    def load(self, run, folder):
        return sum(read_json(run.folder(one) / "value.json") for one in self.reads)


@pytest.mark.parametrize("name", ["value.json", "done.json", "key.json"])
def test_a_damaged_file_that_another_stage_reads_is_set_aside_and_computed_again(
    run, monkeypatch, caplog, name
):
    total = Summed(0, (FIRST, LEFT), label="sum")
    assert run.get(total) == 1 + 3
    file = run.folder(FIRST) / name
    damaged = file.read_bytes()[:-3]
    file.write_bytes(damaged)
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    COMPUTED.clear()
    again = Run(run.root, run.models)
    assert again.get(total) == 1 + 3
    assert COMPUTED == ["first"]
    assert f"{file} is damaged" in caplog.text
    assert (run.root / "damaged" / f"{FIRST.key}.1" / name).read_bytes() == damaged
    assert again.missing([total]) == []


@dataclass(frozen=True)
class Killed(Number):
    """Its process is killed after it has written a file, but for the second time."""

    def compute(self, run, folder):
        found = super().compute(run, folder)
        marker = run.root / "killed"
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def in_a_process(root, stage):
    process = multiprocessing.get_context("fork").Process(
        target=lambda: Run(root, Models()).get(stage)
    )
    process.start()
    return process


@pytest.mark.filterwarnings("ignore:.*fork")
def test_after_a_kill_only_what_is_missing_is_computed(run):
    last = Number(4, (LEFT, Killed(3, (FIRST,), label="killed")), label="last")
    process = in_a_process(run.root, last)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [one.label for one in run.missing([last])] == ["killed", "last"]
    assert run.get(last) == 4 + 3 + 4
    assert COMPUTED == ["killed", "last"]


@dataclass(frozen=True)
class Slow(Number):
    """Says in a file how often it was computed."""

    def compute(self, run, folder):
        time.sleep(0.3)
        with (run.root / "computed").open("a") as file:
            file.write("x")
        return super().compute(run, folder)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_two_processes_wait_for_each_other(run):
    both = [in_a_process(run.root, Slow(5)) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert run.get(Slow(5)) == 5
    assert (run.root / "computed").read_text() == "x"


def test_few_values_are_held_in_memory(run, monkeypatch):
    monkeypatch.setattr("ceil_jax.pipeline.stage._IN_MEMORY", 2)
    for value in range(4):
        run.get(Number(value))
    assert list(run._values) == [Number(2).key, Number(3).key]
    assert run.get(Number(0)) == 0
    assert len(COMPUTED) == 4


@dataclass(frozen=True)
class OneToken(Number):
    """Would read a token, unless the stage before it is on disk."""

    def estimate(self, run):
        return Work(read=0.0 if run.summary(self.needs_too[0]) else 1.0)


def test_a_stage_is_estimated_once_for_each_folder(run):
    stage = OneToken(5, (FIRST,))
    run.get(FIRST)
    elsewhere = Run(run.root / "nothing", run.models)
    assert [one.estimate(stage).read for one in (run, elsewhere, run)] == [0, 1, 0]
    again = Run(run.root, run.models)
    assert again.estimate(stage) is run.estimate(stage)
