"""The example selector for applications.

A bank that can change, its encoders and settings, and one call, `select`.

- `selector`: `CeilSelector`, the public class.
- `settings`: the settings of a selector and the options of one call, checked.
- `bank`: examples and vectors that change while others read, and the shortlist of a query.
- `filters`: which examples may be chosen; whether two are the same question.
- `choice`: greedy MAP over a shortlist, under a token budget and with balance.
- `selection`: `Selection`, the examples for one query, and its explanation.
- `rows`: users' rows to checked `Example`s.
- `vectors`: the kinds of encoders that are accepted; texts and examples to checked unit vectors.
- `folder`: saving and loading a selector, and fetching one from the hub.
- `saved`: folders that a save replaces in one step, and their manifest.
- `classifier`: `LabelClassifier`, a text's label without an LM.
- `card`: the model card.
- `adapters/`: LangChain, DSPy, lm-evaluation-harness, chat messages; each imports its own framework
  only.
"""

from ceil_jax.selector.card import Card
from ceil_jax.selector.selection import Selected, Selection
from ceil_jax.selector.selector import CeilSelector

__all__ = ["Card", "CeilSelector", "Selected", "Selection"]
