"""The model card: what a selector on the hub says about itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """Facts about a selector that only the user knows; an empty field is shown as not stated."""

    title: str = "CEIL selector"
    license: str = ""
    """The licence of the examples and of the encoder's weights: an SPDX name, as the hub uses
    them."""
    training_data: str = ""
    """The data that the encoder was trained on; the card describes the bank by itself."""
    language_model: str = ""
    """The language model whose scores the encoder was trained on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Measured values by the name of the metric."""
    notes: str = ""


def model_card(card: Card, outputs: Sequence[str], encoder: str, dim: int, trade_off: float) -> str:
    """Return README.md for the hub: a YAML head, and one page on a selector.

    Args:
        card: what its maker says of it.
        outputs: the outputs of the bank's examples, which are counted.
        encoder: the name of the encoder of examples.
        dim: the length of a vector.
        trade_off: λ of the selector.
    """
    # a JSON string is a YAML string, whatever is in it
    license = f"license: {json.dumps(card.license)}\n" if card.license else ""
    metrics = "".join(f"| {name} | {value:g} |\n" for name, value in card.metrics.items())
    unstated = "not stated"
    return f"""---
library_name: ceil_jax
tags:
- in-context-learning
- example-selection
{license}---

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
| bank | {len(outputs):,} examples with {len({*outputs}):,} different outputs, **kept here as plain text** |
| encoder | {encoder}, vectors of {dim} |
| trade-off (λ) | {trade_off:g} |
| training data | {card.training_data or unstated} |
| scored by | {card.language_model or unstated} |
| licence | {card.license or unstated} |
{metrics}
{card.notes}
"""
