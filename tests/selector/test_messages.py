"""A selection as chat messages."""

import pytest
from refusing import refused
from selector_words import QUERY, ROWS, Words

from ceil_jax import CeilSelector
from ceil_jax.lm.prompts import register_order

SYSTEM = "Dark or light?"


def selector_of(rows=ROWS, **settings):
    return CeilSelector.from_examples(rows, encoder=Words(), **settings)


def test_the_instruction_a_turn_for_each_example_and_the_query_last():
    selection = selector_of(system=SYSTEM).select(QUERY, k=2)
    first, last = selection.examples
    assert selection.messages == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": first.input},
        {"role": "assistant", "content": first.output},
        {"role": "user", "content": last.input},
        {"role": "assistant", "content": last.output},
        {"role": "user", "content": QUERY},
    ]
    assert selection.prompt == f"{selection.text}{QUERY}\n"
    assert selection.text.startswith(f"{SYSTEM}\n\n{first.input}")
    assert selector_of().select(QUERY, k=1).messages[0]["role"] == "user"


def test_a_model_without_a_system_message_gets_the_instruction_in_its_first_turn():
    selection = selector_of(system=SYSTEM, system_role="user").select(QUERY, k=1)
    first, *_ = selection.messages
    assert first == {"role": "user", "content": f"{SYSTEM}\n\n{selection.examples[0].input}"}


def test_an_instruction_names_the_labels_that_the_bank_has_now():
    selector = selector_of(system="One of {labels}.")
    labels = sorted({example.output for example in selector.examples})
    assert selector.select(QUERY, k=1).messages[0]["content"] == f"One of {', '.join(labels)}."
    ids = selector.add([{"input": "a new day", "output": "zebra"}])
    assert selector.select(QUERY, k=1).text.startswith(f"One of {', '.join([*labels, 'zebra'])}.")
    selector.remove(ids)
    assert "zebra" not in selector.select(QUERY, k=1).text


def test_settings_of_the_prompt_are_saved_and_checked(tmp_path):
    register_order("as chosen", lambda relevance, gains: range(len(gains)), replace=True)
    settings = {"system": "One of {labels}.", "order": "as chosen", "k": 2}
    selector = CeilSelector.from_examples(ROWS, encoder="tiny", **settings)
    selector.save_pretrained(tmp_path / "kept")
    again = CeilSelector.from_pretrained(tmp_path / "kept")
    assert again.select(QUERY).messages == selector.select(QUERY).messages
    assert len(again.select(QUERY)) == 2
    nearest_first, *_ = again.select(QUERY)
    [*_, nearest_last] = CeilSelector.from_examples(ROWS, encoder="tiny", k=2).select(QUERY)
    assert nearest_first.id == nearest_last.id
    with refused(r"names \{team\}; the only name allowed in braces is \{labels\}"):
        selector_of(system="A {team}?")
    with refused("unknown order of examples 'nonsense'"):
        selector_of(order="nonsense")
    with refused("system_role is 'root'; expected 'system' or 'user'"):
        selector_of(system_role="root")


def test_zero_examples():
    selection = selector_of(system=SYSTEM, k=0).select(QUERY)
    assert (len(selection), selection.stopped) == (0, "k")
    assert [message["role"] for message in selection.messages] == ["system", "user"]
    assert selection.prompt == f"{SYSTEM}\n\n{QUERY}\n"


def test_an_instruction_counts_in_the_token_budget():
    def words(texts):
        return [len(text.split()) for text in texts]

    plain = selector_of(count_tokens=words).select(QUERY, token_budget=9)
    told = selector_of(count_tokens=words, system="one two three four")
    assert told.select(QUERY, token_budget=9 + 4).examples == plain.examples
    shorter = told.select(QUERY, token_budget=9)
    assert len(shorter) < len(plain)
    assert shorter.tokens == words([shorter.text])[0] <= 9
    with refused("the instruction alone has 4 tokens, more than token_budget=3"):
        told.select(QUERY, token_budget=3)


ALPACA = [
    {"instruction": f"Sort list {i}.", "input": f"PAYLOAD-{i}", "output": f"answer {i}"}
    for i in range(8)
]
ASKED = {"instruction": "Sort list 99.", "input": "PAYLOAD-99"}


def test_a_turn_shows_what_the_template_shows():
    def asked(**settings):
        return selector_of(ALPACA, input_key="instruction", **settings).select(ASKED, k=2).messages

    messages = asked(template="{instruction} {input}\n{output}")
    assert messages[-1]["content"] == "Sort list 99. PAYLOAD-99"
    assert messages[1]["content"].startswith("answer ")
    assert asked()[-1]["content"] == "Sort list 99."


@pytest.mark.parametrize(
    "name", ["Review Text", "a.b", "Q: text", "2023", "cost [EUR]", "re\u0301"]
)
def test_columns_may_be_called_anything(name):
    rows = [{"text": f"film {i}", "label": "good", name: f"more {i}"} for i in range(6)]
    composed = name.replace("e\u0301", "é")
    pattern = f"{{text}} / {{{composed}}} {{label}}"
    selector = selector_of(rows, input_key="text", output_key="label", template=pattern)
    messages = selector.select({"text": "a film", name: "more"}, k=1).messages
    assert [message["content"] for message in messages[1:]] == ["good", "a film / more"]
