"""cogs.ps: COGS, primitive substitution: known words in new grammatical roles (Skill-KNN).

    python experiments/cogs_ps.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with cogs/ in the hub's column names.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 exact_match 12.5 (95 % interval 0.0 to
31.2), 20 s.
"""

from runner import run

run("cogs.ps")
