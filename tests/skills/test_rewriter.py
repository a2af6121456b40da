import json
import logging

import numpy as np
import pytest

from ceil_jax.errors import UserError
from ceil_jax.lm import TinyLM
from ceil_jax.skills.rewriter import (
    INSTRUCTION,
    MAX_NEW_TOKENS,
    PACKAGED,
    Demonstration,
    Rewriter,
    load_demonstrations,
)
from ceil_jax.store.store import Store

SHOWN = [
    Demonstration("a red car", "colour"),
    Demonstration("two cars", "number"),
    Demonstration("my car", "owner"),
]


class Writer(TinyLM):
    """Answers by a table, or with the input's last word in capitals; remembers its prompts."""

    name = "writer"

    def __init__(self, answers=None, context_length=512):
        super().__init__(context_length)
        self.answers = answers or {}
        self.prompts = []

    def generate(self, prompts, max_new_tokens, stop=(), *, temperature=0.0, seed=0):
        assert (max_new_tokens, tuple(stop), temperature) == (200, ("\n",), 0.0)
        self.prompts += prompts
        self.tokens_read += int(self.count_tokens(prompts).sum())
        asked = [prompt.rpartition("Input: ")[2].removesuffix("\nSkill:") for prompt in prompts]
        return [self.answers.get(text, " " + text.split()[-1].upper()) for text in asked]


def rewriter(tmp_path, lm, demonstrations=SHOWN, **options):
    return Rewriter(lm, demonstrations, Store(tmp_path), **{"orders": 1, **options})


def test_the_prompt_is_instruction_demonstrations_and_input(tmp_path):
    lm = Writer()
    one = [Demonstration("a red car", "colour")]
    assert rewriter(tmp_path, lm, one).rewrite(["a blue hat"], [0]) == [["HAT"]]
    assert lm.prompts == [f"{INSTRUCTION}\n\nInput: a red car\nSkill: colour\n\nInput: a blue hat\nSkill:"]


def test_where_demonstrations_have_a_schema_the_prompt_has_one(tmp_path):
    lm = Writer()
    shown = [Demonstration("which hats", "list", "hat [id, name]")]
    made = rewriter(tmp_path, lm, shown)
    schemas = ["coat [id]", "coat [id], cap [id]", "cap [id]"]
    asked = ["a blue coat", "a blue coat", "w " * 400]
    # a rewrite that fails, here for its length, leaves the question without its schema
    assert made.rewrite(asked, [0], schemas) == [["COAT"], ["COAT"], ["w " * 400]]
    opening = f"{INSTRUCTION}\n\nDatabase: hat [id, name]\nInput: which hats\nSkill: list\n\n"
    assert lm.prompts[:2] == [
        f"{opening}Database: {schema}\nInput: a blue coat\nSkill:" for schema in schemas[:2]
    ]
    lm.answers = {"too": ""}
    assert made.rewrite(["too"], [0], ["cap [id]"]) == [["too"]]
    assert made.failures == {"too long": 1, "empty": 1}


def test_orders_are_shuffles_that_the_seed_decides(tmp_path):
    first = rewriter(tmp_path, Writer(), load_demonstrations("cogs")[:6], orders=5).openings
    again = rewriter(tmp_path, Writer(), load_demonstrations("cogs")[:6], orders=5).openings
    other = rewriter(tmp_path, Writer(), load_demonstrations("cogs")[:6], orders=5, seed=1).openings
    assert first == again
    assert len({*first, *other}) == 10
    assert len({tuple(sorted(opening.split("\n\n"))) for opening in (*first, *other)}) == 1


def test_orders_of_few_demonstrations_differ(tmp_path):
    three = rewriter(tmp_path, Writer(), orders=6, seed=2).openings
    assert len(set(three)) == 6
    assert rewriter(tmp_path, Writer(), orders=2, seed=2).openings == three[:2]
    with pytest.raises(
        UserError, match=r"2 demonstrations have 2 orders: give more .* --skills.orders than 3"
    ):
        rewriter(tmp_path, Writer(), SHOWN[:2], orders=3)


def test_a_skill_for_each_order_asked_for(tmp_path):
    made = rewriter(tmp_path, Writer(), orders=3)
    assert made.rewrite(["a hat", "a cap"], [0, 2]) == [["HAT", "HAT"], ["CAP", "CAP"]]
    assert made.rewrites == 4
    assert [cost.tokens > 0 for cost in made.costs] == [True, False, True]


def test_a_bank_that_grew_rewrites_what_is_new_to_it(tmp_path):
    bank = [f"hat {i}" for i in range(70)]
    first = rewriter(tmp_path, Writer())
    first.rewrite(bank, [0])
    changed = [*bank[:40], "cap 40", *bank[41:], *(f"new {i}" for i in range(10)), "hat 3"]
    lm = Writer()
    second = rewriter(tmp_path, lm)
    skills = second.rewrite(changed, [0])
    assert [text.rpartition("Input: ")[2] for text in lm.prompts] == [
        f"{text}\nSkill:" for text in ["cap 40", *(f"new {i}" for i in range(10))]
    ]
    assert skills == [[text.split()[-1].upper()] for text in changed]
    # the cost of all that was asked for, by whichever process: here 70 of 70 + 11, not "hat 40"
    assert second.costs[0].tokens == pytest.approx(first.costs[0].tokens * 80 / 70, rel=0.01)


@pytest.mark.parametrize("change", ["demonstration", "instruction's LM", "seed"])
def test_another_prompt_or_lm_rewrites_all(tmp_path, change):
    bank = [f"hat {i}" for i in range(5)]
    rewriter(tmp_path, Writer()).rewrite(bank, [0])
    lm = Writer()
    shown = SHOWN
    if change == "demonstration":
        shown = [*SHOWN[:2], Demonstration("my car", "possession")]
    elif change != "seed":
        lm.name = "another"
    rewriter(tmp_path, lm, shown, seed=int(change == "seed")).rewrite(bank, [0])
    assert len(lm.prompts) == 5


def test_a_damaged_rewrite_is_written_again(tmp_path, caplog):
    rewriter(tmp_path, Writer()).rewrite(["a hat", "a cap", "a coat"], [0])
    [file] = tmp_path.glob("skills-*/keyed_rows.jsonl")
    file.write_text(file.read_text().replace("CAP", "CUP"))
    lm = Writer()
    with caplog.at_level(logging.WARNING):
        assert rewriter(tmp_path, lm).rewrite(["a hat", "a cap"], [0]) == [["HAT"], ["CAP"]]
    assert len(lm.prompts) == 1
    assert "1 damaged" in caplog.text


def test_failed_rewrites_leave_the_input_and_are_counted(tmp_path):
    answers = {
        "nothing": "  ",
        "endless": " again" * MAX_NEW_TOKENS,
        "nearly endless": " again" * (MAX_NEW_TOKENS - 11),
    }
    lm = Writer(answers)
    room = lm.context_length - MAX_NEW_TOKENS - 1
    opening = int(lm.count_tokens(rewriter(tmp_path, lm).openings)[0])
    # "Input", ":", words, a line's end, "Skill", ":"
    fits, too_long = (" ".join(["word"] * n) for n in (room - opening - 5, room - opening - 4))
    inputs = ["a hat", "nothing", "endless", "nearly endless", fits, too_long]
    for _ in range(2):  # made, then read
        made = rewriter(tmp_path, lm)
        skills = [skill for [skill] in made.rewrite(inputs, [0])]
        assert skills == ["HAT", "nothing", "endless", answers["nearly endless"].strip(), "WORD", too_long]
        assert made.failures == {"empty": 1, "runaway": 1, "too long": 1}
        assert made.report().startswith("writer: 3 of 6 rewrites failed (")
    assert len(lm.prompts) == 5


def test_copied_inputs_are_failures_and_copied_skills_stand(tmp_path):
    answers = {"a hat": " a hat", "a cap": " two cars", "a coat": " colour", "a glove": "colour of a glove"}
    made = rewriter(tmp_path, Writer(answers))
    skills = [skill for [skill] in made.rewrite([*answers, "a scarf"], [0])]
    assert skills == ["a hat", "a cap", "colour", "colour of a glove", "SCARF"]
    assert made.failures == {"the input itself": 1, "a demonstration's input": 1}
    assert made.copies == 1
    assert made.report() == (
        "writer: 2 of 5 rewrites failed (1 the input itself, 1 a demonstration's input): raw inputs stand for "
        "them; 5 different skills, the commonest for 20 %; 1 are a demonstration's skill word for word"
    )


class Failing(Writer):
    """Stops in the middle, as an endpoint may."""

    def __init__(self, good):
        super().__init__()
        self.good = good

    def generate(self, *arguments, **options):
        if self.good == 0:
            raise UserError("http://here: 503 after 5 tries")
        self.good -= 1
        return super().generate(*arguments, **options)


def test_an_lm_that_fails_half_way_loses_nothing(tmp_path):
    bank = [f"hat {i}" for i in range(70)]
    with pytest.raises(UserError, match="503 after 5 tries"):
        rewriter(tmp_path, Failing(good=2)).rewrite(bank, [0])
    lm = Writer()
    assert rewriter(tmp_path, lm).rewrite(bank, [0]) == [[str(i)] for i in range(70)]
    # two chunks of 32 were kept
    assert [text.rpartition("Input: ")[2] for text in lm.prompts] == [f"{text}\nSkill:" for text in bank[64:]]


def test_a_bank_that_shrank_asks_nothing(tmp_path):
    bank = [f"hat {i}" for i in range(5)]
    rewriter(tmp_path, Writer()).rewrite(bank, [0])
    lm = Writer()
    made = rewriter(tmp_path, lm)
    assert made.rewrite(bank[3:], [0]) == [["3"], ["4"]]
    assert (lm.prompts, made.rewrites) == ([], 2)


def test_all_too_long_asks_nothing(tmp_path):
    lm = Writer()
    assert rewriter(tmp_path, lm).rewrite(["w " * 400], [0]) == [["w " * 400]]
    assert lm.prompts == []


def test_demonstrations_that_leave_no_room(tmp_path):
    with pytest.raises(UserError, match=r"16 demonstrations take .* writer reads 300 with 200 for the skill"):
        rewriter(tmp_path, Writer(context_length=300), load_demonstrations("sql"))


def test_the_test_lm_can_stand_in(tmp_path):
    inputs = ["three cars", "a green car"]
    first, second = (rewriter(tmp_path / name, TinyLM()).rewrite(inputs, [0]) for name in "ab")
    assert first == second
    assert all(skill.strip() and "\n" not in skill for [skill] in first)


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_demonstrations(name):
    shown = load_demonstrations(name)
    assert len({one.input for one in shown}) == len({one.skill for one in shown}) == 16
    counts = TinyLM().count_tokens([one.skill for one in shown])
    assert np.all((counts > 4) & (counts < 60))


def test_a_file_of_one_list_or_of_several(tmp_path):
    one = [{"input": "a red car", "skill": "colour", "db_id": "cars"}]
    (tmp_path / "one.json").write_text(json.dumps(one))
    (tmp_path / "several.json").write_text(json.dumps({"source": "me", "cars": one, "hats": []}))
    expected = [Demonstration("a red car", "colour")]
    assert load_demonstrations(tmp_path / "one.json") == expected
    assert load_demonstrations(f"{tmp_path}/several.json#cars") == expected
    with pytest.raises(UserError, match=r"several lists of demonstrations; name one of cars, hats, as in"):
        load_demonstrations(tmp_path / "several.json")
    with pytest.raises(UserError, match=r"holds one list and has no 'cars' in it; leave out #cars"):
        load_demonstrations(f"{tmp_path}/one.json#cars")


GOOD = '{"input": "a red car", "skill": "colour"}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" + GOOD, r"cannot read .*bad\.json as JSON: .*line 1"),
        ("", r"cannot read .*bad\.json as JSON"),
        ("[]", r'bad\.json: expected a list of \{"input": …, "skill": …\}, at least one'),
        ("3", r"bad\.json: expected a list"),
        (GOOD, r"bad\.json: expected a list of .*, found an object"),
        ("[" * 100_000, r"cannot read .*bad\.json as JSON"),
        (f'[{GOOD}, "a"]', r"bad\.json, entry 2: expected an object .*, found 'a'"),
        (f'[{GOOD}, {{"input": "a"}}]', r"entry 2, field 'skill': expected a text of one line, found 'None'"),
        ('[{"input": 3, "skill": "b"}]', r"entry 1, field 'input': .* found '3'"),
        ('[{"input": " ", "skill": "b"}]', r"entry 1, field 'input'"),
        ('[{"input": "a", "skill": "b\\nc"}]', r"entry 1, field 'skill': expected a text of one line"),
    ],
)
def test_bad_demonstration_files(tmp_path, content, message):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(UserError, match=message):
        load_demonstrations(tmp_path / "bad.json")


def test_a_name_that_is_neither_packaged_nor_a_file():
    with pytest.raises(UserError, match="unknown demonstrations 'sqll'; did you mean 'sql'"):
        load_demonstrations("sqll")
