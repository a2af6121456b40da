"""Skill-KNN (An et al. 2023): an LM rewrites each input as the skill it needs, and skills are
compared.

Nearest-neighbour search is in `retrieval/`, which knows nothing of skills; `pipeline/` decides what
a run rewrites.

- `rewriter`: rewrites inputs as skills with an LM and annotated demonstrations (`demonstrations/`).
- `similarity`: the similarities of inputs with several skills each.
- `sketches`: the keywords or roles of a formal output, for an oracle.
- `retrievers`: Skill-KNN and the oracles.
"""
