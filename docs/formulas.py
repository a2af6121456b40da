"""A hook of mkdocs: formulas between dollars become MathML, which browsers draw without a script."""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import SimpleTextInlineProcessor

# code, in which a dollar is a dollar, or a formula: on lines of its own, or within a line
PARTS = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.M | re.S
)


class PlainUnderscores(Extension):
    """Underscores are subscripts, as in L'_S of the docstrings; emphasis is written with asterisks."""

    def extendMarkdown(self, md: Markdown) -> None:
        # after links and tags, whose addresses hold underscores, and before emphasis
        md.inlinePatterns.register(SimpleTextInlineProcessor("(_)"), "underscore", 70)


def on_config(config: Any) -> Any:
    """The site's Markdown, which the docstrings are read by too."""
    config.markdown_extensions.append(PlainUnderscores())
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with its formulas replaced."""

    def replaced(part: re.Match[str]) -> str:
        if part["code"] is not None:
            return part["code"]
        if part["block"] is not None:
            return convert(part["block"].strip(), display="block")
        return convert(part["inline"], display="inline")

    return PARTS.sub(replaced, markdown)
