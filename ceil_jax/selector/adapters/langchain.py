"""A selector as LangChain's example selector, for `FewShotPromptTemplate` and the chat template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from ceil_jax.errors import UserError
from ceil_jax.selector import CeilSelector
from ceil_jax.selector.settings import CallSettings, Options
from ceil_jax.tasks.example import Example

try:
    from langchain_core.example_selectors import BaseExampleSelector
except ModuleNotFoundError as missing:
    raise UserError(f"{missing.name} is not installed; pip install 'ceil-jax[langchain]'") from None

Braces = Literal["refuse", "f-string", "jinja2", "keep"]

_ESCAPES: dict[str, dict[int, str]] = {
    "f-string": str.maketrans({"{": "{{", "}": "}}"}),
    # an expression, because jinja2 has no escape sign; all its marks begin with this brace
    "jinja2": str.maketrans({"{": "{{ '{' }}"}),
    "keep": {},
}


class CeilExampleSelector(BaseExampleSelector):
    """An example selector of LangChain: the examples of a `CeilSelector` as dictionaries.

    `FewShotPromptTemplate` formats its prompt twice: each example, then their joined text with the
    query's variables, which evaluates text in braces inside an example. If `braces` names its
    `template_format`, they are escaped, so that the prompt shows examples unchanged. The chat
    template formats once and needs `braces="keep"`.

    Examples:
        >>> rows = [{"input": "a dull film", "output": "bad"}, {"input": "great fun", "output": "good"}]
        >>> selector = CeilSelector.from_examples(rows, encoder="tiny")
        >>> CeilExampleSelector(selector, k=1).select_examples({"input": "what fun"})
        [{'input': 'great fun', 'output': 'good'}]
    """

    def __init__(
        self,
        selector: CeilSelector,
        *,
        input_key: str | None = None,
        output_key: str | None = None,
        braces: Braces = "refuse",
        **options: Unpack[Options],
    ) -> None:
        """
        Args:
            selector: the selector; examples added to it or removed change the next prompt.
            input_key: the prompt's variable for the query, and the key of an example's input; by
                default the selector's.
            output_key: the key of an example's output; by default the selector's. Metadata have
                further keys.
            braces: "refuse" examples with a brace; escape braces for the `template_format` of a
                `FewShotPromptTemplate`, "f-string" or "jinja2"; or "keep" them.
            options: arguments of `CeilSelector.select`.

        Raises:
            UserError: `braces` is another word, or an option is out of its range.
        """
        CallSettings(**{**selector.settings, **options})
        if braces not in ("refuse", *_ESCAPES):
            raise UserError(
                f"braces is {braces!r}; expected 'refuse', 'keep', or the template_format of your "
                "FewShotPromptTemplate: 'f-string' (its default) or 'jinja2', which read braces "
                "differently"
            )
        self.selector = selector
        self.braces = braces
        self.options = options
        self.input_key = input_key or selector.input_key
        self.output_key = output_key or selector.output_key

    def add_example(self, example: Mapping[str, str]) -> str:
        """Add an example to the bank, and return its id for `selector.remove`."""
        row = {
            key: value
            for key, value in example.items()
            if key not in (self.input_key, self.output_key)
        }
        row[self.selector.input_key] = self._value(example, self.input_key, "example")
        row[self.selector.output_key] = self._value(example, self.output_key, "example")
        return self.selector.add([row])[0]

    def select_examples(self, input_variables: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the examples for a query, in prompt order.

        Raises:
            UserError: there is no query among the variables, or an example has a brace and braces
                are refused.
        """
        text = self._value(input_variables, self.input_key, "query")
        # the others are fields: another context makes another question of the same words
        roles = (self.input_key, self.output_key, self.selector.output_key)
        others = {name: value for name, value in input_variables.items() if name not in roles}
        query = {**others, self.selector.input_key: text}
        return [self._row(example) for example in self.selector.select(query, **self.options)]

    def _value(self, variables: Mapping[str, Any], key: str, what: str) -> Any:
        if key not in variables:
            raise UserError(
                f"the {what} has no {key!r}, only {', '.join(variables) or 'nothing'}; "
                "say which keys are meant with input_key=… and output_key=…"
            )
        return variables[key]

    def _row(self, example: Example) -> dict[str, str]:
        row = {**example.fields, self.input_key: example.input, self.output_key: example.output}
        if self.braces == "refuse" and any("{" in value or "}" in value for value in row.values()):
            raise UserError(
                f"example {example.id!r} holds a brace, which FewShotPromptTemplate would "
                "evaluate; give the selector braces='f-string' or 'jinja2' as its template_format "
                "is, or braces='keep' for FewShotChatMessagePromptTemplate"
            )
        return {name: value.translate(_ESCAPES.get(self.braces, {})) for name, value in row.items()}
