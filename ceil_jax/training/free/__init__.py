"""Training without an LM: the supervision is the outputs of the bank.

A head maps queries, and examples with their outputs, to blocks that are concatenated with an
encoder's vectors. Relevance is then a dot product, and top-k, DPP-MAP, export and a live bank work
as with any encoder.

- `rows`: the inputs of heads; the protocol of a head; the empty head
- `head`: the label head, for outputs that are labels; it also classifies
- `structures`: the structure head, for outputs that are programs
- `encoder`: a trained head as an encoder; saving and loading it
- `choice`: choosing the head for a task by rows of its bank
"""
