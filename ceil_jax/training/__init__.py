"""Training of retrievers on an LM's preferences: EPR and TST on single examples, CEIL on sets.

The maths of the DPP is in `dpp/`, encoders are in `encoders/`, and which stages a run needs is
decided in `pipeline/`.

- `config`: the settings of EPR, TST and CEIL.
- `candidates`: candidate sets of training queries, with or without the LM's scores; EPR's and TST's
  candidates.
- `samplers`: how CEIL's candidate sets are drawn: uniformly, from the whole bank, from a k-DPP.
- `shared_sets`: one set for all queries: pools, random sets, the effect of each example, challengers.
- `scoring`: the LM's scores of candidate sets.
- `losses`: losses over one query's candidates, the registry of CEIL's losses, and held-out ranking
  quality.
- `contrastive`: training of EPR and TST.
- `ceil`: training of CEIL.
- `example_vectors`: the two ways in which it gets the vectors of sets' examples: frozen, learning.
- `gradient_cache`: tokenised texts, and gradients through more of them than one backward pass has
  memory for.
- `fixed_blocks`: a network that learns beside a head's blocks.
- `loop`: the training loop, the split into training and held-out queries, and the weights that
  training ends with.
- `checkpoints`: what a stopped training continues from.
- `tuning`: the trade-off λ of DPP-MAP, chosen on training queries.
- `free/`: supervision without an LM, by the bank's own outputs.
"""
