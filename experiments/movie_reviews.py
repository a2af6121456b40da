"""movie_reviews: five grades of sentiment of film-review sentences, embedded: no hub needed.

    python experiments/movie_reviews.py --scale tiny --retriever bm25

Paper: no number in CEIL's Table 2.
"""

from runner import run

run("movie_reviews")
