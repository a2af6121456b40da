"""The networks against transformers' at three depths, and what an encoder promises whatever its
network."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.hf_names import base_name, hugging_face_name, network_config, turned
from ceil_jax.encoders.registry import load_encoder
from ceil_jax.encoders.text_encoder import TextEncoder, check_texts
from ceil_jax.encoders.tokenizers import HashingTokenizer, Tokens, batches, pad, padded_length
from ceil_jax.encoders.transformer import Transformer, TransformerConfig, dropout, relative_buckets
from ceil_jax.errors import UserError

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 42,
}
WORDS = [
    "a",
    "slow",
    "river",
    "under",
    "the",
    "old",
    "bridge",
    "carries",
    "leaves",
    ",",
    "very",
    "duck",
]


def torch_model(family):
    """A transformers model with everything random, biases and layer norms too, so that none is left
    out."""
    import torch
    import transformers

    own = {
        "bert": {"pad_token_id": 0},
        "roberta": {"pad_token_id": 1, "type_vocab_size": 1},
        "mpnet": {},
    }
    names = {"bert": "Bert", "roberta": "Roberta", "mpnet": "MPNet"}
    config = getattr(transformers, f"{names[family]}Config")(**SMALL, **own[family])
    model = getattr(transformers, f"{names[family]}Model")(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def ours(model, **options) -> Encoder:
    config = network_config(model.config.to_dict(), "config.json", **options)
    shapes = nnx.eval_shape(lambda: Transformer(config, nnx.Rngs(0)))
    encoder = Encoder(shapes, HashingTokenizer(50), max_length=40)
    tensors = {base_name(name): tensor.numpy() for name, tensor in model.state_dict().items()}
    theirs = {name: tensors[hugging_face_name(name, config.family)] for name in encoder.params}
    return encoder.with_params(
        {name: jnp.asarray(turned(name, value)) for name, value in theirs.items()}
    )


def init_encoder(config, key, tokenizer=None) -> Encoder:
    return Encoder(
        Transformer(config, nnx.Rngs(key)),
        tokenizer or HashingTokenizer(config.vocab_size),
        max_length=config.positions,
        name="random",
    )


def tokens_of(encoder, texts, length) -> Tokens:
    return pad(encoder.tokenizer(texts, length), length, encoder.tokenizer.pad_id)


def small_batch(pad_id) -> Tokens:
    rng = np.random.default_rng(0)
    return pad([rng.integers(3, 50, size=size).tolist() for size in (3, 17, 40)], 40, pad_id)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_network_equals_transformers_at_every_depth(family):
    import torch

    model = torch_model(family)
    tokens = small_batch(model.config.pad_token_id)
    ids, mask = (torch.tensor(part, dtype=torch.long) for part in tokens)
    with torch.no_grad():
        theirs = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    states = jax.jit(ours(model, pooling="mean", normalize=False).module.hidden_states)(*tokens)
    assert len(states) == len(theirs) == 3  # embeddings, first layer, output
    for state, their in zip(states, theirs, strict=True):
        # values are of order 1; float32 in another order of summation
        np.testing.assert_allclose(
            state[tokens.mask > 0], their.numpy()[tokens.mask > 0], rtol=1e-5, atol=5e-6
        )

    last = theirs[-1].numpy()
    real = tokens.mask[:, :, None]
    mean = (last * real).sum(1) / real.sum(1)
    units = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    for pooling, normalize, expected in (("mean", True, units), ("cls", False, last[:, 0])):
        encoder = ours(model, pooling=pooling, normalize=normalize)
        vectors = jax.jit(encoder.apply)(encoder.params, tokens)
        np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("family", ["roberta", "mpnet"])
def test_a_padding_token_inside_a_text_takes_the_padding_position(family):
    """In the released models, positions count the ids that are not padding, whatever the mask says."""
    import torch

    model = torch_model(family)
    ids = np.array([[5, 6, 1, 7, 8, 1, 1, 1]], np.int32)
    mask = np.array([[1, 1, 1, 1, 1, 0, 0, 0]], np.int32)
    with torch.no_grad():
        their = model(
            torch.tensor(ids).long(), attention_mask=torch.tensor(mask)
        ).last_hidden_state.numpy()
    state = jax.jit(ours(model, pooling="mean", normalize=True).module.hidden_states)(ids, mask)[-1]
    np.testing.assert_allclose(state[:, :5], their[:, :5], rtol=1e-5, atol=5e-6)


def test_relative_buckets_equal_transformers_at_every_distance():
    import torch
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    offsets = torch.arange(512)[None, :] - torch.arange(512)[:, None]
    expected = MPNetEncoder.relative_position_bucket(
        offsets, num_buckets=32, max_distance=128
    ).numpy()
    np.testing.assert_array_equal(relative_buckets(512, 32), expected)


@pytest.fixture
def tiny() -> Encoder:
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Texts of three lengths once padded, the shortest empty."""
    rng = np.random.default_rng(1)
    return [
        " ".join(rng.choice(WORDS, size=size)) for size in (3, 45, 18, 0, 1, 22, 5, 41, 7, 2, 6)
    ]


def test_padding_and_company_do_not_change_a_vector(tiny, texts):
    alone = np.concatenate([tiny.encode([text]) for text in texts])
    np.testing.assert_allclose(tiny.encode(texts, batch_size=4), alone, atol=1e-6)
    longer = jax.jit(tiny.apply)(tiny.params, tokens_of(tiny, texts, tiny.max_length))
    np.testing.assert_allclose(longer, alone, atol=1e-6)


def test_encode_gives_unit_vectors_in_the_order_of_the_texts(tiny, texts):
    vectors = tiny.encode(texts, batch_size=4)
    assert vectors.shape == (len(texts), tiny.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    order = np.random.default_rng(2).permutation(len(texts))
    shuffled = tiny.encode([texts[i] for i in order], batch_size=4)
    np.testing.assert_allclose(shuffled, vectors[order], atol=1e-6)
    assert np.abs(vectors - np.roll(vectors, 1, axis=0)).max(1).min() > 1e-3  # no two alike


def test_encode_of_nothing(tiny):
    assert isinstance(tiny, TextEncoder)
    assert tiny.encode([]).shape == (0, tiny.dim)


@pytest.mark.parametrize("bad", ["a text", [b"bytes"], ["fine", None]])
def test_what_is_not_a_list_of_strings_is_refused(tiny, bad):
    with pytest.raises(UserError, match="expected a"):
        check_texts(bad)
    with pytest.raises(UserError, match="texts is one string, 'a text'; expected a list"):
        tiny.encode("a text")


def test_dropout_needs_a_key_and_follows_it(tiny):
    tokens = tokens_of(tiny, ["the old bridge", "a small duck"], 8)
    apply = jax.jit(tiny.apply)
    keys = jax.random.split(jax.random.key(0), 2)
    still, first, second = (
        np.asarray(apply(tiny.params, tokens, key=key)) for key in (None, *keys)
    )
    np.testing.assert_allclose(still, tiny.encode(["the old bridge", "a small duck"]), atol=1e-6)
    assert np.abs(first - still).max() > 1e-2
    assert np.abs(first - second).max() > 1e-2
    np.testing.assert_array_equal(first, apply(tiny.params, tokens, key=keys[0]))


def test_dropout_keeps_the_mean():
    dropped = np.asarray(dropout(jnp.ones(40_000), 0.25, jax.random.key(3)))
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)}
    # a mean of 40,000 draws: four standard deviations of sqrt(0.25 / 0.75 / 40,000)
    assert abs(dropped.mean() - 1) < 4 * math.sqrt(0.25 / 0.75 / 40_000)


def test_gradients_are_finite_and_reach_only_the_words_read(tiny):
    # the last row is all padding
    tokens = pad(tiny.tokenizer(["the old bridge", "the duck"], 8), 8, 0, rows=3)

    def loss(params):
        vectors = tiny.apply(params, tokens, key=jax.random.key(1))
        return vectors[0] @ vectors[1] + vectors[2].sum()

    gradients = jax.jit(jax.grad(loss))(tiny.params)
    assert gradients.keys() == tiny.params.keys()
    assert all(np.isfinite(value).all() for value in gradients.values())
    words = np.abs(gradients["embeddings.word.embedding"]).sum(1)
    assert set(np.flatnonzero(words)) == set(tokens.ids[tokens.mask > 0].tolist())


def test_with_params_leaves_the_encoder_as_it_was(tiny):
    before = tiny.encode(["the duck"])
    mark = tiny.fingerprint
    other = tiny.with_params(jax.tree.map(lambda value: value + 0.1, tiny.params))
    assert np.abs(other.encode(["the duck"]) - before).max() > 1e-2
    assert other.fingerprint != mark == tiny.fingerprint
    np.testing.assert_array_equal(tiny.encode(["the duck"]), before)
    assert other.apply is tiny.apply  # nothing compiles again


def test_fingerprint_depends_on_what_changes_a_vector(tiny):
    config = TransformerConfig("bert", 100, width=8, layers=1, heads=2, hidden=8, positions=16)
    encoder = init_encoder(config, jax.random.key(0))
    other = init_encoder(config, jax.random.key(1))
    tokenizer = init_encoder(config, jax.random.key(0), HashingTokenizer(99))
    assert encoder.fingerprint == init_encoder(config, jax.random.key(0)).fingerprint
    assert len({one.fingerprint for one in (encoder, other, tokenizer)}) == 3


class Own(nnx.Module):
    """A user's network: `scale` is state that is not a parameter, `pool` stands for what its code
    does."""

    def __init__(self, scale, pool):
        self.embed = nnx.Embed(99, 8, rngs=nnx.Rngs(0))
        self.scale = nnx.Variable(scale)
        self.pool = pool

    def __call__(self, ids, mask, *, key=None):
        return self.pool(self.embed(ids) * mask[..., None], axis=1) * self.scale[...]


def test_an_edited_network_does_not_find_the_vectors_of_the_old_one():
    def own(scale=1.0, pool=jnp.sum):
        network = Own(jnp.full((1, 8), scale), pool)
        return Encoder(network, HashingTokenizer(99), max_length=16, factory="my_encoders:own")

    assert own().fingerprint == own().fingerprint
    assert len({one.fingerprint for one in (own(), own(scale=3.0), own(pool=jnp.max))}) == 3


def test_batches_hold_every_text_once_in_few_shapes():
    lengths = [*np.random.default_rng(0).integers(1, 60, size=300).tolist(), 500, 400, 2]
    found = list(batches(lengths, 64, max_length=512))
    assert sorted(i for chosen, _ in found for i in chosen) == list(range(303))
    for chosen, (rows, length) in found:
        assert len(chosen) <= rows <= 4 * len(chosen)
        assert rows * length <= 64 * 128
        assert all(lengths[i] <= length <= max(8, 2 * lengths[i]) for i in chosen)
    assert len({shape for _, shape in found}) <= 8
    assert found[0][1] == (4, 512)  # the two long texts do not take short ones with them
    assert [padded_length(n, 100) for n in (1, 8, 9, 33, 97, 100)] == [8, 8, 16, 48, 100, 100]


def test_a_service_compiles_few_shapes_for_its_queries():
    shapes = {shape for n in range(1, 513) for _, shape in batches([n], 64, max_length=512)}
    assert len(shapes) == 6
    assert list(batches([300], 64, max_length=128)) == [([0], (1, 128))]
    for n in (1, 16, 17, 500):
        [(chosen, (rows, length))] = batches([n], 64, max_length=512)
        assert chosen.tolist() == [0]
        assert rows == 1
        assert n <= length <= max(16, 2 * n)


def test_a_vector_that_is_not_finite_names_the_encoder_and_the_first_text(tiny):
    word = "embeddings.word.embedding"
    [[_, id_]] = tiny.tokenizer(["duck"], 8)
    broken = tiny.with_params(
        {**tiny.params, word: tiny.params[word].at[id_].set(jnp.nan)}
    ).renamed("broken")
    assert np.isfinite(broken.encode(["a river"])).all()
    with pytest.raises(
        UserError, match=r"encoder broken .* for 2 of 3 texts, first for 'a small duck'"
    ):
        broken.encode(["a river", "a small duck", "the duck"])


def test_texts_that_are_cut_are_counted_once(tiny, caplog):
    """128 tokens are read, of which the first starts the text."""
    texts = ["a " * 127, "a " * 128, "short", "a " * 300]
    vectors = tiny.encode(texts)
    [said] = [record.message for record in caplog.records]
    assert "encoder tiny: 2 of 4 texts are longer than the 128 tokens (max_length)" in said
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-6)
    caplog.clear()
    tiny.encode(["a " * 127, "short"])
    assert not caplog.records


class Refusing:
    """A tokenizer that takes no empty list, as those of transformers."""

    pad_id = 0
    fingerprint = "refusing"

    def __call__(self, texts, max_length):
        assert texts
        return [[1] * min(len(text.split()), max_length) for text in texts]


class Everything(nnx.Module):
    def __call__(self, ids, mask, *, key=None):
        return jnp.ones((*ids.shape, 3))


class First(Everything):
    def __call__(self, ids, mask, *, key=None):
        return super().__call__(ids, mask)[:, 0]


def test_a_tokenizer_is_never_asked_for_nothing():
    assert Encoder(First(), Refusing(), max_length=8).encode(["a dull film"]).shape == (1, 3)


def test_a_network_without_pooling_is_refused():
    with pytest.raises(
        UserError, match=r"Everything returned .* for ids of shape \(1, 8\); expected a vector"
    ):
        Encoder(Everything(), Refusing(), max_length=8)
