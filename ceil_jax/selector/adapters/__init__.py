"""Adapters that bring a selector into other libraries; each module needs the extra of its name,
`conversations` none."""
