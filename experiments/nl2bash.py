"""nl2bash: English to a shell command.

    python experiments/nl2bash.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 34.35, BM25 58.98, Contriever 53.69, SimCSE 54.89,
BERT 51.3, DPP-BERT 48.99, EPR 56.82, CEIL 59.91.
DATA is a folder that contains nl2bash/ with the hub's column names. Without --data-dir,
jiacheng-ye/nl2bash is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 char_bleu 20.3 (95 % interval 17.1 to
37.4), 24 s.
"""

from runner import run

run("nl2bash")
