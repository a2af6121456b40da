"""A slice of seconds of `make chaos` for the server and for what asks servers."""

import random
from contextlib import ExitStack

import pytest

from chaos import endpoint, server


@pytest.mark.parametrize(("module", "cases"), [(server, 60), (endpoint, 40)])
def test_a_slice(tmp_path, module, cases, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with ExitStack() as closing:
        [(kind, (_, case))] = module.kinds(tmp_path, closing).items()
        tried = [case(random.Random(f"{kind} {seed}")) for seed in range(cases)]
    assert [failure for _, failure in tried if failure] == []
    assert len({outcome for outcome, _ in tried}) > 1
