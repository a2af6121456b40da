"""The task of assistant commands: every part of a query is in the bank, and none of its new pairs."""

import hashlib

from ceil_jax import load_task
from ceil_jax.store.hashing import canonical
from ceil_jax.tasks.families.assistant import ACTIONS, FORMS, assistant, is_held_out
from ceil_jax.tasks.structures import bracketed, structure_parser_of

PAIRS = [
    (action.name, form)
    for action in ACTIONS
    for slot in action.slots
    if len(FORMS[slot]) > 1
    for form in FORMS[slot]
]


def test_each_form_and_each_action_is_in_the_bank_in_some_company():
    for form in {form for _, form in PAIRS}:
        assert any(not is_held_out(action, form.name) for action, other in PAIRS if other == form)
    for action in {action for action, _ in PAIRS}:
        assert any(not is_held_out(action, form.name) for name, form in PAIRS if name == action)
    assert any(is_held_out(action, form.name) for action, form in PAIRS)


def test_bank_and_queries_are_of_the_sizes_and_combinations_that_the_page_says():
    rows = assistant()
    assert [len(rows[split]) for split in ("train", "validation")] == [1000, 300]
    bank = {row["call"] for row in rows["train"]}
    assert not bank & {row["call"] for row in rows["validation"]}
    # "invite" with "boss" is a held-out pair, "call" with "boss" is not
    assert is_held_out("invite", "boss")
    assert not is_held_out("call", "boss")
    assert not any(call.startswith("invite(boss(") for call in bank)
    assert any(call.startswith("call(boss(") for call in bank)
    assert any(row["call"].startswith("invite(boss(") for row in rows["validation"])


def test_every_name_of_a_query_is_in_the_bank_and_not_every_edge():
    rows = assistant()
    known = frozenset().union(*(bracketed(row["call"]) for row in rows["train"]))
    new_edges = 0
    for row in rows["validation"]:
        unknown = bracketed(row["call"]) - known
        assert all(">" in structure for structure in unknown)
        new_edges += bool(unknown)
    assert new_edges > 100


def test_it_is_the_same_task_on_every_machine():
    digest = hashlib.sha256(canonical(assistant()).encode()).hexdigest()
    assert digest[:16] == "6f7a770b1672c585"


def test_it_loads_by_name_as_a_task_of_programs():
    task = load_task("assistant", limit=20, bank_limit=200)
    assert (len(task.train), len(task.validation), task.metric) == (200, 20, "exact_match")
    assert structure_parser_of(task.train) is bracketed
