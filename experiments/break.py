"""break: questions to low-level QDMR decompositions.

    python experiments/break.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 1.7, BM25 26, Contriever 26.34, SimCSE 26.58, BERT
26.84, DPP-BERT 26.7, EPR 31.9, CEIL 34.18.
DATA is a folder that contains break_data/ with the hub's column names. Without --data-dir,
allenai/break_data is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 lf_em 0.0 (95 % interval 0.0 to 0.0), 59
s.
"""

from runner import run

run("break")
