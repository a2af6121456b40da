"""A hook of mkdocs: formulas between dollars become MathML, which browsers draw without a script."""

import re

from latex2mathml.converter import convert

# code, in which a dollar is a dollar, or a formula: on lines of its own, or within a line
PARTS = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.M | re.S
)


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with its formulas replaced."""

    def replaced(part: re.Match[str]) -> str:
        if part["code"] is not None:
            return part["code"]
        if part["block"] is not None:
            return convert(part["block"].strip(), display="block")
        return convert(part["inline"], display="inline")

    return PARTS.sub(replaced, markdown)
