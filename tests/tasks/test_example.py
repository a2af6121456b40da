"""How one row of every task stands in a prompt, as a whole string: reference.md's table."""

import doctest
import pickle

import pytest
from refusing import refused

from ceil_jax.errors import UserError
from ceil_jax.tasks import TASKS, Example, Template, example
from ceil_jax.tasks.example import column_template

QUESTION_FUNQL = {"question": "what is m0", "funql": "answer(m0)"}
UTTERANCE = {"user_utterance": "Who is coming?", "lispress": "(Yield (Attendees))"}
SQL_ROW = {
    "db_id": "zoo",
    "question": "How many  cats?",
    "query": "SELECT count(*)\nFROM cat  WHERE name = 'a  b'",
    "schema": "cat [id, name]",
    "database": "",
}
COGS_ROW = {
    "sentence": "The boy wanted to crawl .",
    "logical_form": "* boy ( x _ 1 ) ; want . agent ( x _ 2 , x _ 1 ) AND want . xcomp ( x _ 2 , "
    "x _ 4 )"
    " AND crawl . agent ( x _ 4 , x _ 1 )",
    "distribution": "prim_to_inf_arg",
}

SQL_PROMPT = (
    "Database: cat [id, name]\nQuestion: How many cats?\nSQL:| SELECT count(*) FROM cat "
    "WHERE name = 'a  b'"
)

# task -> (row, retrieval text, the query's text | the rest of the example in context, its options)
CASES = {
    "sst5": (
        {"text": "fine .", "label": 2},
        "fine .",
        "fine . It is| OK",
        "terrible bad OK good great",
    ),
    "movie_reviews": (
        {"text": "fine.", "rating": 0.7},
        "fine.",
        "fine. It is| good",
        "terrible bad okay good great",
    ),
    "mrpc": (
        {"sentence1": "A ran.", "sentence2": "A jogged.", "label": 1},
        "A ran. A jogged.",
        'A ran. Can we say "A jogged."?| Yes',
        "No Yes",
    ),
    "mnli": (
        {"premise": "A ran.", "hypothesis": "A slept.", "label": 2},
        "A ran. A slept.",
        'A ran. Can we say "A slept."?| No',
        "Yes Maybe No",
    ),
    "qnli": (
        {"question": "Who ran?", "sentence": "A ran.", "label": 0},
        "A ran. Who ran?",
        'A ran. Can we know "Who ran?"?| Yes',
        "Yes No",
    ),
    "cmsqa": (
        {
            "question": "Where?",
            "choices": {"label": list("ABCDE"), "text": list("vwxyz")},
            "answerKey": "B",
        },
        "Where?",
        "Where?| w",
        "v w x y z",
    ),
    "swag": (
        {"startphrase": "She", "label": 3} | {f"ending{i}": f"{'abcd'[i]}." for i in range(4)},
        "She",
        "She| d.",
        "a. b. c. d.",
    ),
    "hellaswag": (
        {"ctx": "A man. he", "endings": ["a.", "b.", "c.", "d."], "label": "1"},
        "A man. he",
        "A man. he| b.",
        "a. b. c. d.",
    ),
    "webqs": ({"question": "who?", "answers": ["Ann Lee", "Bo"]}, "who?", "who?| Ann Lee", ""),
    "nl2bash": ({"nl": "list", "bash": "ls -l"}, "list", "list\t|ls -l", ""),
    "break": (
        {"question_text": "flights  from a ", "decomposition": "return flights ;return #1 from  a"},
        "flights from a",
        "flights from a\t|1#) return flights 2#) return #1 from a",
        "",
    ),
    "mtop": (
        {"question": "call Al", "logical_form": "[IN:CALL ]"},
        "call Al",
        "call Al\t|[IN:CALL ]",
        "",
    ),
    "repairs": (
        {"request": "Riga: the tap is slow", "call": "fix(tap(Leo),slow(oil),Riga(red))"},
        "Riga: the tap is slow",
        "Riga: the tap is slow\t|fix(tap(Leo),slow(oil),Riga(red))",
        "",
    ),
    "smcalflow": (UTTERANCE, "Who is coming?", "Who is coming?\t|(Yield (Attendees))", ""),
}
CASES |= dict.fromkeys(
    ("geoquery", "geoquery.template", "geoquery.tmcd", "geoquery.length"),
    (QUESTION_FUNQL, "what is m0", "what is m0\t|answer(m0)", ""),
)
CASES |= {
    f"smcalflow_cs.{variant}": CASES["smcalflow"] for variant in ("0s", "0c", "8c", "16c", "32c")
}
CASES |= dict.fromkeys(
    ("spider", "dr_spider.db", "dr_spider.nlq", "dr_spider.sql", "kaggledbqa"),
    (SQL_ROW, "How many cats?", SQL_PROMPT, ""),
)
BOY = "The boy wanted to crawl ."
CASES |= dict.fromkeys(
    ("cogs.ps", "cogs.pa"), (COGS_ROW, BOY, f"{BOY}\t|want(agent=*boy,xcomp=crawl)", "")
)


def test_every_task_has_a_case():
    assert CASES.keys() == TASKS.keys()


@pytest.mark.parametrize("name", TASKS)
def test_prompt(name):
    row, retrieval_text, shown, options = CASES[name]
    query, _, answer = shown.partition("|")
    spec = TASKS[name]
    example = spec.example("train-0", row)
    assert example.id == "train-0"
    assert example.input == retrieval_text
    assert spec.template.example(example) == query + answer
    assert spec.template.query(example) == query
    assert spec.template.continuation(example, example.output) == answer
    assert example.choices == tuple(options.split())
    assert not example.choices or example.output in example.choices
    assert spec.template.separator == ("\n\n" if spec.metric == "sql_execution" else "\n")


def test_the_texts_of_a_pair():
    row = {"sentence1": "A ran.", "sentence2": "A jogged.", "label": 1}
    pair = TASKS["mrpc"].example("1", row)
    assert pair.texts == ("A ran.", "A jogged.")
    assert pair.input == "A ran. A jogged."
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert Example("1", "one text", "x").texts == ("one text",)


def test_every_gold_answer_of_web_questions_counts():
    row = CASES["webqs"][0]
    assert TASKS["webqs"].example("test-0", row).references == ("Ann Lee", "Bo")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("{text {output}", "found a single '{' at place 0"),
        ("a } {input} {output}", "found a single '}' at place 2"),
        ("{} {input} {output}", "found a single '{' at place 0"),
        ("{output} {input}", "must end with its only {output}"),
        ("{output} {output}", "must end with its only {output}"),
        ("{input} {output}.", "must end with its only {output}"),
    ],
)
def test_what_a_pattern_may_not_be(pattern, found):
    with pytest.raises(UserError) as caught:
        Template(pattern)
    assert found in str(caught.value)


def test_literal_braces():
    template = Template("{{{input}}} {{x}} {output}")
    assert template.names == ("input", "output")
    assert template.example(Example("a", "in", "out")) == "{in} {x} out"


def test_names_are_any_text():
    names = [
        "2023",
        "a.b",
        "Q: text",
        "cost [EUR]",
        "why?!",
        " padded ",
        "0",
        "size{cm}",
        "a!r",
        "名前",
    ]
    row = Example("1", "in", "out", fields={name: f"<{place}>" for place, name in enumerate(names)})
    template = Template("".join(f"{{{name}}}" for name in names) + "{input}{output}")
    assert template.example(row) == "<0><1><2><3><4><5><6><7><8><9>inout"


def test_a_role_may_go_by_another_name_beside_a_field_that_is_called_like_it():
    row = Example("1", "Sort.", "a b", fields={"input": "b a", "output": "none"})
    template = Template("{task} {input} not {output} -> {answer}", input="task", output="answer")
    assert template.example(row) == "Sort. b a not none -> a b"
    with refused("names 'task', which example '1' lacks; it has 'input', 'output'"):
        Template("{task} {output}").query(row)


@pytest.mark.parametrize(
    ("pattern", "input", "output", "others", "expected"),
    [
        # no other column has our names: the roles take them
        (
            "{text} {{is}} {label}",
            "text",
            "label",
            ["year"],
            ("{input} {{is}} {output}", "input", "output"),
        ),
        (
            "{input} {at} {output}",
            "text",
            "label",
            ["at"],
            ("{input} {at} {output}", "input", "output"),
        ),
        ("{output} -> {label}", "output", "label", [], ("{input} -> {output}", "input", "output")),
        ("{output} -> {input}", "output", "input", [], ("{input} -> {output}", "input", "output")),
        # another column has one of them, and keeps it
        ("{q} {input} {output}", "q", "output", ["input"], ("{q} {input} {output}", "q", "output")),
        (
            "{q} {output} {label}",
            "q",
            "label",
            ["output"],
            ("{input} {output} {label}", "input", "label"),
        ),
    ],
)
def test_names_of_columns(pattern, input, output, others, expected):
    found = column_template(pattern, "\n", input, output, [input, output, *others])
    assert found == Template(expected[0], "\n", *expected[1:])


def test_the_answer_is_the_column_of_answers():
    with refused(r"only \{label\}"):
        column_template("{q} {output}", "\n", "q", "label", ["q", "label", "output"])
    with refused(r"must end with its only \{output\}"):
        column_template("{label} {label}", "\n", "q", "label", ["q", "label"])


def test_the_docstrings_example():
    assert doctest.testmod(example).failed == 0


@pytest.mark.parametrize(
    ("pattern", "input", "output", "shown"),
    [
        ("{text} It is {label}", "text", "label", "IN It is OUT"),
        ("{text} It is {output}", "text", "label", "IN It is OUT"),
        ("{input} It is {label}", "text", "label", "IN It is OUT"),
        # a column called like a role is a column where the input is named too
        ("{text} {input} {output}", "text", "output", "IN more OUT"),
        ("{text} {output} {label}", "text", "label", "IN other OUT"),
    ],
)
def test_a_pattern_without_a_table_may_use_keys(pattern, input, output, shown):
    row = Example("1", "IN", "OUT", fields={"input": "more", "output": "other"})
    assert column_template(pattern, "\n", input, output).example(row) == shown
