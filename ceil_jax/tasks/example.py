"""Examples, the template of an example in a prompt, and tasks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ceil_jax.errors import UserError
from ceil_jax.tasks.identity import question_key, same_text


@dataclass(frozen=True)
class Example:
    """One (input, output) pair of a bank, or a query whose output is the gold answer.

    Examples:
        >>> Example("1", "a dull film", "bad", choices=("bad", "good")).texts
        ('a dull film',)
    """

    id: str
    """An identifier, unique within its task and stable between runs; ids of different files are unrelated."""
    input: str
    """The text for retrieval: BM25's document, and the encoder's input."""
    output: str
    """The answer in the form that a prompt shows: a verbalised label, a program, a command."""
    choices: tuple[str, ...] = ()
    """The options as they would be written in a prompt, in label order; empty for free
    generation."""
    references: tuple[str, ...] = ()
    """All accepted answers where there are several; empty means `output` alone."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """The row's other columns, for the template, the metric and filters."""
    parts: tuple[str, ...] = ()
    """The texts that `input` was joined from, such as premise and hypothesis; empty if it is one
    text."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that the input is made of: `parts`, or `input` alone."""
        return self.parts or (self.input,)

    def field(self, name: str) -> str | None:
        """Return the value of a field; None if there is none.

        Names are compared by `question_key`.
        """
        written = same_text(name, self.fields)
        return None if written is None else self.fields[written]


Context = Literal["input", "example"]
"""The text of a bank example that encoders read: its input, or its input and output."""


def context_text(example: Example, context: Context) -> str:
    """Return the text that an encoder reads of a bank example."""
    return example.input if context == "input" else f"{example.input} {example.output}"


_PIECE = re.compile(r"\{\{|\}\}|\{(?P<name>(?:[^{}]|\{[^{}]*\})+)\}|[^{}]+|(?P<stray>.)", re.DOTALL)


_MOST_NAMES = 100
"""The maximum number of names in a pattern: each may stand for a text of any length."""


@functools.lru_cache(maxsize=256)
def pieces_of(pattern: str) -> tuple[tuple[str, str], ...]:
    """Return the pieces of a pattern, in order: (literal text, "") or ("", name in braces)."""
    pieces = []
    for piece in _PIECE.finditer(pattern):
        if piece["stray"]:
            raise UserError(
                f"{pattern!r:.200}: expected braces around one name each, as in {{input}}, and "
                f"literal braces written {{{{ and }}}}; found a single {piece[0]!r} at place "
                f"{piece.start()}"
            )
        literal = piece[0][:1] if piece[0] in ("{{", "}}") else piece[0]
        pieces.append(("", piece["name"]) if piece["name"] else (literal, ""))
    if sum(bool(name) for _, name in pieces) > _MOST_NAMES:
        raise UserError(f"{pattern!r:.200}: expected at most {_MOST_NAMES} names in braces")
    return tuple(pieces)


@dataclass(frozen=True)
class Template:
    """The form of an example in a prompt: `{sentence1} Can we say "{sentence2}"? {output}`.

        >>> Template("{input} It is {output}").example(Example("1", "A bright film.", "good"))
        'A bright film. It is good'

    A name in braces may be any text, as column names are: `{Q: text}`, `{2023}`, `{a.b}`.

    Raises:
        UserError: the pattern does not end with the answer, names it twice, or has an unpaired
            brace.
    """

    pattern: str
    """Text with names in braces. The answer's name comes once, at the end; each other name is that
    of the input, or a key of `Example.fields`. A literal brace is written twice."""
    separator: str = "\n"
    """The text between examples, and between the last one and the query."""
    input: str = "input"
    """The name of `Example.input` in the pattern, even if a field has the same name."""
    output: str = "output"
    """The name of the answer in the pattern."""

    def __post_init__(self) -> None:
        names = [name for _, name in pieces_of(self.pattern)]
        if names[-1:] != [self.output] or names.count(self.output) != 1:
            raise UserError(
                f"template {self.pattern!r:.200} must end with its only {{{self.output}}}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the pattern, in order; the answer's is the last."""
        return tuple(name for _, name in pieces_of(self.pattern) if name)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of an example's fields in the pattern, in order."""
        return tuple(name for name in self.names[:-1] if name != self.input)

    def _before_answer(self, example: Example) -> str:
        return "".join(
            self._value(name, example) if name else literal
            for literal, name in pieces_of(self.pattern)[:-1]
        )

    def _value(self, name: str, example: Example) -> str:
        value = example.input if name == self.input else example.field(name)
        if value is None:
            who = f"example {example.id!r}" if example.id else repr(example.input)[:60]
            names = dict.fromkeys((*example.fields, self.input))
            raise UserError(
                f"template {self.pattern!r} names {name!r}, which {who} lacks; "
                f"it has {', '.join(map(repr, names))}; literal braces are written {{{{ and }}}}"
            )
        return value

    def example(self, example: Example) -> str:
        """Return the text of a bank example with its answer in a prompt.

        Raises what `query` does.
        """
        return self._before_answer(example) + example.output

    def query(self, example: Example) -> str:
        """Return the text that the LM continues; the query's output is not read.

        A space before the answer is left to the continuation, because most tokenisers join it to
        the word that follows.

        Raises:
            UserError: the pattern names a field that the example lacks.
        """
        return self._before_answer(example).removesuffix(" ")

    def open_query(self) -> str:
        """Return the pattern up to the answer, with the names still in braces.

        >>> Template("Q: {input} A: {output}").open_query()
        'Q: {input} A:'
        """
        pieces = pieces_of(self.pattern)[:-1]
        pattern = "".join(f"{{{name}}}" if name else literal for literal, name in pieces)
        return pattern.removesuffix(" ")

    def continuation(self, example: Example, answer: str) -> str:
        """Return an answer as the continuation of `query`, with the space that `query` left out."""
        return (" " if self._before_answer(example).endswith(" ") else "") + answer


def column_template(
    pattern: str, separator: str, input: str, output: str, columns: Collection[str] | None = None
) -> Template:
    """Return the template for a pattern that names the columns of a table.

    In the pattern, `{input}` and `{output}` also name the two roles, unless another column has that
    name. Names are compared by `question_key`. In the template, the two roles are called `input`
    and `output` wherever no other column is.

    Args:
        pattern: the text of an example in a prompt, with names of columns in braces.
        separator: the text between examples.
        input: the column of the input; "" if the input is joined from several.
        output: the column of the output.
        columns: the names of all columns; by default those that the pattern names.

    Raises:
        UserError: the pattern does not end with the answer.
    """
    # all names as the table spells them
    known = [output, input, *(columns or ())]
    pattern = _renamed(pattern, lambda name: same_text(name, known) or name)
    names_in_pattern = [name for _, name in pieces_of(pattern)]
    if names_in_pattern[-1:] not in ([output], ["output"]):
        raise UserError(f"template {pattern!r:.200} must end with its only {{{output}}}")
    if columns is None:
        columns = {*names_in_pattern[:-1]}
        if input not in names_in_pattern:
            # the pattern then means the role by `{input}`
            columns = columns - {"input"}
    # the names of the two roles in the template
    other_columns = {*columns} - {input, output}
    input_name = input if "input" in other_columns else "input"
    output_name = output if "output" in other_columns else "output"
    # name in the pattern → name in the template
    new_names = {}
    if "input" not in columns:
        new_names["input"] = input_name
    if "output" not in columns:
        new_names["output"] = output_name
    new_names[output] = output_name
    new_names[input] = input_name
    written = _renamed(pattern, lambda name: new_names.get(name, name))
    return Template(written, separator, input_name, output_name)


def _renamed(pattern: str, rename: Callable[[str], str]) -> str:
    """Return a pattern with each name in braces replaced by `rename(name)`."""
    return _PIECE.sub(
        lambda piece: f"{{{rename(piece['name'])}}}" if piece["name"] else piece[0], pattern
    )


@dataclass(frozen=True)
class Task:
    """A data set ready for use: the bank, the queries, the template and the metric.

    Examples:
        >>> bank = [Example("1", "a dull film", "bad"), Example("2", "great fun", "good")]
        >>> queries = [Example("3", "what fun", "good"), Example("4", "so dull", "bad")]
        >>> task = Task("films", bank, queries, Template("{input} It is {output}"), "accuracy")
        >>> task.asked
        '2 held-out queries'
    """

    name: str
    train: Sequence[Example]
    """The bank, de-duplicated by the words of `input`; for a user's own file, by the text that a
    prompt shows."""
    validation: Sequence[Example]
    """The queries."""
    template: Template
    metric: str
    """The name of the metric in `ceil_jax.metrics.METRICS`."""
    max_new_tokens: int = 128
    """Maximum length of a generated answer in tokens, for tasks without choices."""
    stop: tuple[str, ...] = ("\n",)
    """Strings that end a generated answer, for tasks without choices."""
    few_shot: Sequence[Example] = ()
    """Examples that open every prompt, in this order, before the retrieved ones (SMCalFlow-CS
    k-C)."""
    more_metrics: tuple[str, ...] = ()
    """Metrics to report in addition to `metric`."""
    language: str = ""
    """The formal language of the answers, where Skill-KNN has demonstrations and a sketch for it:
    sql or cogs."""
    available: int = 0
    """How many queries the data set has, of which `validation` may be a sample; 0 if unknown."""
    per_token: bool = False
    """For tasks with choices: compare choices by the mean log-probability of their tokens, not by
    the sum, because they differ in length (Brown et al. 2020)."""
    input_key: str = "input"
    """The column of the inputs in the user's file, which is also its name in a selector's rows and
    queries."""
    output_key: str = "output"
    """The column of the outputs."""
    group: str = ""
    """The field whose rows of one value, such as a customer's, are all in the bank or all among the
    queries; "" for no groups."""

    def group_of(self, example: Example) -> str:
        """Return a key that is equal for examples of one group; "" for one without a group."""
        return question_key(example.field(self.group) or "") if self.group else ""

    @property
    def asked(self) -> str:
        """The number of queries in words.

        Such as "16 of 280 held-out queries", or "280 held-out queries" if all are asked.
        """
        n = len(self.validation)
        of = f" of {self.available:,}" if n < self.available else ""
        return f"{n:,}{of} held-out queries"
