"""A selector inside other people's prompt code; each module needs the extra of its name, chat needs
none."""
