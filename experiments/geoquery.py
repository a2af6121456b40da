"""geoquery: questions about US geography to FunQL, standard split.

    python experiments/geoquery.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 33.93, BM25 62.86, Contriever 68.93, SimCSE 66.43,
BERT 66.79, DPP-BERT 70.71, EPR 68.57, CEIL 73.21.
DATA is a folder that contains geoquery/ with the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 43.8 (95 % interval 18.8 to
68.8), 11 s.
"""

from runner import run

run("geoquery")
