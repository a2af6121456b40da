"""nl2bash: English to a shell command.

    python experiments/nl2bash.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 34.35, BM25 58.98, Contriever 53.69, SimCSE 54.89,
BERT 51.3, DPP-BERT 48.99, EPR 56.82, CEIL 59.91.
DATA is a folder with nl2bash/ in the hub's column names; without --data-dir the hub's jiacheng-
ye/nl2bash is read.
"""

from runner import run

run("nl2bash")
