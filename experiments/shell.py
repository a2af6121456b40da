"""shell: description to shell command, embedded: no hub needed.

    python experiments/shell.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("shell")
