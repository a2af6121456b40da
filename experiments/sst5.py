"""sst5: five grades of sentiment of film-review sentences.

    python experiments/sst5.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 31.43, BM25 36.06, Contriever 37.06, SimCSE 37.06,
BERT 37.24, DPP-BERT 36.78, EPR 42.82, CEIL 47.05.
DATA is a folder with sst5/ in the hub's column names; without --data-dir the hub's SetFit/sst5 is
read.
"""

from runner import run

run("sst5")
