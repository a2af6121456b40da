"""shell: descriptions to shell commands; embedded, so that no hub is needed.

    python experiments/shell.py --scale tiny --retriever bm25

CEIL's Table 2 has no number for this task.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 char_bleu 21.8 (95 % interval 15.0 to
45.5), 15 s.
"""

from runner import run

run("shell")
