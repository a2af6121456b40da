"""Training without an LM: a bank's outputs teach which examples suit a query.

A head maps queries, and examples with their outputs, to blocks that stand beside an encoder's
vectors. Relevance is then a dot product, and top-k, DPP-MAP, export and a live bank work as with
any encoder.

- `rows`: the inputs of heads; the protocol of a head; the empty head
- `head`: the label head, for outputs that are labels; it also classifies
- `structures`: the structure head, for outputs that are programs
- `encoder`: a trained head as an encoder; saving and loading it
- `choice`: choosing the head for a task by rows of its bank
"""
