"""Hook for mkdocs that turns formulas between dollars into MathML, which browsers render without a
script."""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import SimpleTextInlineProcessor

# either code, in which a dollar is only a dollar, or a formula, on its own lines or within a line
PARTS = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.M | re.S
)


class PlainUnderscores(Extension):
    """Makes underscores plain text: they are subscripts, as in L'_S; emphasis is written with
    asterisks."""

    def extendMarkdown(self, md: Markdown) -> None:
        # after links and tags, whose addresses hold underscores, and before emphasis
        md.inlinePatterns.register(SimpleTextInlineProcessor("(_)"), "underscore", 70)


def on_config(config: Any) -> Any:
    """Add `PlainUnderscores` to the site's Markdown, which also renders the docstrings."""
    config.markdown_extensions.append(PlainUnderscores())
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the formulas of a page."""

    def replaced(part: re.Match[str]) -> str:
        if part["code"] is not None:
            return part["code"]
        if part["block"] is not None:
            return convert(part["block"].strip(), display="block")
        # in a span, because Markdown takes a line that begins with <math> for a block of its own
        return f"<span>{convert(part['inline'], display='inline')}</span>"

    return PARTS.sub(replaced, markdown)
