"""Adapters that bring a selector into other libraries.

Each module needs the extra of its name, `conversations` none.
"""
