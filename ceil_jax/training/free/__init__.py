"""Supervision without an LM: what a bank's own outputs teach about which examples suit a query.

Every method is a pair of maps on vectors that are already there, of queries and of examples with
their outputs, so that relevance is a dot product and top-k, DPP-MAP, export and a live bank work as
with any encoder.

- `rows`: examples as a method sees them; the protocol of a method; the untrained pair
- `head`: the label head, and the classifier alone, for tasks with choices
- `structures`: predicted structures, for outputs that parse
- `encoder`: a trained method as an encoder, saved and loaded
- `choice`: which method suits a task, by rows of its bank
"""
