"""qnli: does a sentence answer a question?.

    python experiments/qnli.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 56.67, BM25 62.29, Contriever 60.97, SimCSE 61.58,
BERT 64.65, DPP-BERT 63.83, EPR 80.76, CEIL 85.41.
DATA is a folder with qnli/ in the hub's column names; without --data-dir the hub's nyu-mll/glue is
read.
"""

from runner import run

run("qnli")
