"""A selection as chat messages."""

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
    with refused(r"'{town}': KeyError\('town'\); 'the query' has input"):
        chat_messages(chosen(), user="{town}")
    with refused(r"written \{\{ and \}\}"):
        chat_messages(chosen(), user="{input} {")
    for pattern in ("{input.x}", "{input[x]}", "{}"):
        with refused("braces that are meant"):
            chat_messages(chosen(), user=pattern)
    none = CeilSelector.from_examples([], encoder=Words()).select("x", k=1)
    assert chat_messages(none) == [{"role": "user", "content": "x"}]
