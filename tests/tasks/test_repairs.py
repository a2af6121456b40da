"""The task of repairs: every part of a query is in the bank, and no two of them in one example."""

import hashlib
import itertools
import re

from ceil_jax import load_task
from ceil_jax.store.hashing import canonical
from ceil_jax.tasks.families.repairs import SEED, is_held_out, repairs
from ceil_jax.tasks.structures import bracketed, structure_parser_of


def parts(row):
    return re.findall(r"\w+\(\w+\)", row["call"])


def test_the_bank_has_every_part_of_a_query_and_no_two_of_them_together():
    rows = repairs()
    assert [len(rows[split]) for split in ("train", "validation")] == [600, 300]
    known = {part for row in rows["train"] for part in parts(row)}
    pairs = {pair for row in rows["train"] for pair in itertools.combinations(parts(row), 2)}
    for row in rows["validation"]:
        assert len(parts(row)) == 3
        assert known.issuperset(parts(row))
        assert pairs.isdisjoint(itertools.combinations(parts(row), 2))


def test_a_call_has_the_words_of_its_request():
    for row in repairs()["validation"]:
        words = re.findall(r"\w+", row["request"])
        assert all(part.partition("(")[0] in words for part in parts(row))


def test_about_one_pair_in_three_is_held_out():
    held_out = [is_held_out(SEED, str(one), str(other)) for one in range(40) for other in range(40)]
    assert 0.28 < sum(held_out) / len(held_out) < 0.38


def test_it_is_the_same_task_on_every_machine():
    digest = hashlib.sha256(canonical(repairs()).encode()).hexdigest()
    assert digest[:16] == "f3e8a7669c6b7e1b"


def test_it_loads_by_name_as_a_task_of_programs():
    task = load_task("repairs", limit=20, bank_limit=200)
    assert (len(task.train), len(task.validation), task.metric) == (200, 20, "exact_match")
    assert structure_parser_of(task.train) is bracketed
