"""The class for applications: a live bank of examples, its encoders and λ behind one call,
`select`.

- `selector`: `CeilSelector`, the public class.
- `settings`: what a selector is made with, and what one call asks for, checked.
- `bank`: examples and vectors that change while others read, and the shortlist of a query.
- `vector_store`: the same for the documents of a LangChain vector store.
- `filters`: which examples may be chosen; when two ask the same question.
- `choice`: greedy MAP among a shortlist, token budget and balance.
- `selection`: `Selection`, what one query gets, and its explanation.
- `rows`: users' rows, checked and made into `Example`s.
- `vectors`: what an encoder is here; texts and examples to checked unit vectors.
- `folder`: a selector saved, loaded, and fetched from the hub.
- `saved`: the one check of what such a folder holds.
- `card`: the model card.
- `adapters/`: LangChain, DSPy, lm-evaluation-harness, chat messages; each imports its own framework
  only.
"""

from ceil_jax.selector.card import Card
from ceil_jax.selector.selection import Selected, Selection
from ceil_jax.selector.selector import CeilSelector

__all__ = ["Card", "CeilSelector", "Selected", "Selection"]
