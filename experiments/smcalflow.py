"""smcalflow: dialogue turns to Lispress programs.

    python experiments/smcalflow.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 8.9, BM25 46.1, Contriever 43.44, SimCSE 42.59, BERT
44.63, DPP-BERT 43.26, EPR 54.3, CEIL 60.73.
DATA is a folder that contains smcalflow/ with the hub's column names. Without --data-dir,
KaiLv/UDR_SMCalFlow is read from the hub.
"""

from runner import run

run("smcalflow")
