"""A bank, and an encoder that needs no weights, for the tests of the selector and of its
adapters."""

import numpy as np

SUBJECTS = ("river", "bridge", "market", "harbour", "garden")
ROWS = [
    {
        "id": f"row-{i}",
        "input": f"the {SUBJECTS[i % 5]} number{i % 7} at {'night' if i % 3 else 'noon'}",
        "output": "dark" if i % 3 else "light",
        "town": f"town{i % 4}",
        "year": 2000 + i % 2,
    }
    for i in range(60)
]
QUERY = "the river number8 at noon"
"""Asks for none of the rows."""


class Words:
    """An encoder of words: each text the sum of its words' fixed random vectors."""

    name = "words"
    dim = 32

    def encode(self, texts):
        def vector(word):
            return np.random.default_rng(sum(ord(c) * 7**i for i, c in enumerate(word))).normal(
                size=self.dim
            )

        return np.array([sum(map(vector, text.split())) for text in texts], np.float32)


def ids(selection):
    return [example.id for example in selection]


def words(texts):
    return [len(text.split()) for text in texts]
