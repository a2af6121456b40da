"""cogs.pa: COGS, primitive structural alternation: known structures in new combinations (Skill-KNN).

    python experiments/cogs_pa.py --scale tiny --retriever bm25 --data-dir DATA

Paper: no number in CEIL's Table 2.
DATA is a folder with cogs/ in the hub's column names.
"""

from runner import run

run("cogs.pa")
