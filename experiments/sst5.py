"""sst5: five grades of sentiment of film-review sentences.

    python experiments/sst5.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 31.43, BM25 36.06, Contriever 37.06, SimCSE 37.06,
BERT 37.24, DPP-BERT 36.78, EPR 42.82, CEIL 47.05.
DATA is a folder that contains sst5/ with the hub's column names. Without --data-dir, SetFit/sst5 is
read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 31.2 (95 % interval 12.5 to
56.2), 12 s.
"""

from runner import run

run("sst5")
