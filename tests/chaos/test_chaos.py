"""A slice of seconds of `make chaos`; and the guard itself finds what it is there to find."""

import random

from chaos.damage import HARMS
from chaos.readers import FILES, Readers, attempt
from chaos.tally import Tally, repeat


def test_a_slice_of_the_readers(tmp_path):
    readers, tally = Readers(tmp_path), Tally()
    for kind in FILES:
        repeat(tally, f"read {kind}", lambda draw, k=kind: readers.file(k, draw), 0, 0, cases=15)
    assert tally.failures == []
    assert sum(tally.tried.values()) == 15 * len(FILES)


def test_what_fails_is_told_with_its_seed(capsys):
    tally = Tally()
    repeat(tally, "broken", lambda draw: attempt(lambda: [][0], "reading"), 7, 0, cases=1)
    assert "IndexError" in tally.failures[0] and "--only 'broken' --seed 7 --cases 1" in tally.failures[0]
    assert "1  tried, 1 failed" in tally.page()


def test_every_harm_changes_something():
    content = b"".join(b"line %d\n" % i for i in range(20))
    for harm in HARMS.values():
        assert harm(content, random.Random(1)) != content
        harm(b"", random.Random(1))
