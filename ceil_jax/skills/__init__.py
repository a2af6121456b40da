"""Skill-KNN (An et al. 2023): an LM rewrites each input as the skill it needs, and skills are compared.

Nearest-neighbour search is in `retrieval/`, which knows nothing of skills. When a run rewrites what is decided in
`pipeline/`.

- `rewriter`: inputs to skills by an LM and annotated demonstrations (`demonstrations/`).
- `similarity`: the similarities of inputs that have several skills each.
- `gold`: the skill that a gold output shows, for an oracle.
- `sketches`: the keywords or roles that a formal output is built of, for another oracle.
- `retrievers`: Skill-KNN and the oracles, for the registry of `retrieval/`.

Names for other rooms: `Rewriter`, `load_demonstrations`; `DESCRIPTIONS`; `SKETCHES`.
"""
