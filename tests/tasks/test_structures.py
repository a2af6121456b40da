"""Programs to names and edges, written out by hand."""

import pytest

from ceil_jax.tasks.example import Example
from ceil_jax.tasks.structures import bracketed, programs, sql, structure_parser_of


@pytest.mark.parametrize(
    ("parser", "program", "names", "edges"),
    [
        (
            bracketed,
            "answer(intersection(city, loc_2(m0)))",
            "answer intersection city loc_2 m0",
            "answer>intersection intersection>city intersection>loc_2 loc_2>m0",
        ),
        (
            bracketed,
            '(Yield (Event.subject_? (?~= "a (b")) (^(Day) Next 23L))',
            "Yield Event.subject_? ?~= value ^ Day Next",
            "Yield>Event.subject_? Event.subject_?>?~= ?~=>value Yield>^ ^>Day ^>Next ^>value",
        ),
        (
            bracketed,
            "[IN:GET [SL:CONTACT Angelika Kratzer ] [SL:DATE [IN:WEEK this ] ] ]",
            "IN:GET SL:CONTACT SL:DATE IN:WEEK",
            "IN:GET>SL:CONTACT IN:GET>SL:DATE SL:DATE>IN:WEEK",
        ),
        (
            bracketed,
            "eat(agent=*girl,theme=cake(nmod.on=table))",
            "eat agent *girl theme cake nmod.on table",
            "eat>agent agent>*girl eat>theme theme>cake cake>nmod.on nmod.on>table",
        ),
        (
            sql,
            "SELECT T1.name, COUNT(*) FROM head AS T1 WHERE T1 . age >= 56.5 GROUP BY name",
            "select name count * from head where age >= value group",
            "select>name select>count count>* from>head where>age where>>= where>value group>name",
        ),
        (
            sql,
            "SELECT a FROM b WHERE c NOT IN (SELECT d FROM e) ORDER BY f",
            "select a from b where c not in d e order f",
            "select>a from>b where>c where>not where>in where>select where>from select>d from>e "
            "order>f",
        ),
        (bracketed, ")a(b))", "a b", "a>b"),
        (sql, "SELECT a) FROM b", "select a from b", "select>a from>b"),
    ],
)
def test_names_and_edges(parser, program, names, edges):
    assert parser(program) == {*names.split(), *edges.split()}


@pytest.mark.parametrize(
    ("outputs", "parser"),
    [
        (["f(a,b)", "g(h(a))"], bracketed),
        (["[IN:A b ]", "(f (g a))"], bracketed),
        (["select a from b", "SELECT count(*)\nFROM c"], sql),
        (["f(a)", "f(a) and g(b)"], None),
        (["good (really)", "ls $(pwd)"], None),
        (["select me", "f(a", "f)a("], None),
    ],
)
def test_the_parser_of_a_task_follows_its_outputs(outputs, parser):
    bank = [Example(str(i), "q", output) for i, output in enumerate(outputs)]
    assert structure_parser_of(bank) is parser


def test_programs_that_differ_in_values_are_one():
    outputs = ["f(state, 1)", "f(state, 2)", "f(river, 1)"]
    rows = [Example(output, "a question", output) for output in outputs]
    first, second, third = programs(rows, rows)
    assert first == second != third
    assert programs(rows, [Example("w", "a question", "in words")]) is None


def test_programs_of_named_arguments_that_differ_in_words_are_one():
    outputs = [
        "lend(agent=Emma,theme=*cookie(nmod.in=box))",
        "eat(agent=boy,theme=cake(nmod.in=*room))",
        "eat(agent=boy,theme=cake(nmod.on=*room))",
        "eat(theme=cake(nmod.in=*room),agent=boy)",
    ]
    rows = [Example(output, "a question", output) for output in outputs]
    first, second, *others = programs(rows, rows)
    assert first == second
    assert len({first, *others}) == 3
    # a few forms of one word alone do not change what the others are
    assert (
        programs(rows, [*rows * 9, Example("w", "Paula", "Paula")]) == programs(rows, rows)
    ).all()
