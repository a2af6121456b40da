"""The LangChain adapter inside LangChain's own templates."""

import asyncio

import pytest
from langchain_core.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    FewShotPromptTemplate,
    PromptTemplate,
)
from refusing import refused
from selector_words import QUERY, ROWS, Words, words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters.langchain import CeilExampleSelector

BRACES = [
    {"input": "print a set", "output": "{1, 2}"},
    {"input": "print {name}", "output": "f'{name}'"},
]


def selector(rows=ROWS, **settings):
    return CeilSelector.from_examples(rows, encoder=Words(), **settings)


def string_prompt(chooser, pattern="{input} -> {output}", suffix="{input} ->"):
    return FewShotPromptTemplate(
        example_selector=chooser,
        example_prompt=PromptTemplate.from_template(pattern),
        prefix="Dark or light?",
        suffix=suffix,
        input_variables=["input"],
        example_separator="\n",
    )


def chat_prompt(chooser):
    example = ChatPromptTemplate.from_messages([("human", "{input}"), ("ai", "{output}")])
    few_shot = FewShotChatMessagePromptTemplate(
        example_selector=chooser, example_prompt=example, input_variables=["input"]
    )
    return ChatPromptTemplate.from_messages(
        [("system", "Dark or light?"), few_shot, ("human", "{input}")]
    )


def test_the_string_template_holds_the_chosen_set_in_prompt_order():
    bank = selector()
    expected = [f"{e.input} -> {e.output}" for e in bank.select(QUERY, k=3).examples]
    prompt = string_prompt(CeilExampleSelector(bank, k=3))
    text = "\n".join(["Dark or light?", *expected, f"{QUERY} ->"])
    assert prompt.format(input=QUERY) == text
    assert asyncio.run(prompt.aformat(input=QUERY)) == text
    assert prompt.invoke({"input": QUERY}).to_string() == text


def test_where_no_example_is_near_a_prompt_has_none():
    bank = selector()
    prompt = string_prompt(CeilExampleSelector(bank, k=3, min_relevance=1.0))
    assert prompt.format(input="zebra") == "Dark or light?\nzebra ->"


def test_the_chat_template_has_a_turn_for_each_example():
    bank = selector()
    chosen = bank.select(QUERY, k=2).examples
    expected = [("system", "Dark or light?")]
    for example in chosen:
        expected += [("human", example.input), ("ai", example.output)]
    expected.append(("human", QUERY))
    prompt = chat_prompt(CeilExampleSelector(bank, k=2))
    assert [(m.type, m.content) for m in prompt.format_messages(input=QUERY)] == expected
    again = asyncio.run(prompt.aformat_messages(input=QUERY))
    assert [(m.type, m.content) for m in again] == expected


def test_other_keys_metadata_and_options():
    bank = selector(count_tokens=words)
    options = {
        "token_budget": 12,
        "trade_off": 0.5,
        "filter": {"town": "town1"},
        "balance": "label",
    }
    chooser = CeilExampleSelector(bank, input_key="text", output_key="label", **options)
    rows = chooser.select_examples({"text": QUERY, "other": 1})
    expected = bank.select(QUERY, **options).examples
    assert [row["text"] for row in rows] == [example.input for example in expected]
    assert {row["label"] for row in rows} == {"dark", "light"}
    assert {row["town"] for row in rows} == {"town1"}
    with refused(r"the query has no 'text', only input; say which keys .* input_key=…"):
        chooser.select_examples({"input": QUERY})
    row = {"text": "red light", "label": "stop"}
    own = CeilSelector.from_examples([row], encoder=Words(), input_key="text", output_key="label")
    assert CeilExampleSelector(own, k=1).select_examples({"text": "a light"}) == [row]


def test_an_added_example_is_seen_by_the_next_prompt():
    chooser = CeilExampleSelector(selector(own_answer=True), input_key="text", k=1)
    new = "a lighthouse"
    id = chooser.add_example({"text": new, "output": "neither", "town": "town9"})
    assert chooser.select_examples({"text": new}) == [
        {"text": new, "output": "neither", "town": "town9"}
    ]
    chooser.selector.remove(id)
    assert chooser.select_examples({"text": new})[0]["output"] != "neither"
    added = asyncio.run(chooser.aadd_example({"text": new, "output": "both"}))
    assert asyncio.run(chooser.aselect_examples({"text": new}))[0]["output"] == "both"
    assert added in {example.id for example in chooser.selector.examples}
    with refused("the example has no 'output', only text"):
        chooser.add_example({"text": "x"})


def test_braces_are_refused_with_the_remedy():
    with refused(
        r"example 'bank-\d' holds a brace, which FewShotPromptTemplate .* braces='f-string'"
    ):
        string_prompt(CeilExampleSelector(selector(BRACES), k=2)).format(input="print")
    with refused("braces is 'double'; expected 'refuse', 'keep', or the template_format"):
        CeilExampleSelector(selector(BRACES), k=1, braces="double")
    with refused("k is -1; expected a whole number at least 0"):
        CeilExampleSelector(selector(BRACES), k=-1)


@pytest.mark.parametrize("inner", ["f-string", "jinja2"])
def test_braces_come_out_as_they_are_in_a_jinja2_template(inner):
    texts = [
        "set {x}",
        "{{ 7 * 7 }}",
        "{% for i in [1, 2] %}no{% endfor %}",
        "{# gone #}",
        "}} {{'{'}} {",
    ]
    pattern = {"f-string": "{input} -> {output}", "jinja2": "{{ input }} -> {{ output }}"}[inner]
    prompt = FewShotPromptTemplate(
        example_selector=CeilExampleSelector(
            selector([{"input": text, "output": text} for text in texts]), k=5, braces="jinja2"
        ),
        template_format="jinja2",
        example_prompt=PromptTemplate.from_template(pattern, template_format=inner),
        suffix="{{ input }} ->",
        input_variables=["input"],
        example_separator="\n",
    )
    *lines, last = prompt.format(input="{{ 1 }}").splitlines()
    assert sorted(lines) == sorted(f"{text} -> {text}" for text in texts)
    assert last == "{{ 1 }} ->"


def test_braces_come_out_as_they_are_in_an_f_string_and_in_the_chat_template():
    lines = string_prompt(CeilExampleSelector(selector(BRACES), k=2, braces="f-string"))
    lines = lines.format(input="print {this}").splitlines()
    assert set(lines[1:3]) == {f"{row['input']} -> {row['output']}" for row in BRACES}
    assert lines[3] == "print {this} ->"
    turns = chat_prompt(CeilExampleSelector(selector(BRACES), k=2, braces="keep"))
    contents = [m.content for m in turns.format_messages(input="print {this}")]
    assert set(contents[1:5]) == {text for row in BRACES for text in row.values()}
    assert contents[5] == "print {this}"


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
    chooser = CeilExampleSelector(bank, k=3)
    chosen = [row["answer"] for row in chooser.select_examples(ASKED)]
    assert chosen == [example.output for example in bank.select(ASKED, k=3)]
    assert {*chosen} & {*NAMES}
    # and the same context is the query's own
    own = {**CONTRACTS[0], "answer": "not read", "history": [1, 2]}
    assert "Ada" not in [row["answer"] for row in chooser.select_examples(own)]
    # by another name of the variable for the query
    renamed = CeilExampleSelector(bank, k=3, input_key="input")
    variables = {"input": ASKED["question"], "context": ASKED["context"]}
    assert [row["answer"] for row in renamed.select_examples(variables)] == chosen
