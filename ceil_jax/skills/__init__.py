"""Skill-KNN (An et al. 2023).

An LM rewrites each input as the skill it needs, and retrieval compares skills.

Nearest-neighbour search is in `retrieval/`; the stages that rewrite inputs are in `pipeline/`.

- `rewriter`: rewrites inputs as skills with an LM and annotated demonstrations (`demonstrations/`).
- `similarity`: similarities of inputs that have several skills each.
- `sketches`: the keywords or roles of an output that is a program, for an oracle.
- `retrievers`: Skill-KNN and the oracles.
"""
