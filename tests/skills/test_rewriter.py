"""Rewriting of inputs as skills: prompts, orders, failed rewrites, and files of demonstrations."""

import numpy as np
import pytest
from refusing import refused

from ceil_jax.lm import TinyLM
from ceil_jax.skills.rewriter import (
    DEMONSTRATIONS,
    INSTRUCTION,
    MAX_NEW_TOKENS,
    Demonstration,
    Rewriter,
    load_demonstrations,
)
from ceil_jax.tasks.example import Example

PAIRS = {"a red car": "colour", "two cars": "number", "my car": "owner"}
SHOWN = [Demonstration(*pair) for pair in PAIRS.items()]


class Writer(TinyLM):
    """Answers by a table, or with the input's last word in capitals; remembers its prompts."""

    name = "writer"

    def __init__(self, answers=None, context_length=512):
        super().__init__(context_length)
        self.table = answers or {}
        self.prompts = []

    def write(self, prompts, limit, stop, temperature, seeds):
        assert (limit, tuple(stop), temperature) == (200, ("\n",), 0.0)
        self.prompts += prompts
        asked = [prompt.rpartition("Input: ")[2].removesuffix("\nSkill:") for prompt in prompts]
        return [self.table.get(text, " " + text.split()[-1].upper()) for text in asked]


def examples(texts, schemas=()):
    fields = [{"schema": schema} for schema in schemas] or [{}] * len(texts)
    pairs = zip(texts, fields, strict=True)
    return [Example(str(i), text, "", fields=own) for i, (text, own) in enumerate(pairs)]


def rewritten(lm, texts, shown=SHOWN, schemas=()):
    return Rewriter(lm, shown, orders=1).rewrite(examples(texts, schemas), 0)


def test_the_prompt_is_instruction_demonstrations_and_input():
    lm = Writer()
    assert rewritten(lm, ["a blue hat"], SHOWN[:1]).skills == ["HAT"]
    assert lm.prompts == [
        f"{INSTRUCTION}\n\nInput: a red car\nSkill: colour\n\nInput: a blue hat\nSkill:"
    ]


def test_where_demonstrations_have_a_schema_the_prompt_has_one():
    lm = Writer()
    shown = [Demonstration("which hats", "list", "hat [id, name]")]
    schemas = ["coat [id]", "coat [id], cap [id]", "cap [id]"]
    # a rewrite that fails, here for its length, leaves the question without its schema
    found = rewritten(lm, ["a blue coat", "a blue coat", "w " * 400], shown, schemas)
    assert found.skills == ["COAT", "COAT", "w " * 400]
    assert found.failures == {"too long": 1}
    opening = f"{INSTRUCTION}\n\nDatabase: hat [id, name]\nInput: which hats\nSkill: list\n\n"
    assert lm.prompts == [
        f"{opening}Database: {one}\nInput: a blue coat\nSkill:" for one in schemas[:2]
    ]


def openings(shown, orders, seed=0):
    """The demonstrations in each order, as one input's prompts show them."""
    made = Rewriter(TinyLM(), shown, orders=orders, seed=seed)
    return [made.prompts(examples(["a hat"]), order)[0] for order in range(orders)]


def test_orders_are_shuffles_that_the_seed_decides():
    shown = load_demonstrations("cogs")[:6]
    first, again, other = (openings(shown, 5, seed) for seed in (0, 0, 1))
    assert first == again
    assert len({*first, *other}) == 10
    assert len({tuple(sorted(opening.split("\n\n"))) for opening in (*first, *other)}) == 1
    few = openings(SHOWN, 6, 2)
    assert len(set(few)) == 6
    assert openings(SHOWN, 2, 2) == few[:2]
    with refused(r"2 demonstrations have 2 orders: give more .* --skills.orders than 3"):
        openings(SHOWN[:2], 3)


def test_equal_inputs_are_asked_once():
    lm = Writer()
    found = rewritten(lm, ["a hat", "a cap", "a hat"])
    assert (found.skills, found.rewrites, len(lm.prompts)) == (["HAT", "CAP", "HAT"], 2, 2)


def test_failed_rewrites_leave_the_input_and_are_counted():
    answers = {"nothing": "  ", "endless": " so" * MAX_NEW_TOKENS}
    answers["nearly endless"] = " so" * (MAX_NEW_TOKENS - 11)
    lm = Writer(answers)
    room = lm.context_length - MAX_NEW_TOKENS - 1
    # "a hat": two words
    opening = int(lm.count_tokens(openings(SHOWN, 1))[0]) - 2
    fits, too_long = (" ".join(["word"] * n) for n in (room - opening, room - opening + 1))
    found = rewritten(lm, ["a hat", "nothing", "endless", "nearly endless", fits, too_long])
    expected = ["HAT", "nothing", "endless", answers["nearly endless"].strip(), "WORD", too_long]
    assert found.skills == expected
    assert len(lm.prompts) == 5
    assert found.failures == {"empty": 1, "runaway": 1, "too long": 1}


def test_copied_inputs_are_failures_and_copied_skills_stand():
    answers = {
        "a hat": " a hat",
        "a cap": " two cars",
        "a coat": " colour",
        "a glove": "colour of a glove",
    }
    found = rewritten(Writer(answers), [*answers, "a scarf"])
    assert found.skills == ["a hat", "a cap", "colour", "colour of a glove", "SCARF"]
    assert found.failures == {"the input itself": 1, "a demonstration's input": 1}
    assert (found.copies, found.rewrites) == (1, 5)


@pytest.mark.parametrize("name", DEMONSTRATIONS)
def test_packaged_demonstrations(name):
    shown = load_demonstrations(name)
    assert len({one.input for one in shown}) == len({one.skill for one in shown}) == 16
    counts = TinyLM().count_tokens([one.skill for one in shown])
    assert np.all((counts > 4) & (counts < 60))


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "one.json").write_text(
        '[{"input": "a red car", "skill": "colour", "db_id": "cars"}]'
    )
    assert load_demonstrations(tmp_path / "one.json") == [Demonstration("a red car", "colour")]


GOOD = '{"input": "a red car", "skill": "colour"}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" + GOOD, r"cannot read .*bad\.json: .*line 1"),
        ("[]", r"bad\.json holds no rows"),
        (f'[{GOOD}, "a"]', r"bad\.json, row 2: expected an object of columns, found str"),
        (f'[{GOOD}, {{"input": "a"}}]', r"bad\.json, row 2: no field 'skill'; it has 'input'"),
        (
            '[{"input": "a", "skill": ""}]',
            r"bad\.json, row 1, field 'skill': expected a text that is not empty",
        ),
        (
            '[{"input": "a", "skill": "b\\nc"}]',
            r"row 1, field 'skill': expected a text of one line",
        ),
    ],
)
def test_bad_demonstration_files(tmp_path, content, message):
    (tmp_path / "bad.json").write_text(content)
    with refused(message):
        load_demonstrations(tmp_path / "bad.json")


def test_a_name_that_is_neither_packaged_nor_a_file():
    with refused("unknown demonstrations 'sqll'; did you mean 'sql'"):
        load_demonstrations("sqll")
