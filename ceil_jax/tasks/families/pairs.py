"""Two sentences to a short answer: paraphrase (MRPC) and entailment (MNLI, QNLI)."""

from __future__ import annotations

from typing import Any

from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, label, table2, text

REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"


def _entry(name: str, pattern: str, words: tuple[str, ...], **others: Any) -> TaskSpec:
    """Return an entry whose input is both sentences, in the order of the template.

    `words` are the answers in label order.
    """
    template = Template(pattern)

    def example(id: str, row: Row) -> Example:
        fields = {column: text(row, column) for column in template.fields}
        parts = tuple(fields.values())
        answer = words[label(row, "label", len(words))]
        return Example(id, " ".join(parts), answer, words, fields=fields, parts=parts)

    hub = Hub("nyu-mll/glue", name, REVISION)
    columns = (*template.fields, "label")
    return TaskSpec(name, template, "accuracy", example, columns, folder=name, hub=hub, **others)


ENTRIES = (
    _entry(
        "mrpc",
        '{sentence1} Can we say "{sentence2}"? {output}',
        ("No", "Yes"),  # 1 is a paraphrase
        paper=table2(67.65, 69.36, 67.89, 66.91, 69.36, 69.61, 75.98, 80.15),
    ),
    _entry(
        "mnli",
        '{premise} Can we say "{hypothesis}"? {output}',
        ("Yes", "Maybe", "No"),  # entailment, neutral, contradiction
        validation=("validation_matched", "validation_mismatched"),
        optional=("validation_mismatched",),
        paper=table2(37.74, 40.68, 45.28, 44.85, 42.15, 39.60, 66.06, 71.74),
        note="the paper's 19,647 queries are matched and mismatched together",
    ),
    _entry(
        "qnli",
        '{sentence} Can we know "{question}"? {output}',
        ("Yes", "No"),  # 0 is entailment
        paper=table2(56.67, 62.29, 60.97, 61.58, 64.65, 63.83, 80.76, 85.41),
    ),
)
