"""Examples, the template that puts one into a prompt, and tasks."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ceil_jax.errors import UserError


@dataclass(frozen=True)
class Example:
    """One (input, output) pair of a bank, or a query whose output is the gold answer."""

    id: str
    """Unique in its task, stable between runs; retrieval excludes an instance from itself by this."""
    input: str
    """The text that retrievers see: BM25's document, what the encoder reads."""
    output: str
    """The answer as it is written in a prompt: a verbalised label, a program, a command."""
    choices: tuple[str, ...] = ()
    """The options as they would be written in a prompt, in label order; empty for free generation."""
    references: tuple[str, ...] = ()
    """All accepted answers where there are several; empty means `output` alone."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Other columns of the row, which the template names or the metric needs; read-only."""
    parts: tuple[str, ...] = ()
    """The texts that `input` joins, such as premise and hypothesis; empty where it is one text."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that the input is made of: `parts`, or `input` alone."""
        return self.parts or (self.input,)

    def __post_init__(self) -> None:
        if isinstance(self.fields, dict):
            object.__setattr__(self, "fields", MappingProxyType(self.fields))

    def __reduce__(self) -> tuple[Any, ...]:
        # a read-only view of a dictionary cannot be pickled or copied
        given = (
            self.id,
            self.input,
            self.output,
            self.choices,
            self.references,
            dict(self.fields),
            self.parts,
        )
        return Example, given


Context = Literal["input", "example"]
"""The text of a bank example that encoders read: its input, or its input and output."""


def context_text(example: Example, context: Context) -> str:
    """Return the text that an encoder reads of a bank example.

    Args:
        example: from the bank.
        context: "input", or "example" for input and output.
    """
    return example.input if context == "input" else f"{example.input} {example.output}"


def renamed(pattern: str, name: str, to: str) -> str:
    """Return a template's pattern with `{to}` in place of `{name}`. `{{name}}` is literal text and stays."""
    # a literal brace is two: what follows them is no name
    return re.sub(
        r"\{\{|" + re.escape(f"{{{name}}}"), lambda found: "{{" if found[0] == "{{" else f"{{{to}}}", pattern
    )


@dataclass(frozen=True)
class Template:
    """How an example is written in a prompt: `{sentence1} Can we say "{sentence2}"? {output}`.

        >>> Template("{input} It is {output}").example(Example("1", "A bright film.", "good"))
        'A bright film. It is good'

    Args:
        pattern: text with names in braces. `{output}` comes once, at the end; the other names are `input` or keys of
            `Example.fields`. A literal brace is written twice.
        separator: what stands between examples, and between the last one and the query; a line's end by default.

    Raises:
        UserError: the pattern does not end with its only `{output}`, or has braces that hold no plain name.
    """

    pattern: str
    separator: str = "\n"
    """The text between examples, and between the last one and the query."""

    def __post_init__(self) -> None:
        if not self.pattern.endswith("{output}") or self.pattern.count("{output}") != 1:
            raise UserError(f"template {self.pattern!r} must end with its only {{output}}")
        for _, name, form, conversion in self._parsed():
            held = f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
            if name is not None and (held != name or not name or name.isdigit() or {".", "["} & {*name}):
                raise self._misused(f"found {f'{{{held}}}'!r}")

    def _parsed(self) -> list[tuple[str, str | None, str | None, str | None]]:
        try:
            return list(string.Formatter().parse(self.pattern))
        except ValueError as error:
            raise self._misused(str(error)) from None

    def _misused(self, found: str) -> UserError:
        return UserError(
            f"template {self.pattern!r}: expected braces around one name each, as in {{input}}, and literal braces "
            f"written {{{{ and }}}}; {found}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the pattern, in order; `output` is the last."""
        return tuple(name for _, name, _, _ in self._parsed() if name)

    def _before_answer(self, example: Example) -> str:
        stem = self.pattern.removesuffix("{output}")
        try:
            return stem.format_map({"input": example.input, **example.fields})
        except KeyError as missing:
            raise UserError(
                f"template {self.pattern!r} names {missing}, which example {example.id!r} lacks; "
                f"it has input, {', '.join(example.fields)}"
            ) from None

    def example(self, example: Example) -> str:
        """Return an example with its answer, as it is written in context.

        Args:
            example: from the bank.

        Raises:
            UserError: the pattern names a field that the example lacks.
        """
        return self._before_answer(example) + example.output

    def query(self, example: Example) -> str:
        """Return the text that the LM continues.

        One space before the answer is left to the continuation, because most tokenisers join it to the word after it.

        Args:
            example: the query; its output is not read.

        Raises:
            UserError: the pattern names a field that the example lacks.
        """
        return self._before_answer(example).removesuffix(" ")

    def continuation(self, example: Example, answer: str) -> str:
        """Return what follows `query`: an answer, with the space that `query` left to it.

        Args:
            example: the query.
            answer: an option, or the gold answer.
        """
        return (" " if self._before_answer(example).endswith(" ") else "") + answer


@dataclass(frozen=True)
class Task:
    """A data set ready for use: the bank, the queries, the template and the metric."""

    name: str
    train: Sequence[Example]
    """The bank, de-duplicated by the words of `input`; for a user's own file, by those that a prompt shows."""
    validation: Sequence[Example]
    """The queries."""
    template: Template
    metric: str
    """A name in `ceil_jax.metrics.METRICS`."""
    max_new_tokens: int = 128
    """Maximum length of a generated answer in tokens, for tasks without choices."""
    stop: tuple[str, ...] = ("\n",)
    """Strings that end a generated answer, for tasks without choices."""
    few_shot: Sequence[Example] = ()
    """Examples that open every prompt, in this order, before the retrieved ones (SMCalFlow-CS k-C)."""
    more_metrics: tuple[str, ...] = ()
    """Names of metrics to report beside `metric`."""
    language: str = ""
    """The formal language of the answers, where Skill-KNN has demonstrations and a sketch for it: sql or cogs."""
    available: int = 0
    """How many queries there are, some of which are in `validation`; 0 where nobody counted."""
    per_token: bool = False
    """For tasks with choices: compare the mean log-probability of a choice's tokens, not their sum, because the
    choices differ in length (Brown et al. 2020)."""

    @property
    def asked(self) -> str:
        """How many queries are asked, and of how many if that is not all of them."""
        n = len(self.validation)
        of = f" of {self.available:,}" if n < self.available else ""
        return f"{n:,}{of} held-out queries"
