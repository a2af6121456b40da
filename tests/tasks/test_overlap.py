"""Queries that are also in the bank, and queries that are the same question."""

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.words import overlap


def examples(*pairs):
    return [Example(str(i), *pair) for i, pair in enumerate(pairs)]


BANK = examples(("Which river is longest?", "a"), ("how big is m0", "b"))


def test_questions_and_outputs_that_stand_in_the_bank():
    asked = (
        ("Which river\tis longest? ", "A"),
        ("How big is m0", "b"),
        ("Which river is longest?", "c"),
    )
    found = overlap(examples(*asked), BANK)
    assert found.question.tolist() == [0, 1, 0]
    assert found.question_in_bank.tolist() == [True, False, True]
    assert found.output_in_bank.tolist() == [False, True, False]
    assert {name: where.tolist() for name, where in found.parts().items()} == {
        "question in the bank (2)": [True, False, True],
        "question not in the bank (1)": [False, True, False],
        "output in the bank (1)": [False, True, False],
        "output not in the bank (2)": [True, False, True],
    }


def test_a_task_without_queries_in_its_bank_has_no_parts():
    assert not overlap(examples(("what is m0", "z")), BANK).parts()
    assert not overlap(examples(("how big is m0", "b")), BANK).parts()
