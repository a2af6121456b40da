"""cmsqa: common-sense questions with five options (CommonsenseQA).

    python experiments/cmsqa.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 42.51, BM25 36.12, Contriever 36.12, SimCSE 35.54,
BERT 35.38, DPP-BERT 37.26, EPR 36.77, CEIL 37.18.
DATA is a folder that contains commonsense_qa/ with the hub's column names. Without --data-dir,
tau/commonsense_qa is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 43.8 (95 % interval 18.8 to
68.8), 13 s.
"""

from runner import run

run("cmsqa")
