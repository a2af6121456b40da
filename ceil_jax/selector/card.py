"""The model card of a selector on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ceil_jax.lm.prompts import Form


@dataclass(frozen=True)
class Card:
    """The fields of the card that only the author of the selector knows.

    An empty field is shown as "not stated".
    """

    title: str = "CEIL selector"
    license: str = ""
    """The licence of the examples and of the encoder's weights: an SPDX name, as the hub uses
    them."""
    training_data: str = ""
    """The data that the encoder was trained on. The bank is described automatically."""
    language_model: str = ""
    """The language model whose scores the encoder was trained on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Measured values by the name of the metric."""
    notes: str = ""
    k: int = 8
    """The number of examples in the prompts of the measurement."""
    form: Form = "text"
    """The form of these prompts."""


def model_card(
    card: Card, outputs: Sequence[str], encoder: str, dim: int, trade_off: float | None
) -> str:
    """Return the content of README.md for the hub: a YAML head, and a page on a selector.

    Args:
        card: the author's statements.
        outputs: the outputs of the bank's examples, to count them.
        encoder: the name of the example encoder.
        dim: the length of a vector.
        trade_off: λ of the selector; None for the nearest examples.
    """
    # every JSON string is also a YAML string
    license = f"license: {json.dumps(card.license)}\n" if card.license else ""
    metrics = "".join(f"| {name} | {value:g} |\n" for name, value in card.metrics.items())
    unstated = "not stated"
    how = "the nearest examples" if trade_off is None else f"a set, with λ = {trade_off:g}"
    asked = "messages" if card.form == "turns" else "prompt"
    return f"""---
library_name: ceil_jax
tags:
- in-context-learning
- example-selection
{license}---

# {card.title}

Chooses in-context examples for a language model from a bank: the nearest ones, or a set by greedy MAP of a
determinantal point process conditioned on the query (CEIL, Ye et al., ICML 2023).

```python
from ceil_jax import CeilSelector

selector = CeilSelector.from_pretrained("this repository or folder")
print(selector.select("a query", k={card.k}).{asked})
```

| | |
|---|---|
| bank | {len(outputs):,} examples with {len({*outputs}):,} different outputs, **kept here as plain text** |
| encoder | {encoder}, vectors of {dim} |
| chooses | {how} |
| training data | {card.training_data or unstated} |
| scored by | {card.language_model or unstated} |
| licence | {card.license or unstated} |
{metrics}
{card.notes}
"""
