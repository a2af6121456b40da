"""A task of one's own in a run, and the template of its selector."""

from ceil_jax.pipeline.config import RunConfig
from ceil_jax.pipeline.export import of_plain_queries
from ceil_jax.pipeline.graph import open_run
from ceil_jax.tasks.example import Example, Task, Template


def row(id, text, /, **fields):
    return Example(id, text, "x", fields=fields)


def test_a_query_that_stands_in_the_bank_is_never_its_own_example():
    bank = [row("1", "red apple"), row("2", "blue  sky"), row("3", "green grass")]
    task = Task("fruit", bank, [row("1", "blue sky")], Template("{input} {output}"), "exact_match")
    _, graph = open_run(RunConfig(encoder="tiny", lm="tiny", shots=1), task)
    assert [one.id for one in graph.bank.examples] == ["1", "3"]
    # the bank's row 1 is another question, which the query may get
    assert [one.id for one in graph.queries.examples] == ["query-1"]


def test_a_template_that_names_the_input_by_a_field_takes_plain_queries():
    def shape(pattern, *rows):
        return of_plain_queries(Task("films", rows, [], Template(pattern), "exact_match"))

    same, other = row("1", "a film", text="a film"), row("2", "a play", text="a stage play")
    query = Example("", "a warm film", "")
    assert shape("{text} is {output}", same).query(query) == "a warm film is"
    assert shape("{text} is {output}", same, other).input == "input"
    assert shape("{text} {input} {output}", same).input == "input"
