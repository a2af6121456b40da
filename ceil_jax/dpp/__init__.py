"""The mathematics: determinantal point processes over the candidate examples of one query.

Only jax and numpy are imported here. Every function is pure and takes one query's arrays;
`jax.vmap` lifts it to many. Searching a bank and batching over shortlists and devices live in
`retrieval/`; losses live in `training/`.

- `kernel`: similarity, relevance, the conditional kernel L', log determinants
- `lengths`: lengths of vectors, and vectors of length 1
- `distribution`: log-probabilities of subsets, DPP and k-DPP samples
- `greedy`: MAP inference, `greedy_map` and `greedy_map_from_features`
- `lifting`: `jax.vmap` in chunks that stay in a CPU's caches, for MAP from features
- `mmr`: maximal marginal relevance, the usual alternative to MAP
- `greedy_numpy`: greedy MAP on the host, one step at a time, for one query
"""
