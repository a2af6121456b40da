"""The class for applications: a live bank of examples, its encoders and λ behind one call, `select`.

How the encoders are trained is not here (`training/`), nor how a run of experiments is evaluated (`pipeline/`).

- `selector`: `CeilSelector`, the public class.
- `asking`: its settings and the forms of `select`.
- `options`: what a caller may set and ask for, and the checks of it.
- `vector_store`: the same choice among the documents of a LangChain vector store.
- `selection`: `Selection`, what one query gets, and its explanation.
- `choice`: shortlist, greedy MAP, token budget and balance for one query.
- `bank`: examples and vectors that change while others read.
- `rows`: users' rows, checked and made into `Example`s.
- `tuned`: k and λ chosen on a user's rows.
- `vectors`: texts to checked unit vectors, by any encoder.
- `folder/`: a selector saved, loaded, pickled, and on the hub.
- `adapters/`: LangChain, DSPy, lm-evaluation-harness, chat messages; each imports its own framework only.
"""

from ceil_jax.selector.folder.card import Card
from ceil_jax.selector.selection import Selected, Selection
from ceil_jax.selector.selector import CeilSelector

__all__ = ["Card", "CeilSelector", "Selected", "Selection"]
