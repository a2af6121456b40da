"""The elements, attributes and cells of a page."""

from html.parser import HTMLParser


class Parts(HTMLParser):
    """The text of every cell, and the names of all elements and attributes."""

    def __init__(self, page):
        super().__init__()
        self.cells = []
        self.elements = set()
        self.attributes = set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data
