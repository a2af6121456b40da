"""What an application imports: a live bank of examples, its encoders and λ behind one call, `select`.

How the encoders are trained is not here (`training/`), nor how a run of experiments is evaluated (`pipeline/`).

- `selector`: `CeilSelector`, the public class.
- `selection`: `Selection`, what one query gets.
- `options`: what a caller may set and ask for, and the checks of it.
- `choice`: shortlist, greedy MAP, token budget and balance for one query.
- `bank`: examples and vectors that change while others read.
- `rows`: users' rows, checked and made into `Example`s.
- `vectors`: texts to checked unit vectors, by any encoder.
- `files`: a selector as a folder.
- `hub`: a folder from and to the Hugging Face hub.
- `card`: the model card.
- `adapters/`: LangChain, DSPy, lm-evaluation-harness, chat messages; each imports its own framework only.
"""

from ceil_jax.selector.card import Card
from ceil_jax.selector.selection import Selected, Selection
from ceil_jax.selector.selector import CeilSelector

__all__ = ["Card", "CeilSelector", "Selected", "Selection"]
