"""An encoder over HTTP: the same vectors as without it, or a refusal."""

import numpy as np
import pytest
from lm_server import QUICK

from ceil_jax.encoders.encoder import Encoder, require_network
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import TextEncoder
from ceil_jax.errors import UserError
from ceil_jax.methods.build import build_retriever
from ceil_jax.tasks.example import Example


@pytest.fixture
def remote(address):
    return load_encoder(f"{address}#tiny-encoder", endpoint=QUICK)


def test_it_gives_vectors_and_has_no_network(remote):
    assert isinstance(remote, TextEncoder)
    assert not isinstance(remote, Encoder)
    with pytest.raises(UserError, match="EPR and CEIL need a local one"):
        require_network(remote)


def test_texts_are_a_list_of_strings(remote):
    with pytest.raises(UserError, match=r"texts\[1\] is None"):
        remote.encode(["a", None])


def test_a_server_with_its_paths_at_its_root(address, server):
    """Infinity has such paths if it is started without a prefix."""

    def at_root(path, body):
        return answer(f"/v1{path}", body)

    answer = server.answer
    server.answer = at_root
    try:
        encoder = load_encoder(f"{address.removesuffix('v1')}#tiny-encoder", endpoint=QUICK)
        assert encoder.encode(["a film"]).shape == (1, 32)
    finally:
        del server.answer


def test_vectors_over_http(remote, address):
    encoder = load_encoder("tiny")
    texts = [f"a film about number{i}" for i in range(150)]
    np.testing.assert_allclose(remote.encode(texts), encoder.encode(texts), atol=1e-6)
    assert (remote.dim, remote.encode([]).shape) == (encoder.dim, (0, encoder.dim))
    bank = [Example(str(i), text, "") for i, text in enumerate(texts)]
    for name in ("dense", "dpp", "mmr"):
        both = (build_retriever(name, bank, encoder=one) for one in (remote, encoder))
        found, expected = (retriever.retrieve(bank[:5], 4) for retriever in both)
        assert [[pick.id for pick in row] for row in found] == [
            [p.id for p in row] for row in expected
        ]
    assert remote.fingerprint == load_encoder(f"{address}#tiny-encoder", endpoint=QUICK).fingerprint
    assert remote.fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-1], "2 answers with indices [0, 1] for 3 texts"),
        (
            lambda data: [{**one, "embedding": [1.0] * (one["index"] + 1)} for one in data],
            "does not follow",
        ),
        (lambda data: [{**entry, "embedding": [None, 1.0]} for entry in data], "does not follow"),
        (lambda data: [{**entry, "embedding": "AAAA"} for entry in data], "does not follow"),
        (lambda data: [{"index": entry["index"]} for entry in data], "no 'embedding'"),
        (
            lambda data: [{**one, "embedding": [1e300]} for one in data],
            "finite numbers, all of one length",
        ),
    ],
)
def test_wrong_vectors(server, remote, change, said):
    server.change = lambda path, request, answer: {**answer, "data": change(answer["data"])}
    with pytest.raises(UserError) as refusal:
        remote.encode(["a", "b", "c"])
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_too_many_texts_at_a_time_are_told_with_their_flag(server, remote):
    server.change = lambda path, request, answer: (413, {"message": "batch size 32 > 8"})
    with pytest.raises(UserError, match=r"HTTP 413: batch size 32 > 8. Send less .*endpoint.batch"):
        remote.encode(["a"] * 32)


def test_vectors_of_tokens_name_pooling(server, remote):
    def tokens(path, request, answer):
        entries = [{**entry, "embedding": [entry["embedding"]] * 2} for entry in answer["data"]]
        return {**answer, "data": entries}

    server.change = tokens
    with pytest.raises(UserError, match="vectors of its tokens: switch pooling on"):
        remote.encode(["good"])
