"""Training of retrievers: EPR and TST on scored single examples, CEIL on scored sets.

The maths of the DPP is in `dpp/`, encoders are in `encoders/`, and the stages of a run are in
`pipeline/`.

- `config`: the settings of EPR, TST and CEIL.
- `candidates`: candidate sets of training queries, with or without scores.
- `samplers`: samplers of candidate sets: single examples, uniform, from the whole bank, from a
  k-DPP.
- `scoring`: the LM's scores of candidate sets.
- `losses`: losses over one query's candidates, the registry of CEIL's losses, and held-out ranking
  quality.
- `contrastive`: training of EPR and TST.
- `ceil`: training of CEIL.
- `example_vectors`: the vectors of the examples in sets, frozen or learning.
- `token_table`: the texts of a training, tokenised once.
- `gradient_cache`: gradients through more texts than fit into memory at once.
- `fixed_blocks`: training of a network together with a head's fixed blocks.
- `held_out`: the split into training and held-out queries.
- `loop`: the training loop, and the choice of the final weights.
- `checkpoints`: the checkpoint from which a stopped training continues.
- `trade_offs`: the trade-off λ of DPP-MAP, chosen on training queries.
- `free/`: training without an LM, on the bank's outputs.
"""
