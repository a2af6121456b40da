"""Sentences to five grades of sentiment: SST-5, and movie reviews that need no hub."""

from __future__ import annotations

import functools
import hashlib
import tarfile
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from ceil_jax.tasks import assets
from ceil_jax.tasks.example import Example, Template
from ceil_jax.tasks.spec import Hub, Row, TaskSpec, label, table2, text
from ceil_jax.tasks.words import bert_words

MOVIE_WORDS = ("terrible", "bad", "okay", "good", "great")
RATING_CUTS = (-2.0, -0.6, 0.6, 2.0)
"""Boundaries of the five grades on the raters' scale, −4 to 4. As in SST-5, a rating on a boundary
belongs to the grade below it."""

SST5_WORDS = ("terrible", "bad", "OK", "good", "great")
"""The words for the five grades in the released code; the paper's Table 7 shows "very positive"."""


def held_out(sentence: str) -> bool:
    """Return whether a sentence belongs to the validation split, as about a tenth do.

    This depends on its words alone, so it does not change when other sentences are added or
    removed.
    """
    digest = hashlib.sha256(bert_words(sentence).encode()).digest()
    return int.from_bytes(digest[:8], "big") % 10 == 0


@functools.cache
def movie_reviews() -> dict[str, list[Row]]:
    """Return 10,605 sentences of film reviews, each rated by 20 people.

    About a tenth, by a hash, are the validation split.
    """
    archive = assets.fetch("movie_reviews") / "hutto_ICWSM_2014.tar.gz"
    with tarfile.open(archive) as tar:
        stream = tar.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt")
        assert stream is not None, "the archive's checksum was checked when it was fetched"
        lines = stream.read().decode("latin-1").split("\n")
    rows: dict[str, list[Row]] = {"train": [], "validation": []}
    for line in filter(str.strip, lines):
        _, rating, sentence = line.split("\t", 2)
        row: Row = {"text": sentence.strip(), "rating": float(rating)}
        rows["validation" if held_out(row["text"]) else "train"].append(row)
    return rows


def _entry(
    name: str, words: tuple[str, ...], grade: Callable[[Row], int], **others: Any
) -> TaskSpec:
    """Return an entry; `grade` maps a row to an index of `words`."""

    def example(id: str, row: Row) -> Example:
        return Example(id, text(row, "text"), words[grade(row)], words)

    return TaskSpec(name, Template("{input} It is {output}"), "accuracy", example, **others)


ENTRIES = (
    _entry(
        "sst5",
        SST5_WORDS,
        lambda row: label(row, "label", 5),
        columns=("text", "label"),
        folder="sst5",
        hub=Hub("SetFit/sst5", revision="e51bdcd8cd3a30da231967c1a249ba59361279a3"),
        paper=table2(31.43, 36.06, 37.06, 37.06, 37.24, 36.78, 42.82, 47.05),
    ),
    _entry(
        "movie_reviews",
        MOVIE_WORDS,
        lambda row: bisect_left(RATING_CUTS, row["rating"]),
        columns=("text", "rating"),
        embedded=movie_reviews,
        note="sentences SST was made from, with other ratings and cuts: not comparable with SST-5",
    ),
)
