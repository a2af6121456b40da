"""What a selector on the hub says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """What only the user knows; an empty field is shown as not stated."""

    title: str = "CEIL selector"
    license: str = ""
    """Of the examples and of the encoder's weights: an SPDX name, as the hub has them."""
    training_data: str = ""
    """What the encoder was trained on; the bank is described by itself."""
    language_model: str = ""
    """Whose scores it was trained on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What was measured with it, by name."""
    notes: str = ""


def model_card(card: Card, *, examples: int, labels: int, dim: int, encoder: str, diversity: float) -> str:
    """README.md for the hub: a YAML head and one page."""
    # a JSON string is a YAML string, whatever is in it
    head = ["---", "library_name: ceil_jax", "tags:", "- in-context-learning", "- example-selection"]
    head += [f"license: {json.dumps(card.license)}"] if card.license else []
    rows = "".join(f"| {name} | {value:g} |\n" for name, value in card.metrics.items())
    metrics = f"| metric | value |\n|---|---:|\n{rows}" if rows else "Not stated.\n"
    unstated = "not stated"
    return f"""{chr(10).join(head)}
---

# {card.title}

Chooses in-context examples for a language model: a determinantal point process conditioned on the query
(CEIL, Ye et al., ICML 2023), with greedy MAP over the nearest examples of the bank.

```python
from ceil_jax import CeilSelector

selector = CeilSelector.from_pretrained("this repository or folder")
print(selector.select("a query", k=8).prompt)
```

| | |
|---|---|
| bank | {examples:,} examples with {labels:,} different outputs, **kept here as plain text** |
| encoder | {encoder}, vectors of {dim} |
| diversity (λ) | {diversity:g} |
| training data | {card.training_data or unstated} |
| scored by | {card.language_model or unstated} |
| licence | {card.license or unstated} |

## Metrics

{metrics}{chr(10) + card.notes + chr(10) if card.notes else ""}"""
