"""Retrieval of a bank's examples for queries: nearest neighbours, BM25, and the retrievers.

Encoding texts lives in `encoders/`, the choice of a set among a query's candidates in `dpp/`, and
rewriting inputs as skills in `skills/`.

- `index`: exact nearest items in blocks
- `blas_search`: the same on a single CPU device, with numpy's BLAS
- `bm25`: similarity by shared words
- `words`: the words of a text in any script
- `nearest`: the nearest examples of queries, from vectors
- `ranking`: the highest of given scores
- `own_rows`: the rows of a bank that are the query itself, which it never gets
- `shortlists`: MAP and MMR for many queries, each over its shortlist
- `retriever`: the protocol of retrievers: needs, arguments, queries, choice
- `retrievers`: random, BM25, dense top-k, MMR, DPP-MAP and others
"""
