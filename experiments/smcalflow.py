"""smcalflow: dialogue turns to Lispress programs.

    python experiments/smcalflow.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 8.9, BM25 46.1, Contriever 43.44, SimCSE 42.59, BERT
44.63, DPP-BERT 43.26, EPR 54.3, CEIL 60.73.
DATA is a folder with smcalflow/ in the hub's column names; without --data-dir the hub's
KaiLv/UDR_SMCalFlow is read.
"""

from runner import run

run("smcalflow")
