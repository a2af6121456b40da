"""Each prompt is read once, whoever asks, whatever is killed or damaged."""

import multiprocessing
import os
import signal
import sqlite3

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import LanguageModel, TinyLM
from ceil_jax.lm.readings import FILE, LMRequest, Readings, ReadLM
from ceil_jax.store.cost import Cost
from ceil_jax.store.shards import Shard

PROMPTS = [f"film {i % 7} was number{i}" for i in range(10)]
CHOICES = [(" bad", " good fun")] * len(PROMPTS)
MANY = [tuple(f" {i}" for i in range(300))] * len(PROMPTS)
"""Choices enough to fill pages."""
CHUNK = 4


class Counted(TinyLM):
    """Remembers its prompts; may be killed, or stopped, at a call."""

    def __init__(self, stop_at=None, dies=False):
        super().__init__()
        self.asked, self.calls, self.stop_at, self.dies = [], 0, stop_at, dies

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

    def generate(self, prompts, *rest, **how):
        self._met(prompts)
        return super().generate(prompts, *rest, **how)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LanguageModel, "at_once", {"score": CHUNK, "write": CHUNK})


def opened(folder, lm=None, **how):
    """A ReadLM and the LM below it."""
    lm = lm or Counted()
    return ReadLM(lm, Readings(folder, how.get("shard")), **how), lm


def scores(read):
    return np.array(read.choice_log_likelihood(PROMPTS, CHOICES))


def plain():
    return np.array(TinyLM().choice_log_likelihood(PROMPTS, CHOICES))


def test_each_prompt_is_read_once(tmp_path):
    first, lm = opened(tmp_path)
    assert (scores(first) == plain()).all()
    assert lm.asked == PROMPTS
    second, other = opened(tmp_path)
    assert (scores(second) == plain()).all() and other.asked == []
    assert (second.choose(PROMPTS, CHOICES) == plain().argmax(axis=1)).all() and other.asked == []
    # one of the choices alone is another request; a prompt that stands twice is not
    twice = second.log_likelihood([*PROMPTS[:2], *PROMPTS[:2]], [" bad"] * 4)
    assert other.asked == PROMPTS[:2] and (twice == np.tile(plain()[:2, 0], 2)).all()


@pytest.mark.parametrize("options", ["good", []])
def test_choices_are_checked_as_by_any_lm(tmp_path, options):
    read, lm = opened(tmp_path)
    for one in (read, lm):
        with pytest.raises(
            UserError, match=r"prompt 1 has choices .*; give a list of at least one string"
        ):
            one.choice_log_likelihood(["x", "y"], [[" a"], options])
    assert not (tmp_path / FILE).exists()


def _reads(folder, stop_at, dies):
    scores(opened(folder, Counted(stop_at, dies))[0])


def in_a_process(folder, stop_at=None, dies=True):
    process = multiprocessing.get_context("fork").Process(
        target=_reads, args=(folder, stop_at, dies)
    )
    process.start()
    return process


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_process_that_is_killed_loses_its_chunk_alone(tmp_path):
    process = in_a_process(tmp_path, stop_at=3)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == PROMPTS[2 * CHUNK :]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_two_processes_at_once_share_a_file(tmp_path):
    both = [in_a_process(tmp_path) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all() and lm.asked == []


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
    assert again.missing(asked) == 0 and again.missing([*asked, LMRequest("new", (" a",))]) == 1


@pytest.mark.parametrize(
    "change", ["value = '[0.0, 0.0]'", "value = CAST(x'ff' AS TEXT)", "tokens = 999"]
)
def test_a_damaged_reading_is_read_again(tmp_path, caplog, change):
    first, _ = opened(tmp_path)
    scores(first)
    first.readings.close()
    key = LMRequest(PROMPTS[3], CHOICES[3]).key("tiny")
    with sqlite3.connect(tmp_path / FILE) as file:
        assert file.execute(f"UPDATE readings SET {change} WHERE key = ?", (key,)).rowcount == 1
    file.close()
    read, lm = opened(tmp_path)
    assert (scores(read) == plain()).all()
    assert lm.asked == [PROMPTS[3]] and "a damaged reading" in caplog.text
    assert (scores(opened(tmp_path)[0]) == plain()).all()


@pytest.mark.parametrize("name", [FILE, "readings-1-of-2.sqlite"])
def test_a_file_that_is_none_is_set_aside(tmp_path, name):
    (tmp_path / name).write_bytes(b"not a database" * 1000)
    (tmp_path / f"{name}-wal").write_bytes(b"left behind" * 1000)
    read, lm = opened(tmp_path)
    with pytest.raises(UserError, match=rf"{name} is damaged .* run the same command again"):
        scores(read)
    assert (scores(read) == plain()).all() and lm.asked == PROMPTS
    assert (tmp_path / name).with_suffix(".damaged").exists()


def test_a_file_damaged_inside_is_one_line_and_then_read_anew(tmp_path):
    read, _ = opened(tmp_path)
    read.choice_log_likelihood(PROMPTS, MANY)
    read.readings.close()
    content = bytearray((tmp_path / FILE).read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(
        UserError, match=r"readings.sqlite is damaged .* run the same command again"
    ):
        read.choice_log_likelihood(PROMPTS, MANY)
    assert (scores(read) == plain()).all()


def test_a_full_disk_is_one_line_and_keeps_what_was_read(tmp_path):
    read, lm = opened(tmp_path)
    read.choice_log_likelihood(PROMPTS[:4], CHOICES[:4])
    database = read.readings._database
    [[pages]] = database.execute("PRAGMA page_count")
    database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(UserError, match=r"disk is full; make room .* run the same command again"):
        read.choice_log_likelihood(PROMPTS, MANY)
    lm.asked.clear()
    assert (scores(read) == plain()).all() and lm.asked == PROMPTS[4:]


def test_shards_read_their_own_chunks_which_are_copied_in(tmp_path):
    for number in (2, 1):
        read, lm = opened(tmp_path, shard=Shard(number, 2))
        found = scores(read)
        mine = [i for i in range(10) if i // CHUNK % 2 == number - 1]
        assert lm.asked == [PROMPTS[i] for i in mine]
        assert (found[mine] == plain()[mine]).all()
        assert sorted(i for i in range(10) if not found[i].any()) == sorted(
            set(range(10)) - set(mine)
        )
        assert (tmp_path / f"readings-{number}-of-2.sqlite").exists()
    read, lm = opened(tmp_path)
    with read.metered() as meter:
        assert (scores(read) == plain()).all() and lm.asked == []
    assert meter.cost.tokens == sum(TinyLM().count_tokens(PROMPTS)) + 10 * 3


def test_a_shard_that_was_taken_in_half_done_is_taken_in_again(tmp_path):
    shard = Shard(1, 1)
    with pytest.raises(KeyboardInterrupt):
        scores(opened(tmp_path, Counted(stop_at=2), shard=shard)[0])
    read, lm = opened(tmp_path)
    read.choice_log_likelihood(PROMPTS[:CHUNK], CHOICES[:CHUNK])
    read.readings.close()
    assert lm.asked == []
    going_on, own = opened(tmp_path, shard=shard)
    scores(going_on)
    assert own.asked == PROMPTS[CHUNK:]  # what the shard and the others have read is not read again
    assert (scores(read) == plain()).all() and lm.asked == []


def test_a_long_prompt_costs_more_than_a_short_one_beside_it(tmp_path):
    read, lm = opened(tmp_path)
    prompts = ["a", "a b c d e f g h i j k l m n o p q r s t"]
    read.choice_log_likelihood(prompts, [(" x",)] * 2)
    costs = []
    for prompt in prompts:
        with read.metered() as meter:
            read.choice_log_likelihood([prompt], [(" x",)])
        costs.append(meter.cost.tokens)
    assert sum(costs) == lm.tokens_read and 5 * costs[0] < costs[1]
