"""The DSPy teleprompter on real programs; the LM is DSPy's own stand-in, which records what it was
asked."""

import asyncio
import copy
import json
import os

import dspy
import pytest
from dspy.utils import DummyLM
from refusing import refused
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters.dspy import CeilFewShot

FIELDS = ({"place": row["input"], "light": row["output"], "town": row["town"]} for row in ROWS)
TRAINSET = [dspy.Example(**fields).with_inputs("place") for fields in FIELDS]


def bank(**settings):
    return CeilSelector.from_examples(ROWS, encoder=Words(), **settings)


def asked(program, **inputs):
    """The texts of the user's turns that the LM saw, the demos' before the query's."""
    lm = DummyLM([{"light": "dark", "reasoning": "so", "summary": "s"}] * 3)
    with dspy.context(lm=lm):
        answer = program(**inputs)
    return answer, [m["content"] for m in lm.history[-1]["messages"] if m["role"] == "user"]


def expected(query, k, **settings):
    return [example.input for example in bank(**settings).select(query, k=k).examples]


def test_demos_are_the_selected_set_of_each_query():
    program = CeilFewShot(bank(), k=3).compile(dspy.Predict("place -> light"), trainset=TRAINSET)
    for query in (QUERY, "the garden number1 at night"):
        answer, turns = asked(program, place=query)
        assert answer.light == "dark"
        assert len(turns) == 4
        for text, turn in zip([*expected(query, 3), query], turns, strict=True):
            assert text in turn


def test_the_selectors_own_bank_is_live_and_maps_to_the_signature():
    selector = bank()
    student = dspy.ChainOfThought("place -> light")
    program = CeilFewShot(selector, k=1, trade_off=0.01, own_answer=True).compile(student)
    selector.add([{"id": "new", "input": "a lighthouse", "output": "blinding"}])
    lm = DummyLM([{"reasoning": "so", "light": "dark"}])
    with dspy.context(lm=lm):
        program(place="a lighthouse")
    told = [m["content"] for m in lm.history[-1]["messages"] if m["role"] == "assistant"]
    assert len(told) == 1
    assert "blinding" in told[0]
    assert student.predict.demos == []
    _, turns = asked(student, place=QUERY)
    assert len(turns) == 1


def test_every_step_gets_demos_for_its_own_inputs():
    class Two(dspy.Module):
        def __init__(self):
            super().__init__()
            self.first = dspy.Predict("place -> light")
            self.second = dspy.Predict("town -> light, summary")
            self.third = dspy.Predict("town -> verdict")

        def forward(self, place):
            return self.second(town=self.first(place=place) and "town1")

    program = CeilFewShot(Words(), k=2).compile(Two(), trainset=TRAINSET)
    lm = DummyLM([{"light": "dark"}, {"light": "dark", "summary": "s"}])
    with dspy.context(lm=lm):
        assert program(place=QUERY).summary == "s"
    first, second = (
        [m["content"] for m in call["messages"] if m["role"] == "user"] for call in lm.history
    )
    assert len(first) == len(second) == 3
    # a demo of the query's own words would hold its answer
    assert "town1" in second[2]
    assert not any("town1" in turn for turn in second[:2])
    # no output of the third is a field of the trainset: DSPy would not show its demos
    assert type(program.third) is dspy.Predict


def test_options_filter_the_trainset_by_its_fields():
    chooser = CeilFewShot(Words(), k=5, filter={"town": "town2"})
    program = chooser.compile(dspy.Predict("place, town -> light"), trainset=TRAINSET)
    _, turns = asked(program, place=QUERY, town="town0")
    assert len(turns) == 6
    assert all("town2" in turn for turn in turns[:5])


def test_copies_async_and_demos_of_the_call():
    program = CeilFewShot(bank(), k=2).compile(dspy.Predict("place -> light"))
    again = copy.deepcopy(program)
    assert again.chooser is program.chooser
    assert len(asked(again, place=QUERY)[1]) == 3
    assert len(asked(program, place=QUERY, demos=[])[1]) == 1
    lm = DummyLM([{"light": "dark"}])

    async def ask():
        with dspy.context(lm=lm):
            return await program.acall(place=QUERY)

    assert asyncio.run(ask()).light == "dark"
    assert len([m for m in lm.history[-1]["messages"] if m["role"] == "user"]) == 3
    twice = CeilFewShot(bank(), k=1).compile(program)
    assert type(twice).__mro__.count(dspy.Predict) == 1
    assert len(asked(twice, place=QUERY)[1]) == 2


def test_the_predictor_keeps_its_kind_and_its_lm():
    class Loud(dspy.Predict):
        def forward(self, **inputs):
            return dspy.Prediction(light=super().forward(**inputs).light.upper())

    student = Loud("place -> light")
    student.lm = DummyLM([{"light": "dark"}])
    program = CeilFewShot(bank(), k=1).compile(student)
    assert isinstance(program, Loud)
    assert program(place=QUERY).light == "DARK"


def test_what_cannot_be_compiled():
    with refused("an encoder but no bank: give compile trainset=…"):
        CeilFewShot(Words(), k=2).compile(dspy.Predict("place -> light"))
    with refused(r"the signature takes place, town; say which .*: input=…"):
        CeilFewShot(bank(), k=2).compile(dspy.Predict("place, town -> light"))
    with refused("input='plaice' is not a field of the signature; it has place, town"):
        CeilFewShot(bank(), input="plaice", k=2).compile(dspy.Predict("place, town -> light"))
    with refused(
        r"no predictor of Predict has an input and an output among .*\(light, place, town\)"
    ):
        CeilFewShot(bank(), k=2).compile(dspy.Predict("question -> answer"), trainset=TRAINSET)
    program = CeilFewShot(bank(), input="place", k=2).compile(dspy.Predict("place, town -> light"))
    with refused("no 'place' among the inputs; demos are chosen by place"):
        asked(program, town="x")


class Counting(Words):
    """An encoder that counts the texts it was given."""

    def __init__(self):
        self.texts = 0

    def encode(self, texts):
        self.texts += len(texts)
        return super().encode(texts)


@pytest.mark.parametrize("trainset", [None, TRAINSET])
def test_a_saved_program_keeps_its_bank(trainset, tmp_path):
    student = dspy.Predict("place -> light")
    chooser = CeilFewShot(bank(trade_off=0.02), k=3, filter={"town": ["town1", "town2"]})
    program = chooser.compile(student, trainset=trainset)
    program.save(tmp_path / "program.json")
    encoder = Counting()
    again = CeilFewShot(encoder).load(student, tmp_path / "program.json")
    assert encoder.texts == 0
    for query in (QUERY, "the garden number1 at night"):
        turns = asked(program, place=query)[1]
        assert len(turns) == 4
        assert asked(again, place=query)[1] == turns
    assert encoder.texts == 2
    assert student.demos == []
    # a program that was compiled with another bank takes the saved one, through DSPy's own load
    other = CeilFewShot(CeilSelector.from_examples(ROWS[:2], encoder=Words()), k=1).compile(student)
    other.load(tmp_path / "program.json")
    assert asked(other, place=QUERY)[1] == asked(program, place=QUERY)[1]
    # what is said now goes before what was saved
    fewer = CeilFewShot(Words(), k=1).load(student, tmp_path / "program.json")
    assert len(asked(fewer, place=QUERY)[1]) == 2


def test_a_program_of_several_steps_and_its_state_without_a_file():
    class Two(dspy.Module):
        def __init__(self):
            super().__init__()
            self.first = dspy.Predict("place -> light")
            self.second = dspy.Predict("town -> summary")

        def forward(self, place):
            return self.first(place=place)

    program = CeilFewShot(Words(), k=2).compile(Two(), trainset=TRAINSET)
    state = json.loads(json.dumps(program.dump_state()))
    assert "ceil" in state["first"]
    assert "ceil" not in state["second"]
    again = CeilFewShot(Words(), k=2).compile(Two(), trainset=TRAINSET[:3])
    again.load_state(state)
    assert asked(again, place=QUERY)[1] == asked(program, place=QUERY)[1]
    # as a part of a larger program it is saved with it
    whole = dspy.Module()
    whole.part = program
    assert "ceil" in whole.dump_state()["part.first"]


def test_what_cannot_be_saved_or_loaded(tmp_path):
    student = dspy.Predict("place -> light")
    file = tmp_path / "program.json"
    program = CeilFewShot(bank(), k=1, filter=lambda example: True).compile(student)
    with refused("a program's bank is saved as JSON, and <function .* is not a JSON value"):
        program.save(file)
    with refused("program.json is missing"):
        CeilFewShot(Words()).load(student, file)
    student.save(file)
    with refused("has banks for no predictor, and Predict has the predictors self"):
        CeilFewShot(Words()).load(student, file)
    program = CeilFewShot(bank(), k=1).compile(student)
    program.save(file)
    with refused("has banks for no predictor, and ChainOfThought has the predictors predict"):
        CeilFewShot(Words()).load(dspy.ChainOfThought("place -> light"), file)
    state = json.loads(file.read_text())
    for key, value in {"rows": [{"id": 1}], "vectors": "!", "options": 7}.items():
        file.write_text(json.dumps({**state, "ceil": {**state["ceil"], key: value}}))
        with refused("program.json, 'self'"):
            CeilFewShot(Words()).load(student, file)


def told(program, **inputs):
    """The system message that the LM saw, and the user's turns."""
    lm = DummyLM([{"light": "dark"}] * 3)
    with dspy.context(lm=lm):
        program(**inputs)
    messages = lm.history[-1]["messages"]
    return messages[0]["content"], [m["content"] for m in messages if m["role"] == "user"]


def test_instructions_of_an_optimiser_stay_before_and_after():
    """MIPROv2 and GEPA set a predictor's instructions, MIPROv2 its demos too."""
    student = dspy.Predict("place -> light")
    optimised = student.deepcopy()
    optimised.signature = optimised.signature.with_instructions("Say how light the place is.")
    optimised.demos = TRAINSET[:5]
    program = CeilFewShot(bank(), k=2).compile(optimised)
    system, turns = told(program, place=QUERY)
    assert "Say how light the place is." in system
    assert len(turns) == 3
    later = program.deepcopy()
    later.signature = later.signature.with_instructions("Light or dark?")
    later.demos = TRAINSET[:5]
    system, turns = told(later, place=QUERY)
    assert "Light or dark?" in system
    assert turns == told(program, place=QUERY)[1]


def test_gepa_optimises_a_program_that_chooses_its_demos():
    program = CeilFewShot(bank(), k=2).compile(dspy.Predict("place -> light"))

    def metric(gold, prediction, trace=None, pred_name=None, pred_trace=None):
        return dspy.Prediction(score=float(gold.light == prediction.light), feedback="Look again.")

    proposer = DummyLM([{"light": "```\nLight or dark?\n```"}] * 50)
    with dspy.context(lm=DummyLM([{"light": "dark"}] * 200)):
        optimised = dspy.GEPA(
            metric=metric, max_metric_calls=12, reflection_lm=proposer, num_threads=1
        ).compile(program, trainset=TRAINSET[:3], valset=TRAINSET[3:6])
    assert len(told(optimised, place=QUERY)[1]) == 3


NAMES = ("Ada", "Ben", "Cleo", "Dan")
CONTRACTS = [
    {
        "question": "Who signed it?",
        "context": f"The contract {i} on hall {i} was signed by {name}.",
        "answer": name,
    }
    for i, name in enumerate(NAMES)
] + [
    {"question": f"How warm is town {i}?", "context": f"Town {i} is warm.", "answer": f"{i}"}
    for i in range(4)
]
ASKED = {"question": "Who signed it?", "context": "The contract 77 was signed by Zoe."}


def test_the_same_question_about_another_context_is_another_question():
    bank = CeilSelector.from_examples(
        CONTRACTS,
        encoder=Words(),
        input_key="question",
        output_key="answer",
        template="{context}\n{question}\n{answer}",
    )
    student = dspy.Predict("context, question -> answer")
    program = CeilFewShot(bank, k=3, input="question").compile(student)
    chosen = [demo["answer"] for demo in program.chooser(ASKED)]
    assert chosen == [example.output for example in bank.select(ASKED, k=3)]
    assert {*chosen} & {*NAMES}
    own = {"question": CONTRACTS[0]["question"], "context": CONTRACTS[0]["context"]}
    assert "Ada" not in [demo["answer"] for demo in program.chooser(own)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {"query_encoder": "json:loads"}}, "'settings.query_encoder': Unexpected"),
        ({"settings": {"encoder": "json:loads"}}, "'settings.encoder': Unexpected"),
        ({"settings": {"shortlist": "many"}}, "'settings.shortlist': expected a valid integer"),
        ({"settings": {"shortlist": 0}}, "shortlist is 0; expected a whole number at least 1"),
        ({"options": {"encoder": "json:loads"}}, "unknown option 'encoder'"),
        ({"options": {"k": "x"}}, "k is 'x'"),
        ({"rows": [{"id": 1}]}, "'rows.0.id': expected a valid string"),
        ({"vectors": "!"}, "is not the bank of a saved program"),
        ({"vectors": "AAAA"}, "is not the bank of a saved program"),
        ({"demos": [1]}, "'demos.0': expected an object"),
        ({"query": []}, "'query': Tuple should have at least 1 item"),
    ],
)
def test_a_strangers_program_names_no_code_and_is_refused_in_one_line(tmp_path, change, said):
    student = dspy.Predict("place -> light")
    file = tmp_path / "program.json"
    CeilFewShot(Words(), k=1).compile(student, trainset=TRAINSET).save(file)
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "ceil": {**state["ceil"], **change}}))
    with refused(said) as refusal:
        CeilFewShot(Words()).load(student, file)
    assert "\n" not in str(refusal.value)


def test_a_strangers_program_sets_no_attributes_and_is_a_file(tmp_path):
    student = dspy.Predict("place -> light")
    file = tmp_path / "program.json"
    CeilFewShot(Words(), k=1).compile(student, trainset=TRAINSET).save(file)
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "forward": "x", "chooser": 1}))
    with refused("'self': unknown keys chooser, forward"):
        CeilFewShot(Words()).load(student, file)
    file.write_text(json.dumps({**state, "signature": {"fields": 7}}))
    with refused("program.json does not fit Predict"):
        CeilFewShot(Words()).load(student, file)
    file.write_text("[" * 10**5)
    with refused("program.json is not JSON"):
        CeilFewShot(Words()).load(student, file)
    file.unlink()
    os.mkfifo(file)
    with refused("program.json is not a regular file"):
        CeilFewShot(Words()).load(student, file)


class Two(dspy.Module):
    """Two steps, of which the first alone has a bank."""

    def __init__(self):
        self.first = dspy.Predict("place -> light")
        self.second = dspy.Predict("light -> summary")


def test_a_strangers_program_sets_neither_calls_nor_lm_of_any_predictor(tmp_path):
    """Keys go to the servers of the user's own LMs alone."""
    file = tmp_path / "program.json"
    CeilFewShot(Words(), k=1).compile(Two(), trainset=TRAINSET).save(file)
    state = json.loads(file.read_text())
    there = {"api_base": "http://elsewhere"}
    file.write_text(json.dumps({**state, "second": {**state["second"], "config": there}}))
    with refused("'second': unknown keys config"):
        CeilFewShot(Words()).load(Two(), file)
    file.write_text(json.dumps({**state, "second": 7}))
    with refused("'second': expected an object, found 7"):
        CeilFewShot(Words()).load(Two(), file)
    lm = {"model": "none/x", "fallbacks": [{"model": "openai/x", **there}]}
    file.write_text(json.dumps({name: {**own, "lm": lm} for name, own in state.items()}))
    student = Two()
    student.second.lm = DummyLM([{"summary": "s"}])
    program = CeilFewShot(Words()).load(student, file)
    assert program.first.lm is None
    assert isinstance(program.second.lm, DummyLM)
