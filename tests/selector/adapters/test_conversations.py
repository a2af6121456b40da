"""Banks of conversations in the form of OpenAI's chat API: tool calls, several turns."""

import doctest
import json

import pytest
from datasets import Dataset
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters import conversations
from ceil_jax.selector.adapters.conversations import conversation_examples, conversation_query

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "set_light", "arguments": '{"room": "hall"}'},
}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


RULES = {"role": "system", "content": "Be brief."}
SEVERAL = [RULES, user("Hello river"), assistant("Hi."), user("And the sea?"), assistant("Blue.")]
TOOLS = [
    RULES,
    user("Hall light on"),
    assistant(None, tool_calls=[CALL]),
    {"role": "tool", "tool_call_id": "c1", "content": "on"},
    assistant("It is on."),
]
CALLING = [RULES, user("Hall light off"), assistant(None, tool_calls=[CALL])]


def test_the_example_in_the_documentation():
    assert doctest.testmod(conversations) == (0, 5)


def selected(rows, query, k=3):
    bank = conversation_examples(rows)
    return CeilSelector.from_examples(bank, encoder=Words()).select(query, k=k)


def test_openai_s_lines_come_back_with_all_their_turns():
    lines = [
        {"messages": SEVERAL, "tools": [CALL["function"]], "lang": "en"},
        {"messages": TOOLS},
        {"messages": CALLING},
    ]
    file = [json.dumps(line) for line in lines]
    bank = {example.output: example for example in conversation_examples(map(json.loads, file))}
    assert set(bank) == {"Blue.", "It is on.", json.dumps([CALL])}
    assert bank["Blue."].input == "Hello river\nHi.\nAnd the sea?"  # without the rules
    assert bank["Blue."].fields["lang"] == "en"
    assert json.loads(bank["Blue."].fields["tools"]) == [CALL["function"]]
    messages = selected(lines, "Light on").messages
    # the system message that all share stands once, before all
    assert messages[0] == RULES
    assert messages.count(RULES) == 1
    assert messages[-1] == user("Light on")
    between = messages[1:-1]
    for turns in (SEVERAL, TOOLS, CALLING):
        start = between.index(turns[1])
        assert between[start : start + len(turns) - 1] == turns[1:]
    # a call that no tool answers would be refused by servers
    after = between.index(CALLING[-1], between.index(CALLING[1])) + 1
    assert between[after] == {"role": "tool", "tool_call_id": "c1", "content": ""}


def test_a_query_may_be_a_conversation_too():
    asked = [RULES, user("Hello sea"), assistant("Hi."), user("And the river?")]
    selection = selected([{"messages": SEVERAL}], conversation_query(asked), k=1)
    assert selection.messages == [*SEVERAL, *asked[1:]]
    selector = CeilSelector.from_examples(
        conversation_examples([{"messages": SEVERAL}]), encoder=Words(), system="Other."
    )
    told = selector.select(conversation_query(asked), k=1)
    assert told.messages == [{"role": "system", "content": "Other."}, *SEVERAL[1:], *asked[1:]]


def as_sent(rows):
    return selected(rows, "x", k=1).messages[:-1]


def test_tables_write_keys_without_a_value_and_servers_get_none_of_them():
    rows = Dataset.from_list([{"messages": TOOLS}, {"messages": TOOLS}])
    # a column of structs has all keys in all rows
    assert rows[0]["messages"][1]["tool_calls"] is None
    assert as_sent(rows) == TOOLS


def test_a_content_in_parts():
    system = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    parts = [{"type": "text", "text": "Hall "}, {"type": "text", "text": "light"}]
    turns = [system, user(parts), assistant("On.")]
    [example] = conversation_examples(iter([{"messages": turns}]))
    assert (example.input, example.output) == ("Hall light", "On.")
    assert as_sent([{"messages": turns}]) == turns


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "x"}, "field 'messages': expected a list of messages"),
        ({"messages": []}, "expected a list of messages"),
        ({"messages": ["hello"]}, "expected a list of messages"),
        ({"messages": [user("x")]}, "an answer of the assistant after a message of the user"),
        ({"messages": [assistant("x")]}, "an answer of the assistant after"),
        ({"messages": [{"content": "x"}]}, "expected a list of messages"),
        ({"messages": [user(3)]}, "expected a list of messages"),
        ({"messages": json.dumps(SEVERAL)}, "expected a list of messages"),
        ({"conversations": [{"from": "human", "value": "x"}]}, "OpenAI's chat API"),
        ({"messages": [user("x"), assistant(None, tool_calls=[{"type": "function"}])]}, "OpenAI"),
        (SEVERAL, "found list; the lines of a file are map"),
    ],
)
def test_what_is_no_conversation_is_named(row, said):
    with refused(f"conversations, row 1.*{said}"):
        conversation_examples([row])


def test_a_field_called_messages_that_is_none_is_a_field():
    rows = [{"input": f"a{i}", "output": "b", "messages": "[{nothing"} for i in range(3)]
    selection = CeilSelector.from_examples(rows, encoder=Words()).select("a", k=1)
    assert selection.messages[1] == assistant("b")


def test_a_query_without_a_message_of_the_user_is_refused():
    with refused("the query: expected a message of the user"):
        conversation_query([RULES, assistant("Hi.")])
    with refused("the query: expected a list of messages"):
        conversation_query("Hello")


def test_a_file_of_conversations_says_what_reads_it(tmp_path):
    file = tmp_path / "tuning.jsonl"
    file.write_text(f"{json.dumps({'messages': SEVERAL})}\n" * 2)
    with refused("no column 'input'.*'messages': lists.*conversation_examples"):
        CeilSelector.from_csv(file, encoder=Words())


def agreed(asked):
    """A conversation in which the user agrees to what the assistant has asked."""
    return [user("Hello"), assistant(asked), user("Yes please.")]


def test_a_follow_up_turn_means_what_the_assistant_had_asked():
    asked = {"cancel": "Cancel the order?", "invoice": "Send the invoice?"}
    rows = [
        {"messages": [*agreed(f"Order {i}. {text}"), assistant(f"{name} {i}")]}
        for i in range(4)
        for name, text in asked.items()
    ]
    selector = CeilSelector.from_examples(
        conversation_examples(rows), encoder=Words(), trade_off=0.01, near_duplicate=None
    )
    for name, text in asked.items():
        query = conversation_query(agreed(f"Order 7. {text}"))
        chosen = selector.select(query, k=3)
        assert {example.output.split()[0] for example in chosen} == {name}
        assert chosen.excluded == 0  # the user's words are alike, the question is another
    assert selector.select(conversation_query(rows[0]["messages"][:3]), k=3).excluded == 1


def test_a_tool_s_answer_is_part_of_what_was_said():
    call = assistant(None, tool_calls=[CALL])
    turns = [user("Light?"), call, {"role": "tool", "tool_call_id": CALL["id"], "content": "off"}]
    query = conversation_query(turns)
    assert query.input.split("\n") == ["Light?", json.dumps([CALL]), "off"]
