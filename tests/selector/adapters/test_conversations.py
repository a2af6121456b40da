"""Banks of conversations: OpenAI's fine-tuning lines, ShareGPT, tool calls, several turns."""

import doctest
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from refusing import refused
from selector_words import Words

from ceil_jax import CeilSelector
from ceil_jax.selector.adapters import conversations
from ceil_jax.selector.adapters.chat import chat_messages
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


def test_openai_s_lines_come_back_with_all_their_turns(tmp_path):
    file = tmp_path / "tuning.jsonl"
    lines = [
        {"messages": SEVERAL, "tools": [CALL["function"]], "lang": "en"},
        {"messages": TOOLS},
        {"messages": CALLING},
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    bank = {example.output: example for example in conversation_examples(file)}
    assert set(bank) == {"Blue.", "It is on.", json.dumps([CALL])}
    assert bank["Blue."].input == "Hello river\nAnd the sea?"
    assert bank["Blue."].fields["lang"] == "en"
    assert json.loads(bank["Blue."].fields["tools"]) == [CALL["function"]]
    messages = chat_messages(selected(file, "Light on"))
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
    assert chat_messages(selection) == [*SEVERAL, *asked[1:]]
    assert chat_messages(selection, system="Other.")[0]["content"] == "Other."


def test_share_gpt_is_read_as_it_is():
    row = {
        "id": "x-1",
        "conversations": [
            {"from": "human", "value": "Hall light on"},
            {"from": "function_call", "value": '{"name": "set_light", "arguments": {"room": 1}}'},
            {"from": "observation", "value": "done"},
            {"from": "gpt", "value": "It is on."},
        ],
    }
    [example] = conversation_examples([row])
    assert (example.id, example.input, example.output) == ("x-1", "Hall light on", "It is on.")
    messages = chat_messages(selected([row], "x", k=1))
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    [call] = messages[1]["tool_calls"]
    assert call["function"] == {"name": "set_light", "arguments": '{"room": 1}'}
    assert messages[2] == {"role": "tool", "tool_call_id": call["id"], "content": "done"}


def as_sent(rows):
    return chat_messages(selected(rows, "x", k=1))[:-1]


def test_tables_write_keys_without_a_value_and_servers_get_none_of_them(tmp_path):
    rows = [{"messages": TOOLS}, {"messages": TOOLS}]
    file = tmp_path / "tools.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    # a column of structs has all keys in all rows, and pandas has arrays in place of lists
    assert pq.read_table(file).to_pylist()[0]["messages"][1]["tool_calls"] is None
    for source in (file, pd.read_parquet(file), Dataset.from_list(rows)):
        assert as_sent(source) == TOOLS


def test_keys_that_only_training_reads_are_not_sent():
    turns = [user("Hello"), assistant("Hi."), user("And?"), assistant("No.")]
    weighted = [{**turn, "weight": 0} if turn["role"] == "assistant" else turn for turn in turns]
    assert as_sent([{"messages": weighted}]) == turns


def test_tool_calls_of_transformers_get_ids_and_arguments_as_text():
    call = {"type": "function", "function": {"name": "set_light", "arguments": {"room": "hall"}}}
    results = [{"role": "tool", "name": "set_light", "content": text} for text in ("on", "off")]
    turns = [user("Light"), assistant(None, tool_calls=[call, call]), *results, assistant("Done.")]
    _, calling, first, second, _ = as_sent([{"messages": turns}])
    assert [made["function"] for made in calling["tool_calls"]] == [CALL["function"]] * 2
    assert first["tool_call_id"] == calling["tool_calls"][0]["id"]
    assert second["tool_call_id"] == calling["tool_calls"][1]["id"] != first["tool_call_id"]


def test_a_system_message_in_parts_and_roles_of_langchain():
    system = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    turns = [system, {"role": "human", "content": "Hello"}, {"role": "ai", "content": "Hi."}]
    assert as_sent([{"messages": turns}]) == [system, user("Hello"), assistant("Hi.")]
    assert as_sent(iter([{"messages": turns}])) == as_sent([{"messages": turns}])


def test_parts_of_a_content_and_the_old_function_call():
    parts = [{"type": "text", "text": "Hall "}, {"type": "text", "text": "light"}]
    turns = [user(parts), assistant(None, function_call=CALL["function"])]
    [example] = conversation_examples([{"messages": turns}])
    assert (example.input, json.loads(example.output)) == ("Hall light", CALL["function"])
    assert chat_messages(selected([{"messages": turns}], "x", k=1))[:2] == turns


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "x"}, "field 'messages': expected a list of messages"),
        ({"messages": []}, "expected a list of messages"),
        ({"messages": ["hello"]}, "expected a list of messages"),
        ({"messages": [user("x")]}, "an answer of the assistant behind a message of the user"),
        ({"messages": [assistant("x")]}, "an answer of the assistant behind"),
        ({"messages": [{"content": "x"}]}, "expected a list of messages"),
    ],
)
def test_what_is_no_conversation_is_named(row, said):
    with refused(f"conversations, row 1.*{said}"):
        conversation_examples([row])


def test_a_field_called_messages_that_is_none_is_a_field():
    rows = [{"input": f"a{i}", "output": "b", "messages": "[{nothing"} for i in range(3)]
    selection = CeilSelector.from_examples(rows, encoder=Words()).select("a", k=1)
    assert chat_messages(selection)[1] == assistant("b")


def test_rows_that_are_no_mappings_and_calls_that_are_no_json(tmp_path):
    with refused(r"row 1: expected \{.messages.: .*found list"):
        conversation_examples([SEVERAL])
    broken = [{"from": "human", "value": "Light"}, {"from": "function_call", "value": "{name"}]
    with refused("row 1, field 'conversations': expected a function call as JSON, found '{name'"):
        conversation_examples([{"conversations": broken}])


def test_a_file_of_conversations_says_what_reads_it(tmp_path):
    file = tmp_path / "tuning.jsonl"
    file.write_text(f"{json.dumps({'messages': SEVERAL})}\n" * 2)
    with refused("no column 'input'.*in 'messages' stand objects.*conversation_examples"):
        CeilSelector.from_csv(file, encoder=Words())
