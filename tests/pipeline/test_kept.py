"""Keys, and the walks over a graph of lazy values, on a diamond made by hand."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from ceil_jax.pipeline.models import Models
from ceil_jax.pipeline.run import Run
from ceil_jax.store.code import code_digest
from ceil_jax.store.cost import Cost
from ceil_jax.store.folder import finish, read_json
from ceil_jax.store.kept import Files, Noted, Work, closure, json_file, kept

COMPUTED = []
VALUE = json_file("value.json")


def plain(value, needs_too=(), scale=1.0, label="", data=None):
    """A number, and the sum of what it needs."""
    COMPUTED.append(label)
    return Noted(value + sum(needs_too), {"is": label})


def numbers(kind, function=plain, **how):
    how = {"files": VALUE, "unkeyed": ("label",), "work": lambda run, one: Work(one.value)} | how
    return kept(kind, **how)(function)


number = numbers("number")


@kept("held")
def held(value):
    """A value that is never on disk."""
    return 10 * value


FIRST = number(1, label="first")
LEFT = number(2, (FIRST,), label="left")
RIGHT = number(3, (held(FIRST),), label="right")
LAST = number(4, (LEFT, RIGHT), label="last")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr("ceil_jax.store.folder._checked", {})
    COMPUTED.clear()
    return Run(tmp_path, Models())


def test_a_key_is_of_what_a_value_depends_on():
    one = number(1)
    assert one.key == number(1, scale=1.0, label="another").key == FIRST.key
    assert one.key.startswith("number-")
    assert numbers("other")(1).key.startswith("other-")
    ones = np.ones(3)
    others = [
        number(2),
        number(1, scale=2.0),
        number(1, (FIRST,)),
        number(1, (LEFT,)),
        numbers("number", version=2)(1),
        number(1, data=ones),
        number(1, data=ones + 1),
        number(1, data=ones.astype(np.float32)),
    ]
    digests = {lazy.key.rpartition("-")[2] for lazy in [one, *others]}
    assert len(digests) == 1 + len(others)
    assert number(1, (number(2, (number(3),)),)).key != number(1, (number(2, (number(4),)),)).key
    with pytest.raises(TypeError, match="scal"):
        number(1, scal=2.0)


def test_each_value_is_computed_once_needs_first(run):
    # 4 + (2 + 1) + (3 + 10 · 1)
    assert run.get(LAST) == 20
    assert COMPUTED == ["first", "left", "right", "last"]
    assert run.get(LAST) == Run(run.root, run.models).get(LAST) == 20
    assert len(COMPUTED) == 4
    assert run.notes(LAST)["is"] == "last"
    key = read_json(run.folder(LEFT) / "key.json")
    # the function is not of the package, so that its code is a part of the key
    assert key == {"needs_too": [FIRST.key], "value": 2, "code": code_digest(plain)}


def test_what_a_value_was_given_can_be_read_and_changed():
    assert LEFT.needs_too == (FIRST,)
    assert LEFT.changed(needs_too=()) == number(2)
    assert LEFT.is_of(held, number)
    assert not LEFT.is_of(held)
    with pytest.raises(AttributeError, match="another"):
        _ = LEFT.another


def test_the_code_of_what_a_value_names_is_in_its_key():
    functions = {}
    scaled = numbers("scaled", registered=lambda one: (functions["double"],))
    keys = []
    for source in ("lambda x: 2 * x", "lambda x: 2 * x", "lambda x: x + x"):
        functions["double"] = eval(source, {"__name__": "a_session"})
        keys.append(scaled(1).key)
    assert keys[0] == keys[1] != keys[2]


def test_walks(run):
    assert [one.label for one in closure([LAST]) if one.is_of(number)] == [
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
    for i, stage in enumerate((FIRST, LEFT, RIGHT, LAST)):
        file = run.folder(stage) / "done.json"
        assert run.own_cost(stage) == Cost(run.notes(stage)["cost"][0], 0)
        finish(file.parent, {"cost": [10.0**i, 2**i]})
    assert run.cost([LAST]) == Cost(1111.0, 15)
    assert run.cost([LEFT]) == Cost(11.0, 3)
    assert run.cost([LEFT, RIGHT]) == Cost(111.0, 7)
    assert run.cost([number(99)]) == Cost()


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


summed = numbers(
    "summed",
    files=Files(
        lambda folder, value: None,
        lambda run, one, folder: sum(
            read_json(run.folder(other) / "value.json") for other in one.reads
        ),
    ),
    reads=lambda one: one.needs_too,
)
"""A number that is read from the folders of others, as a record is."""


@pytest.mark.parametrize("name", ["value.json", "done.json", "key.json"])
def test_a_damaged_file_that_another_stage_reads_is_set_aside_and_computed_again(
    run, monkeypatch, caplog, name
):
    total = summed(0, (FIRST, LEFT), label="sum")
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


def killed_once(run, folder, value, needs_too=(), label=""):
    """Its process is killed after it has written a file, but for the second time."""
    found = plain(value, needs_too, label=label)
    marker = run.root / "killed"
    if not marker.exists():
        (folder / "half.json").touch()
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
    last = number(
        4, (LEFT, numbers("killed", killed_once)(3, (FIRST,), label="killed")), label="last"
    )
    process = in_a_process(run.root, last)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [one.label for one in run.missing([last])] == ["killed", "last"]
    assert run.get(last) == 4 + 3 + 4
    assert COMPUTED == ["killed", "last"]


def says_how_often(run, value):
    """Says in a file how often it was computed."""
    time.sleep(0.3)
    with (run.root / "computed").open("a") as file:
        file.write("x")
    return value


SLOW = numbers("slow", says_how_often, unkeyed=())(5)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_two_processes_wait_for_each_other(run):
    both = [in_a_process(run.root, SLOW) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert run.get(SLOW) == 5
    assert (run.root / "computed").read_text() == "x"


def test_few_values_are_held_in_memory(run, monkeypatch):
    monkeypatch.setattr("ceil_jax.pipeline.run._IN_MEMORY", 2)
    for value in range(4):
        run.get(number(value))
    assert list(run._values) == [number(2).key, number(3).key]
    assert run.get(number(0)) == 0
    assert len(COMPUTED) == 4


def a_token_unless(run, one):
    return Work(read=0.0 if run.notes(one.needs_too[0]) else 1.0)


def test_a_value_is_estimated_once_for_each_folder(run):
    stage = numbers("token", work=a_token_unless)(5, (FIRST,))
    run.get(FIRST)
    elsewhere = Run(run.root / "nothing", run.models)
    assert [one.estimate(stage).read for one in (run, elsewhere, run)] == [0, 1, 0]
    again = Run(run.root, run.models)
    assert again.estimate(stage) is run.estimate(stage)
