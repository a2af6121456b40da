"""The split into the bank, the rows that are raced on, and the final rows."""

from refusing import refused

from ceil_jax.tasks.draws import draw
from ceil_jax.tasks.example import Example, Task, Template
from ceil_jax.tuning.rows import split_rows


def task(count, per_customer, group="customer"):
    rows = [
        Example(f"{i}", f"call {i}", "ab"[i % 2], fields={"customer": f"C{i // per_customer}"})
        for i in range(count)
    ]
    held_out = count // 5
    return Task(
        "calls",
        rows[held_out:],
        rows[:held_out],
        Template("{input} {output}"),
        "exact_match",
        group=group,
    )


def test_the_rows_of_one_group_are_raced_on_or_in_the_bank():
    whole = task(300, per_customer=6)
    rest, raced, _ = split_rows(whole, 50, None, seed=3)
    assert len(raced) == 50
    customers = [{row.fields["customer"] for row in side} for side in (raced, rest.train)]
    assert not customers[0] & customers[1]
    # what the last group has beyond the 50 rows is on neither side
    assert len(rest.train) == 240 - 54
    with refused("the rows of one 'customer' stay together, which leaves 0 for the bank"):
        split_rows(task(300, per_customer=400), 50, None, seed=3)


def test_without_groups_rows_are_drawn_as_any_sample():
    whole = task(300, per_customer=6, group="")
    rest, raced, _ = split_rows(whole, 50, None, seed=3)
    drawn = {row.id for row in draw(whole.train, 50, 3 + 1)}
    assert {row.id for row in raced} == drawn
    assert [row.id for row in rest.train] == [r.id for r in whole.train if r.id not in drawn]
