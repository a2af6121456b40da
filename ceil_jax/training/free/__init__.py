"""Supervision without an LM: what a bank's own outputs teach about which examples suit a query.

A head is a pair of maps to blocks that stand beside an encoder's vectors, of queries and of examples
with their outputs, so that relevance is a dot product and top-k, DPP-MAP, export and a live bank
work as with any encoder.

- `rows`: examples as a head sees them; the protocol of a head; the empty head
- `head`: the label head, and the classifier alone, for tasks with choices
- `structures`: predicted structures, for outputs that parse
- `encoder`: a trained head as an encoder, saved and loaded
- `choice`: which head suits a task, by rows of its bank
"""
