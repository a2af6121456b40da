"""movie_reviews: five grades of sentiment of film-review sentences, embedded: no hub needed."""

from runner import run

run("movie_reviews")
