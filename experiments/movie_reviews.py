"""movie_reviews: five grades of sentiment of film-review sentences, embedded: no hub needed.

    python experiments/movie_reviews.py --scale tiny --retriever bm25

CEIL's Table 2 has no number for this task.
Measured 2026-11-22 on 2 CPU cores (shared with other work), SmolLM2-135M-Instruct@bfloat16, --scale
tiny (16 queries, bank of at most 1,000, 4 examples): BM25 accuracy 50.0 (95 % interval 25.0 to
75.0), 11 s.
"""

from runner import run

run("movie_reviews")
