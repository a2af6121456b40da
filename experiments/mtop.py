"""mtop: utterances to nested intents and slots.

    python experiments/mtop.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 7.3, BM25 52.7, Contriever 49.84, SimCSE 47.29, BERT
52.13, DPP-BERT 53.14, EPR 64.2, CEIL 67.43.
DATA is a folder that contains mtop/ with the hub's column names. Without --data-dir, KaiLv/UDR_MTOP
is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 12.5 (95 % interval 0.0 to
31.2), 19 s.
"""

from runner import run

run("mtop")
