"""cmsqa: common-sense questions with five options (CommonsenseQA).

    python experiments/cmsqa.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 42.51, BM25 36.12, Contriever 36.12, SimCSE 35.54,
BERT 35.38, DPP-BERT 37.26, EPR 36.77, CEIL 37.18.
DATA is a folder with commonsense_qa/ in the hub's column names; without --data-dir the hub's
tau/commonsense_qa is read.
"""

from runner import run

run("cmsqa")
