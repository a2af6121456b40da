"""Each prompt is read once, whoever asks, whatever is killed or damaged."""

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, TinyLM, readings_file
from ceil_jax.lm.cached import CachedLM
from ceil_jax.lm.on_access import OnAccess
from ceil_jax.lm.readings import FILE, Readings
from ceil_jax.lm.request import LMRequest, Reading
from ceil_jax.store.cost import Cost

PROMPTS = [f"film {i % 7} was number{i}" for i in range(10)]
CHOICES = [(" bad", " good fun")] * len(PROMPTS)
MANY = [tuple(f" {i}" for i in range(300))] * len(PROMPTS)
"""Choices enough to fill pages."""
OTHER = "readings-other.sqlite"
"""A file beside, which is copied in."""
CHUNK = 4
SMALL_CHUNKS = {"score": CHUNK, "write": CHUNK, "states": CHUNK}


class Counted(TinyLM):
    """Remembers its prompts; may be killed, or stopped, at a call."""

    def __init__(self, stop_at=None, dies=False):
        super().__init__()
        self.asked = []
        self.calls = 0
        self.stop_at = stop_at
        self.dies = dies

    def _met(self, prompts):
        self.calls += 1
        if self.calls == self.stop_at:
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt
        self.asked += prompts

    def choice_log_likelihood(self, prompts, choices, **how):
        self._met(prompts)
        return super().choice_log_likelihood(prompts, choices, **how)

    def write(self, prompts, *rest):
        self._met(prompts)
        return super().write(prompts, *rest)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LanguageModel, "at_once", SMALL_CHUNKS)


forks = pytest.mark.filterwarnings(
    "ignore:os.fork", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""jax warns of threads when a process forks; the child here only writes a file and is killed."""


def opened(folder, lm=None, **how):
    """A CachedLM and the LM below it."""
    lm = lm or Counted()
    return CachedLM(lm, Readings(folder), **how), lm


def scores(read):
    return np.array(read.choice_log_likelihood(PROMPTS, CHOICES))


def plain():
    return np.array(TinyLM().choice_log_likelihood(PROMPTS, CHOICES))


def test_each_prompt_is_read_once(tmp_path):
    first, lm = opened(tmp_path)
    assert (scores(first) == plain()).all()
    assert lm.asked == PROMPTS
    second, other = opened(tmp_path)
    assert (scores(second) == plain()).all()
    assert other.asked == []
    assert (second.choose(PROMPTS, CHOICES) == plain().argmax(axis=1)).all()
    assert other.asked == []
    # one of the choices alone is another request; a prompt that stands twice is not
    twice = second.log_likelihood([*PROMPTS[:2], *PROMPTS[:2]], [" bad"] * 4)
    assert other.asked == PROMPTS[:2]
    assert (twice == np.tile(plain()[:2, 0], 2)).all()


@pytest.mark.parametrize("options", ["good", []])
def test_choices_are_checked_as_by_any_lm(tmp_path, options):
    read, lm = opened(tmp_path)
    for one in (read, lm):
        with pytest.raises(
            UserError, match=r"prompt 1 has choices .*; give a list of at least one string"
        ):
            one.choice_log_likelihood(["x", "y"], [[" a"], options])
    assert not (tmp_path / FILE).exists()


def in_a_process(folder, stop_at=None, dies=True):
    """Read the prompts in an interpreter of its own: a fork would take over the threads of all
    libraries that other tests have loaded, and may crash in them."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        f"import test_readings; test_readings.reads({str(folder)!r}, {stop_at}, {dies})"
    )
    return subprocess.Popen([sys.executable, "-c", program])


def reads(folder, stop_at, dies):
    """Read the prompts in small chunks, as the tests do."""
    LanguageModel.at_once = SMALL_CHUNKS
    scores(opened(Path(folder), Counted(stop_at, dies))[0])


def test_a_process_that_is_killed_loses_its_chunk_alone(tmp_path):
    process = in_a_process(tmp_path, stop_at=3)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == PROMPTS[2 * CHUNK :]


def test_two_processes_at_once_share_a_file(tmp_path):
    both = [in_a_process(tmp_path) for _ in range(2)]
    for process in both:
        process.wait()
    assert [process.returncode for process in both] == [0, 0]
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == []


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 0.5},
        {"temperature": 0.5, "seed": 1},
        {"max_new_tokens": 3},
        {"stop": ("film",)},
        {"name": "another LM"},
    ],
)
def test_all_that_decides_a_text_is_in_its_key(tmp_path, how):
    settings = {"max_new_tokens": 2, "stop": ("\n",), "temperature": 0.0, "seed": 0}
    first, lm = opened(tmp_path)
    first.generate(PROMPTS[:2], **settings)
    if how.get("seed"):
        first.generate(PROMPTS[:2], **settings | {"temperature": 0.5})
    lm.asked.clear()
    first.name = how.pop("name", first.name)
    found = first.generate(PROMPTS[:2], **settings | how)
    assert lm.asked == PROMPTS[:2]
    assert found == TinyLM().generate(PROMPTS[:2], **settings | how)


@pytest.mark.parametrize("kept", [0, 3])
def test_prompts_are_made_once_and_a_block_at_a_time(tmp_path, monkeypatch, kept):
    monkeypatch.setattr("ceil_jax.lm.cached.BLOCK", CHUNK)
    if kept:
        opened(tmp_path)[0].choice_log_likelihood(PROMPTS[:kept], CHOICES[:kept])
    read, lm = opened(tmp_path)
    made = []
    ahead = []

    def prompt(number):
        made.append(number)
        ahead.append(len(made) - kept - len(lm.asked))
        return PROMPTS[number]

    found = read.choice_log_likelihood(OnAccess(len(PROMPTS), prompt), CHOICES)
    assert (np.array(found) == plain()).all()
    assert made == list(range(len(PROMPTS)))
    assert max(ahead) <= CHUNK
    assert lm.asked == PROMPTS[kept:]


def test_a_seed_is_no_part_of_a_greedy_text(tmp_path):
    read, lm = opened(tmp_path)
    assert read.generate(PROMPTS, 2) == read.generate(PROMPTS, 2, seed=5)
    assert lm.asked == PROMPTS
    assert [len(set(read.generate(PROMPTS[:1] * 3, 4, temperature=1.5, seed=[0, 1, 1])))] == [2]


def test_scores_per_token_are_readings_of_their_own(tmp_path):
    read, _ = opened(tmp_path)
    total, mean = (
        read.choice_log_likelihood(PROMPTS, CHOICES, per_token=p)[0] for p in (False, True)
    )
    assert mean == pytest.approx(total / [1, 2])


def test_a_meter_counts_distinct_readings_old_and_new(tmp_path):
    read, lm = opened(tmp_path)
    with read.metered("first") as first:
        read.choice_log_likelihood(PROMPTS[:6], CHOICES[:6])
    assert (first.requests, first.cost, first.now.tokens) == (6, first.now, lm.tokens_read)
    with read.metered() as all_of_them, read.metered() as inner:
        scores(read)
        scores(read)
    assert all_of_them.requests == inner.requests == 10
    assert all_of_them.cost.tokens == lm.tokens_read == first.cost.tokens + all_of_them.now.tokens
    again, other = opened(tmp_path)
    with again.metered() as meter:
        scores(again)
    assert (meter.cost.tokens, meter.now, other.tokens_read) == (lm.tokens_read, Cost(), 0)
    asked = [
        LMRequest(prompt, tuple(choices)) for prompt, choices in zip(PROMPTS, CHOICES, strict=True)
    ]
    assert again.missing(asked) == 0
    assert again.missing([*asked, LMRequest("new", (" a",))]) == 1


@pytest.mark.parametrize(
    "change", ["value = '[0.0, 0.0]'", "value = CAST(x'ff' AS TEXT)", "tokens = 999"]
)
def test_a_damaged_reading_is_read_again(tmp_path, caplog, change):
    first, _ = opened(tmp_path)
    scores(first)
    key = LMRequest(PROMPTS[3], CHOICES[3]).key("tiny")
    with sqlite3.connect(tmp_path / FILE) as file:
        assert file.execute(f"UPDATE readings SET {change} WHERE key = ?", (key,)).rowcount == 1
    file.close()
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == [PROMPTS[3]]
    assert "a cached LM output is damaged" in caplog.text
    assert (scores(opened(tmp_path)[0]) == plain()).all()


@pytest.mark.parametrize("name", [FILE, OTHER])
def test_a_file_that_is_none_is_set_aside_and_told(tmp_path, caplog, name):
    (tmp_path / name).write_bytes(b"not a database" * 1000)
    (tmp_path / f"{name}-wal").write_bytes(b"left behind" * 1000)
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == PROMPTS
    assert f"{tmp_path / name} is damaged" in caplog.text
    aside = (tmp_path / name).with_suffix(".damaged-1")
    assert aside.read_bytes().startswith(b"not a database")
    assert (scores(opened(tmp_path)[0]) == plain()).all()


def damage(file, first=1):
    """Overwrite a part of each page of a database from a page on."""
    content = bytearray(file.read_bytes())
    for place in range(first * 4096, len(content), 4096):
        content[place : place + 200] = b"\xff" * 200
    file.write_bytes(content)


def readings_of(first, last):
    """Readings enough to fill pages, by key."""
    return {
        LMRequest(f"p{i}", ("a", "b")).key("x"): Reading([float(i), 1.0], Cost(0.1, 5))
        for i in range(first, last)
    }


def fill(folder, first, last):
    Readings(folder).keep(readings_of(first, last))


def fill_beside(folder, first, last, name):
    """Put readings into a file that is copied in."""
    fill(folder / "elsewhere", first, last)
    (folder / "elsewhere" / FILE).rename(folder / name)


def found_in(folder, first=0, last=3000):
    return Readings(folder).find(list(readings_of(first, last)))


def names(folder):
    return {file.name for file in folder.glob("readings*")}


def test_what_a_user_saved_from_a_damaged_file_is_copied_in(tmp_path, caplog):
    fill(tmp_path, 0, 30)
    damage(tmp_path / FILE)
    fill(tmp_path, 50, 60)
    [line] = caplog.messages
    assert "\n" not in line
    aside, saved = re.search(r"sqlite3 (\S+) \.recover \| sqlite3 (\S+)$", line).groups()
    assert Path(aside) == tmp_path / "readings.damaged-1"
    # as `.recover` does: the same table, a further one, and rows of which one is damaged
    fill(tmp_path / "source", 0, 20)
    shutil.copy(tmp_path / "source" / FILE, saved)
    with sqlite3.connect(saved) as file:
        file.execute("CREATE TABLE lost_and_found (rootpgno, pgno, nfield, id, c0)")
        key = LMRequest("p3", ("a", "b")).key("x")
        file.execute("UPDATE readings SET value = '[9.0, 9.0]' WHERE key = ?", (key,))
    file.close()
    expected = readings_of(0, 20) | readings_of(50, 60)
    del expected[key]
    assert found_in(tmp_path) == expected


def test_files_beside_a_damaged_one_are_not_blamed(tmp_path):
    fill(tmp_path, 0, 600)
    for number in (1, 2):
        fill_beside(tmp_path, 300 + 300 * number, 600 + 300 * number, f"readings-{number}.sqlite")
    before = {file.name: file.read_bytes() for file in tmp_path.glob("readings-*.sqlite")}
    damage(tmp_path / FILE)
    assert found_in(tmp_path) == readings_of(600, 1200)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert names(tmp_path) == {FILE, "readings.damaged-1", *before}


def test_keys_out_of_order_are_met_before_rows_are_copied_in(tmp_path, caplog):
    fill(tmp_path, 0, 300)
    for number in (1, 2):
        fill_beside(tmp_path, 300 * number, 300 + 300 * number, f"readings-{number}.sqlite")
    # SQLite reads such a page without a word, and searches it as if it were in order
    key = sorted(readings_of(0, 300))[150]
    content = (tmp_path / FILE).read_bytes()
    assert content.count(key) == 1
    (tmp_path / FILE).write_bytes(content.replace(key, bytes(16)))
    assert found_in(tmp_path) == readings_of(300, 900)
    assert f"{tmp_path / FILE} is damaged" in caplog.text
    fill(tmp_path, 0, 300)
    assert found_in(tmp_path) == readings_of(0, 900)


def header(place, byte):
    """Damage to one byte of the first page."""

    def harm(content):
        content[place] = byte

    return harm


def table(old, new):
    """Damage to the text of the schema."""

    def harm(content):
        place = content.index(old)
        content[place : place + len(old)] = new

    return harm


def no_header(content):
    content[:100] = bytes(100)


def half(content):
    del content[len(content) // 2 + 1000 :]


def stump(content):
    del content[100:]


@pytest.mark.parametrize(
    "harm",
    [
        no_header,
        half,
        stump,
        header(16, 0),  # the size of a page
        header(18, 3),  # the format of writing, which makes it read-only
        header(19, 3),  # the format of reading
        header(28, 255),  # the number of pages, too high
        header(47, 9),  # the format of the schema
        header(59, 2),  # UTF-16
        header(104, 0),  # the number of tables
        table(b"TABLE readings", b"TABLE seadings"),
        table(b"WITHOUT ROWID", b"WITHOUT ROWIE"),
        table(b"PRIMARY KEY", b"PRIMARY K\xc5Y"),  # quoted in the error
    ],
)
@pytest.mark.parametrize("name", [FILE, OTHER])
def test_a_damaged_file_is_begun_anew(tmp_path, caplog, name, harm):
    fill(tmp_path, 0, 600)
    fill_beside(tmp_path, 600, 1200, OTHER)
    content = bytearray((tmp_path / name).read_bytes())
    harm(content)
    (tmp_path / name).write_bytes(content)
    fill(tmp_path, 2000, 2001)
    whole = readings_of(600, 1200) if name == FILE else readings_of(0, 600)
    assert found_in(tmp_path) == whole | readings_of(2000, 2001)
    assert f"{tmp_path / name} is damaged" in caplog.text
    aside = (tmp_path / name).with_suffix(".damaged-1")
    assert aside.read_bytes() == content
    assert names(tmp_path) == {FILE, OTHER, aside.name}


@forks
def test_a_flipped_bit_gives_no_other_reading_and_loses_one_or_is_told(tmp_path, caplog):
    """A killed process leaves its readings in the one file, which has no log behind it."""
    if not (child := os.fork()):
        for start in range(0, 400, 20):
            fill(tmp_path, start, start + 20)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert names(tmp_path) == {FILE}
    whole = (tmp_path / FILE).read_bytes()
    expected = readings_of(0, 400)
    assert found_in(tmp_path) == expected
    draw = random.Random(0)
    for number in range(60):
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / FILE).write_bytes(content)
        caplog.clear()
        found = found_in(folder)
        assert found.items() <= expected.items()
        assert len(found) >= 399 or caplog.messages
        shutil.rmtree(folder)


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"noise" * 1000])
def test_what_lies_beside_a_file_as_a_log_gives_no_other_reading(tmp_path, ending, content):
    fill(tmp_path, 0, 600)
    fill_beside(tmp_path, 600, 900, OTHER)
    (tmp_path / f"{FILE}{ending}").write_bytes(content)
    found = found_in(tmp_path)
    assert found.items() <= readings_of(0, 900).items()
    assert found.items() >= readings_of(600, 900).items()
    fill(tmp_path, 0, 900)
    assert found_in(tmp_path) == readings_of(0, 900)


@forks
def test_a_file_of_an_earlier_version_with_its_log_is_read(tmp_path):
    fill(tmp_path, 0, 300)
    if not (child := os.fork()):
        connection = sqlite3.connect(tmp_path / FILE)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE readings SET checksum = checksum")
        connection.commit()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert names(tmp_path) == {FILE, f"{FILE}-wal", f"{FILE}-shm"}
    assert found_in(tmp_path) == readings_of(0, 300)
    assert names(tmp_path) == {FILE}


def test_a_process_that_uses_a_damaged_file_leaves_the_new_one_alone(tmp_path):
    fill(tmp_path, 0, 3000)
    first, second, writer = (Readings(tmp_path) for _ in range(3))
    old = list(readings_of(0, 3000))
    for readings in (first, second):
        readings.find(old[:0])  # both have checked it
    damage(tmp_path / FILE)
    first.find(old)
    new = readings_of(5000, 5100)
    writer.keep(dict(list(new.items())[:50]))
    second.find(old)
    writer.keep(dict(list(new.items())[50:]))
    second.keep(readings_of(6000, 6001))
    assert found_in(tmp_path, 0, 6001) == new | readings_of(6000, 6001)
    assert names(tmp_path) == {FILE, "readings.damaged-1"}


def test_a_file_that_is_removed_while_it_is_used_is_made_anew(tmp_path):
    readings = Readings(tmp_path)
    readings.keep(readings_of(0, 10))
    for file in tmp_path.iterdir():
        file.unlink()
    readings.keep(readings_of(10, 20))
    assert found_in(tmp_path) == readings_of(10, 20)


def test_each_damaged_file_keeps_a_name_of_its_own(tmp_path):
    for number in (1, 2):
        (tmp_path / FILE).write_bytes(f"no database {number}".encode() * 1000)
        fill(tmp_path, 0, 1)
    for number in (1, 2):
        aside = (tmp_path / f"readings.damaged-{number}").read_bytes()
        assert aside.startswith(f"no database {number}".encode())


def test_a_full_disk_is_one_line_and_keeps_what_was_read(tmp_path, monkeypatch):
    read, lm = opened(tmp_path)
    read.choice_log_likelihood(PROMPTS[:4], CHOICES[:4])
    connected = readings_file._connected

    @contextmanager
    def full(path):
        with connected(path) as connection:
            [[pages]] = connection.execute("PRAGMA page_count")
            connection.execute(f"PRAGMA max_page_count={pages}")
            yield connection

    with monkeypatch.context() as patch:
        patch.setattr(readings_file, "_connected", full)
        with pytest.raises(
            UserError, match=r"disk is full; free some disk space .* run the same command again"
        ):
            read.choice_log_likelihood(PROMPTS, MANY)
    lm.asked.clear()
    assert (scores(read) == plain()).all()
    assert lm.asked == PROMPTS[4:]


def test_a_long_prompt_costs_more_than_a_short_one_beside_it(tmp_path):
    read, lm = opened(tmp_path)
    prompts = ["a", "a b c d e f g h i j k l m n o p q r s t"]
    read.choice_log_likelihood(prompts, [(" x",)] * 2)
    costs = []
    for prompt in prompts:
        with read.metered() as meter:
            read.choice_log_likelihood([prompt], [(" x",)])
        costs.append(meter.cost.tokens)
    assert sum(costs) == lm.tokens_read
    assert 5 * costs[0] < costs[1]
