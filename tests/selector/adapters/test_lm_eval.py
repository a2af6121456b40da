"""The sampler inside lm-evaluation-harness's own evaluation."""

import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector

pytest.importorskip("lm_eval", reason="needs the extra lm-eval")

from datasets import Dataset
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from ceil_jax.selector.adapters.lm_eval import choose_few_shot

DOCS = [{"text": row["input"], "label": ["dark", "light"].index(row["output"])} for row in ROWS]
ASKED = [{"text": QUERY, "label": 1}, {"text": "the garden number5 at night", "label": 0}]


def task(train=DOCS, test=ASKED, **config):
    splits = {"train": Dataset.from_list(train), "test": Dataset.from_list(test)}
    return ConfigurableTask(
        config={
            "task": "places",
            "custom_dataset": lambda **_: splits,
            "training_split": "train",
            "test_split": "test",
            "fewshot_split": "train",
            "output_type": "multiple_choice",
            "doc_to_text": "{{text}} is",
            "doc_to_target": "label",
            "doc_to_choice": ["dark", "light"],
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            **config,
        }
    )


def bank(**settings):
    rows = [{**row, "input": f"{row['input']} is"} for row in ROWS]
    return CeilSelector.from_examples(rows, encoder=Words(), **settings)


class Recorder(LM):
    """Prefers "light", and keeps what it was asked."""

    def __init__(self):
        super().__init__()
        self.prompts = []

    def loglikelihood(self, requests):
        self.prompts += [request.args[0] for request in requests if request.args[1] == " light"]
        return [(float(request.args[1] == " light"), True) for request in requests]

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    generate_until = loglikelihood_rolling


def prompt(selection):
    return "".join(f"{e.input} {e.output}\n\n" for e in selection.examples) + selection.query.input


def test_every_question_has_its_own_examples():
    selector = bank(trade_off=0.1, shortlist=20)
    lm = Recorder()
    expected = [prompt(selector.select(f"{doc['text']} is", k=4)) for doc in ASKED]
    results = simple_evaluate(
        lm,
        tasks=[choose_few_shot(task(), selector)],
        num_fewshot=4,
        bootstrap_iters=0,
        # the thousands of tasks that come with the harness are not read
        task_manager=TaskManager(include_defaults=False),
    )
    assert lm.prompts == expected
    assert expected[0].count("\n\n") == 4
    # one of the two questions is light
    assert results["results"]["places"]["acc,none"] == 1 / 2


def test_settings_of_the_choice():
    few_shot = choose_few_shot(task(), Words(), text=lambda doc: doc["text"], balance="label")
    few_shot.sampler.selector.trade_off = 0.7
    few_shot.fewshot_context(ASKED[0], num_fewshot=6)
    chosen = few_shot.sampler.sample(6)
    selector = CeilSelector.from_examples(ROWS, encoder=Words())
    expected = selector.select(QUERY, k=6, trade_off=0.7, balance="label").examples
    assert [doc["text"] for doc in chosen] == [example.input for example in expected]
    assert [doc["label"] for doc in chosen].count(0) == 3


def test_a_question_of_the_bank_is_not_its_own_example():
    few_shot = choose_few_shot(task(test=DOCS, fewshot_split="test"), Words())
    context = few_shot.fewshot_context(DOCS[7], num_fewshot=5)
    assert context.count(f"{DOCS[7]['text']} is") == 1
    # a second selector takes the first one's place
    before = few_shot.fewshot_context
    again = choose_few_shot(few_shot, bank(trade_off=0.4))
    assert again.sampler.selector.trade_off == 0.4
    assert again.fewshot_context is before
    assert again.fewshot_context(DOCS[8], num_fewshot=5).count(f"{DOCS[8]['text']} is") == 1


@pytest.mark.parametrize("copies", [False, True])
def test_no_prompt_holds_the_answer_to_its_question(caplog, copies):
    """A test split alone is its own few-shot split; a question may stand in it twice, under other
    indices."""
    words = ["one", "two", "three", "four", "five", "six"]
    docs = [
        {"idx": i, "q": f"question {w}?", "a": f"answer-{w}", "topic": "t"}
        for i, w in enumerate(words)
    ]
    again = [{**doc, "idx": doc["idx"] + 100} for doc in docs * copies]
    splits = {"test": Dataset.from_list([*docs, *again])}
    for split in ({}, {"fewshot_split": "test"}):
        few_shot = ConfigurableTask(
            config={
                "task": "alone",
                "custom_dataset": lambda **_: splits,
                "test_split": "test",
                **split,
                "output_type": "generate_until",
                "doc_to_text": "{{q}}",
                "doc_to_target": "a",
                "generation_kwargs": {"until": ["\n"]},
                "metric_list": [
                    {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
                ],
            }
        )
        caplog.clear()
        # what an encoder sees may be the same for all: the question is what the task asks
        choose_few_shot(few_shot, Words(), text=lambda doc: doc["topic"] + doc["q"])
        [said] = [
            record.getMessage() for record in caplog.records if "alone" in record.getMessage()
        ]
        n = 12 if copies else 6
        assert said.startswith(f"alone: {n} of {n} questions are among the few-shot documents")
        for doc in splits["test"]:
            prompt = str(few_shot.fewshot_context(doc, num_fewshot=2))
            assert doc["a"] not in prompt
            assert sum(other["a"] in prompt for other in docs) == 2


def test_answers_are_read_as_the_task_has_them():
    def outputs(**config):
        few_shot = choose_few_shot(task(train=DOCS[:3], **config), Words())
        return [example.output for example in few_shot.sampler.selector.examples]

    assert outputs() == ["light", "dark", "dark"]
    text = {"doc_to_choice": None, "output_type": "generate_until", "metric_list": None}
    kwargs = {"generation_kwargs": {"until": ["\n"]}}
    assert outputs(doc_to_target="{{text}}!", **text, **kwargs) == [
        f"{doc['text']}!" for doc in DOCS[:3]
    ]
    assert outputs(doc_to_target=lambda doc: ["a", "b"], **text, **kwargs) == ["a"] * 3


def test_what_cannot_be_chosen():
    with refused(r"str: expected a task of the harness .* TaskManager\(\)\.load"):
        choose_few_shot("places", Words())
    with refused(r"the text of a document is 1; .*: text=…"):
        choose_few_shot(task(), Words(), text=lambda doc: doc["label"] or doc["text"])
    small = choose_few_shot(task(train=DOCS[:3]), Words())
    with refused("num_fewshot is 4, and only 3 of the 3 few-shot documents differ"):
        small.fewshot_context(ASKED[0], num_fewshot=4)
    with refused("cache_requests would give these prompts"):
        small.build_all_requests(cache_requests=True)
    with refused("CeilSampler has embedded its documents"):
        small.sampler.sample(1, ASKED[0], DOCS)


def test_the_same_question_about_another_passage_is_another_question():
    passages = [
        {"passage": f"hall {i} is {side}", "label": i % 2} for i, side in enumerate("ab" * 4)
    ]
    docs = [{**row, "text": "is it open?"} for row in passages]
    few_shot = choose_few_shot(
        task(train=docs, test=docs[:2], doc_to_text="{{passage}}. {{text}}"),
        Words(),
        text=lambda doc: doc["text"],
    )
    # all have the same text, and half of them the same answer
    chosen = few_shot.sampler.sample(5, docs[0])
    assert len({doc["passage"] for doc in chosen}) == 5
    assert docs[0] not in chosen
