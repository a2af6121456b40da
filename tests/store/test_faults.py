"""Killed, crowded out, out of room or damaged: the same final files, byte for byte."""

import random
import shutil
import threading
from pathlib import Path

import pytest
from faults import Server, differing, files, in_order


@pytest.fixture(scope="module")
def server():
    server = Server(hash_seed=1)
    yield server
    server.close()


@pytest.fixture(scope="module")
def undisturbed(server, tmp_path_factory):
    """A whole run's folder, files and events."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    ran = server.run(out)
    assert ran["status"] == 0, Path(f"{out}.log").read_text()
    return out, files(out), ran["events"]


def finish(server, out: Path) -> str:
    """Run what is left; what was said."""
    log = Path(f"{out}.log")
    log.unlink(missing_ok=True)
    ran = server.run(out)
    assert ran["status"] == 0, log.read_text()
    return log.read_text()


@pytest.mark.parametrize("kind", ["scores", "epr", "ceil", "predictions"])
def test_a_run_killed_twice_ends_with_the_same_files(server, undisturbed, tmp_path, kind):
    """SIGKILL at a seeded event of one kind of stage, then a moment after another, so that C++ is cut short too."""
    _, whole, events = undisturbed
    draw, out = random.Random(kind), tmp_path / "runs"
    own = [number for number, event in enumerate(events, 1) if event.split()[1].startswith(f"{kind}-")]
    killed = server.run(out, kill=draw.choice(own))
    assert killed["status"] == -9 and killed["events"][-1].split()[1].startswith(f"{kind}-")
    again = server.run(out, kill=draw.randint(1, 40), delay=draw.uniform(0.001, 0.02))
    assert again["status"] in (-9, 0), Path(f"{out}.log").read_text()
    finish(server, out)
    assert differing(files(out), whole) == []


def test_fresh_processes_agree_to_the_last_byte(undisturbed, tmp_path):
    other = Server(hash_seed=2)
    try:
        finish(other, tmp_path / "runs")
    finally:
        other.close()
    assert differing(files(tmp_path / "runs"), undisturbed[1]) == []


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


DAMAGE = [
    # (pattern, which of the files, harm); one file a stage, for a stage names the first it finds
    ("scores-*/rows.jsonl", 0, flip),
    ("predictions-*/rows.jsonl", 0, flip),
    ("vectors-*/vectors.npy", 0, flip),
    ("vectors-*/done.json", 1, flip),
    ("ceil-*/query/model.safetensors", 0, flip),
    ("epr-*/encoder/*.json", 0, flip),
    ("metrics-*/scores.npy", 0, flip),
    ("metrics-*/done.json", 1, lambda file: file.write_text(file.read_text()[:20])),
    ("texts-*/texts.json", 0, flip),
    ("run-*/key.json", 0, lambda file: file.write_text("{not json")),
    ("run-*/done.json", 1, lambda file: file.write_text("")),
]


def test_damaged_files_are_said_and_computed_again(server, undisturbed, tmp_path):
    """All kinds in one folder and one run, which computes again what it must."""
    out = tmp_path / "runs"
    shutil.copytree(undisturbed[0], out)
    harmed = []
    for pattern, place, harm in DAMAGE:
        file = sorted(out.glob(pattern))[place]
        harm(file)
        harmed.append(file)
    said = finish(server, out)
    quiet = [str(f) for f in harmed if f"{f} is damaged" not in said and f"{f}: 1 damaged" not in said]
    assert quiet == []
    assert differing(in_order(files(out)), in_order(undisturbed[1])) == []


def last_event(events: list[str], pattern: str) -> int:
    """The number, from 1, of the last event of that path."""
    return max(i for i, event in enumerate(events, 1) if pattern in event)


@pytest.mark.parametrize("what", ["checkpoint", "history", "checksums"])
def test_damage_in_the_middle_of_training(server, undisturbed, tmp_path, what):
    out = tmp_path / "runs"
    ran = server.run(out, kill=last_event(undisturbed[2], "/scratch/history.jsonl"))
    assert ran["status"] == -9
    [scratch] = out.glob("*/scratch")
    if what == "checkpoint":
        largest = max(
            (f for f in scratch.glob("checkpoints/[0-9]*/**/*") if f.is_file()),
            key=lambda f: f.stat().st_size,
        )
        flip(largest)
    else:
        name = "history.jsonl" if what == "history" else "checkpoints.jsonl"
        lines = (scratch / name).read_text().splitlines(keepends=True)
        lines[1] = lines[1].replace(":", ";", 1)
        (scratch / name).write_text("".join(lines))
    said = finish(server, out)
    assert "damaged" in said
    assert differing(files(out), undisturbed[1]) == []


@pytest.mark.parametrize("largest", [3_000, 60_000], ids=["rows", "weights"])
def test_without_room_one_line_and_the_rest_later(server, undisturbed, tmp_path, largest):
    """No file may be larger than that: what a full disk does, wherever it is met, from Python or from C++."""
    out = tmp_path / "runs"
    ran = server.run(out, largest=largest)
    said = Path(f"{out}.log").read_text()
    assert ran["status"] == 2, said
    assert "Traceback" not in said  # Orbax's threads would print theirs
    last = said.splitlines()[-1]
    assert last.startswith("ceil-jax: cannot write to ") and last.endswith("run the same command again")
    finish(server, out)
    assert differing(files(out), undisturbed[1]) == []


def test_two_processes_share_one_folder(undisturbed, server, tmp_path):
    """The second waits where the first is at work, says so, and both end with the same files."""
    out = tmp_path / "runs"
    other = Server(hash_seed=3)
    second = threading.Thread(target=other.run, args=(out,))
    try:
        second.start()
        finish(server, out)
        second.join()
    finally:
        other.close()
    assert differing(files(out), undisturbed[1]) == []
