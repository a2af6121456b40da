"""movie_reviews: five grades of sentiment of film-review sentences, from a package, so that no hub is needed."""

from runner import run

run("movie_reviews")
