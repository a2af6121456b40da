"""webqs: open questions answered from memory (WebQuestions).

    python experiments/webqs.py --scale tiny --retriever bm25 --data-dir DATA

Paper (CEIL, Table 2; GPT-Neo 2.7B, %): random 4.87, BM25 16.68, Contriever 17.62, SimCSE 16.83,
BERT 17.08, DPP-BERT 14.57, EPR 19.59, CEIL 20.92.
DATA is a folder that contains web_questions/ with the hub's column names. Without --data-dir,
stanfordnlp/web_questions is read from the hub.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 squad_em 6.2 (95 % interval 0.0 to 18.8),
9 s.
"""

from runner import run

run("webqs")
