"""A selection as chat messages."""

import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters.chat import chat_messages


def chosen(query=QUERY, rows=ROWS):
    return CeilSelector.from_examples(rows, encoder=Words()).select(query, k=2)


def test_a_turn_for_each_example_and_the_query_last():
    selection = chosen()
    first, last = selection.examples
    assert chat_messages(selection, system="Dark or light?") == [
        {"role": "system", "content": "Dark or light?"},
        {"role": "user", "content": first.input},
        {"role": "assistant", "content": first.output},
        {"role": "user", "content": last.input},
        {"role": "assistant", "content": last.output},
        {"role": "user", "content": QUERY},
    ]
    assert chat_messages(selection)[0]["role"] == "user"


def test_patterns_name_metadata_and_values_keep_their_braces():
    selection = chosen({"input": "a {brace}", "town": "town7"})
    messages = chat_messages(selection, user="{town}: {input}", assistant="[{output}]")
    assert messages[-1]["content"] == "town7: a {brace}"
    assert messages[1]["content"] == f"[{selection.examples[0].output}]"


def test_a_name_that_is_missing():
    with refused(r"'\{town\}' names 'town', which 'the query' lacks; it has 'input'"):
        chat_messages(chosen(), user="{town}")
    with refused("found a single '{'"):
        chat_messages(chosen(), user="{input} {")
    for pattern in ("{input.x}", "{input[x]}", "{output}"):
        with refused("which 'the query' lacks|which .* lacks"):
            chat_messages(chosen(), user=pattern)
    none = CeilSelector.from_examples([], encoder=Words()).select("x", k=1)
    assert chat_messages(none) == [{"role": "user", "content": "x"}]


ALPACA = [
    {"instruction": f"Sort list {i}.", "input": f"PAYLOAD-{i}", "output": f"answer {i}"}
    for i in range(8)
]
ASKED = {"instruction": "Sort list 99.", "input": "PAYLOAD-99"}


def of_alpaca(**settings):
    selector = CeilSelector.from_examples(
        ALPACA, encoder=Words(), input_key="instruction", **settings
    )
    return selector.select(ASKED, k=2)


@pytest.mark.parametrize("settings", [{"template": "{instruction} {input}\n{output}"}, {}])
def test_a_column_called_input_is_that_column(settings):
    selection = of_alpaca(**settings)
    [*_, last] = chat_messages(selection, user="{instruction}: {input}")
    assert last["content"] == "Sort list 99.: PAYLOAD-99"
    [*_, last] = chat_messages(selection, user="{input}", assistant="{input} > {output}")
    assert last["content"] == "PAYLOAD-99"


def test_by_default_a_turn_shows_what_the_template_shows():
    messages = chat_messages(of_alpaca(template="{instruction} {input}\n{output}"))
    assert messages[-1]["content"] == "Sort list 99. PAYLOAD-99"
    assert messages[1]["content"].startswith("answer ")
    assert chat_messages(of_alpaca())[-1]["content"] == "Sort list 99."


@pytest.mark.parametrize(
    "name", ["Review Text", "a.b", "Q: text", "2023", "cost [EUR]", "re\u0301"]
)
def test_columns_may_be_called_anything(name):
    rows = [{"text": f"film {i}", "label": "good", name: f"more {i}"} for i in range(6)]
    selector = CeilSelector.from_examples(
        rows, encoder=Words(), input_key="text", output_key="label"
    )
    selection = selector.select({"text": "a film", name: "more"}, k=1)
    composed = name.replace("e\u0301", "é")
    pattern = f"{{text}} / {{{composed}}}"
    messages = chat_messages(selection, user=pattern, assistant="{label}!")
    assert [message["content"] for message in messages[1:]] == ["good!", "a film / more"]
