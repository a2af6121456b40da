"""mnli: does a premise entail, contradict or leave open a hypothesis?.

    python experiments/mnli.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 37.74, BM25 40.68, Contriever 45.28, SimCSE 44.85,
BERT 42.15, DPP-BERT 39.6, EPR 66.06, CEIL 71.74.
DATA is a folder with mnli/ in the hub's column names; without --data-dir the hub's nyu-mll/glue is
read.
"""

from runner import run

run("mnli")
