"""What a server gets from other tools' own clients is what the selector shows, to the byte."""

import pytest
from lm_server import Server, listening

from ceil_jax import CeilSelector

ROWS = [
    {"input": f"ticket {i}: my {word} {{is}} broken\nsince monday", "output": team}
    for i, (word, team) in enumerate(
        [("printer", "hardware"), ("invoice", "billing"), ("badge", "access")] * 4
    )
]
QUERY = "the printer of room 7\n  smells {burnt}"
TEMPLATE = "Ticket: {input}\nTeam: {output}"


@pytest.fixture
def sent():
    """The address of a server that writes down its requests, and the messages of these requests."""
    server = Server()
    with listening(server) as address:
        yield address, lambda: [body["messages"] for _, body in server.requests]


def chosen(k=4):
    selector = CeilSelector.from_examples(
        ROWS, encoder="tiny", template=TEMPLATE, system="Answer with one of: {labels}."
    )
    return selector, selector.select(QUERY, k=k).messages


def test_dspy_s_lm_sends_the_messages(sent):
    dspy = pytest.importorskip("dspy", reason="needs the extra dspy")
    address, read = sent
    _, messages = chosen()
    lm = dspy.LM("openai/tiny", api_base=address, api_key="none", max_tokens=9, cache=False)
    assert lm(messages=messages)
    assert read() == [messages]


def test_lm_eval_s_chat_sends_the_turns_of_a_task_that_is_written_alike(sent):
    pytest.importorskip("lm_eval", reason="needs the extra lm-eval")
    from datasets import Dataset
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks import TaskManager

    from ceil_jax.selector.adapters.lm_eval import choose_few_shot

    address, read = sent
    selector, messages = chosen()
    splits = {
        "train": Dataset.from_list(ROWS),
        "test": Dataset.from_list([{"input": QUERY, "output": "hardware"}]),
    }
    task = ConfigurableTask(
        config={
            "task": "tickets",
            "custom_dataset": lambda **_: splits,
            "training_split": "train",
            "test_split": "test",
            "fewshot_split": "train",
            "output_type": "generate_until",
            "doc_to_text": "Ticket: {{input}}\nTeam:",
            "doc_to_target": "output",
            "target_delimiter": "",
            "metric_list": [
                {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
            ],
        }
    )
    simple_evaluate(
        "local-chat-completions",
        model_args={
            "model": "tiny",
            "base_url": f"{address}/chat/completions",
            "tokenizer_backend": None,
            "num_concurrent": 1,
        },
        tasks=[choose_few_shot(task, selector, text=lambda doc: doc["input"])],
        num_fewshot=4,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        system_instruction=messages[0]["content"],
        bootstrap_iters=0,
        task_manager=TaskManager(include_defaults=False),
    )
    assert read() == [messages]
