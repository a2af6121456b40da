"""What an example, a template and a task are."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ceil_jax.errors import UserError

_NO_FIELDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Example:
    """One (input, output) pair of a bank, or a query whose output is the gold answer."""

    id: str
    """Unique in its task, stable between runs; retrieval excludes an instance from itself by this."""
    input: str
    """What retrievers see: BM25's document, the encoder's text."""
    output: str
    """The answer as it stands in a prompt: a verbalised label, a program, a command."""
    choices: tuple[str, ...] = ()
    """The options, as they would stand in a prompt, in label order; empty for free generation."""
    references: tuple[str, ...] = ()
    """Every accepted answer where there are several; empty means only `output`."""
    fields: Mapping[str, str] = field(default_factory=lambda: _NO_FIELDS)
    """The row's other columns: what the template names beyond input and output, what the metric needs."""


Context = Literal["input", "example"]
"""What an encoder sees of a bank example: its input, or its output as well."""


def context_text(example: Example, context: Context) -> str:
    """A bank example as an encoder sees it."""
    return example.input if context == "input" else f"{example.input} {example.output}"


def renamed(pattern: str, name: str, to: str) -> str:
    """A template's pattern with `{to}` in place of `{name}`; `{{name}}` is literal and stays."""
    # a literal brace is two: what follows them is no name
    return re.sub(
        r"\{\{|" + re.escape(f"{{{name}}}"), lambda found: "{{" if found[0] == "{{" else f"{{{to}}}", pattern
    )


@dataclass(frozen=True)
class Template:
    """How one example stands in a prompt: `{sentence1} Can we say "{sentence2}"? {output}`.

    `{output}` stands once, at the end; other names are `input` or keys of `Example.fields`. A literal brace is
    written twice.

    Raises:
        UserError: the pattern does not end with its only `{output}`, or has braces that hold no plain name.
    """

    pattern: str
    separator: str = "\n"
    """Between examples, and between the last one and the query."""

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
        """The fields the pattern uses, in order, `output` last."""
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
        """The example with its answer, as it stands in context."""
        return self._before_answer(example) + example.output

    def query(self, example: Example) -> str:
        """The text the LM continues. One space before the answer is left to the continuation, because
        most tokenisers join it to the word that follows."""
        return self._before_answer(example).removesuffix(" ")

    def continuation(self, example: Example, answer: str) -> str:
        """What follows `query`: the answer, with the space that `query` left to it."""
        return (" " if self._before_answer(example).endswith(" ") else "") + answer


@dataclass(frozen=True)
class Task:
    """A dataset ready to use: the bank, the queries, and how a prompt and a score are made of them."""

    name: str
    train: Sequence[Example]
    """The bank, de-duplicated by the words of `input`, or of all that a prompt shows in a user's own file."""
    validation: Sequence[Example]
    template: Template
    metric: str
    """A name in `ceil_jax.metrics.METRICS`."""
    max_new_tokens: int = 128
    """For tasks without choices: the longest answer generated."""
    stop: tuple[str, ...] = ("\n",)
    """For tasks without choices: strings that end an answer."""
    few_shot: Sequence[Example] = ()
    """Examples that open every prompt, in this order, before the retrieved ones (SMCalFlow-CS k-C)."""
    more_metrics: tuple[str, ...] = ()
    """Names of metrics to report beside `metric`."""
    language: str = ""
    """The formal language of its answers that Skill-KNN has demonstrations and a sketch for: sql, cogs."""
    available: int = 0
    """How many queries there are, of which `validation` may be a few; 0 where nobody counted."""

    @property
    def asked(self) -> str:
        """How many queries are asked, and of how many where that is not all."""
        n = len(self.validation)
        return (
            f"{n:,} of {self.available:,} held-out queries"
            if n < self.available
            else f"{n:,} held-out queries"
        )
