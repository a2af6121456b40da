"""Choosing examples of a bank for queries: nearest neighbours, BM25, and every retriever.

Encoding texts lives in `encoders/`, the choice of a set among a query's candidates in `dpp/`, and
rewriting inputs as skills in `skills/`.

- `index`: exact nearest items in blocks
- `blas_search`: the same on a single CPU device, by numpy's BLAS
- `bm25`: similarity by shared words
- `words`: the words of a text in any script
- `nearest`: the nearest examples of queries, from vectors
- `ranking`: the best of scores that are there already
- `own_rows`: a query's own rows of a bank, which it never gets
- `shortlists`: MAP, MAP under a budget and MMR for many queries, each among its shortlist
- `retriever`: what a retriever needs, what it is asked and what it answers
- `retrievers`: random, BM25, dense top-k, MMR and DPP-MAP
"""
