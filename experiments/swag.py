"""swag: choose among four endings. The paper's "HellaSwag" is this dataset.

    python experiments/swag.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 41.16, BM25 42.2, Contriever 41.6, SimCSE 41.69, BERT
40.28, DPP-BERT 40.69, EPR 42.61, CEIL 43.2.
DATA is a folder that contains swag/ with the hub's column names. Without --data-dir, allenai/swag
is read from the hub.
"""

from runner import run

run("swag")
