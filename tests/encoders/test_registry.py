"""Names to encoders, encoders to folders and back, against sentence-transformers; and what is
refused."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from folders_of_encoders import changed, make_folder, rewritten
from refusing import refused
from safetensors.numpy import load_file, save_file

from ceil_jax.encoders import registry
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.registry import load_encoder, register_encoder
from ceil_jax.tasks.assets import fetch

TEXTS = ["The old bridge , a slow river .", "ducks", "", "leaves " * 30, "under the bridge unknown"]


def vectors_of_sentence_transformers(folder, texts):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(texts, show_progress_bar=False)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize(
    ("family", "pooling", "normalize"),
    [("bert", "cls", False), ("roberta", "mean", True), ("mpnet", "mean", False)],
)
def test_a_folder_gives_sentence_transformers_vectors_and_goes_back(
    tmp_path, family, pooling, normalize
):
    folder = make_folder(tmp_path / "in", family, pooling, normalize)
    encoder = load_encoder(folder)
    assert (encoder.max_length, encoder.dim) == (20, 16)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, vectors_of_sentence_transformers(folder, TEXTS), atol=1e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5) == normalize

    trained = encoder.with_params({name: value + 0.05 for name, value in encoder.params.items()})
    expected = trained.encode(TEXTS)
    assert np.abs(expected - vectors).max() > 1e-3
    trained.save_pretrained(tmp_path / "out")
    saved = vectors_of_sentence_transformers(tmp_path / "out", TEXTS)
    np.testing.assert_allclose(saved, expected, atol=1e-5 if not normalize else 1e-6)
    again = load_encoder(tmp_path / "out")
    assert again.fingerprint == trained.fingerprint
    assert again.max_length == 20
    for name, value in trained.params.items():
        np.testing.assert_array_equal(again.params[name], value)


def test_a_checkpoint_with_a_head_old_names_and_its_own_folder(bert, tmp_path):
    """Older tools wrote such folders: `bert.` before every name, LayerNorm.gamma, pretraining heads,
    shards."""

    def older(tensors):
        renamed = {"cls.predictions.bias": np.zeros(16, np.float32)}
        for name, tensor in tensors.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            renamed["bert." + name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
        return renamed

    inner = rewritten(bert, tmp_path / "unpacked" / "model", older)
    tensors = load_file(inner / "model.safetensors")
    names = sorted(tensors)
    (inner / "model.safetensors").unlink()
    for i, part in enumerate((names[:9], names[9:])):
        save_file(
            {name: tensors[name] for name in part},
            inner / f"model-0000{i + 1}-of-00002.safetensors",
        )
    expected = load_encoder(bert).encode(TEXTS)
    np.testing.assert_allclose(
        load_encoder(tmp_path / "unpacked").encode(TEXTS), expected, atol=1e-6
    )


def test_prompt_and_lower_case_are_the_checkpoints(bert, tmp_path):
    folder = changed(
        bert,
        tmp_path / "prompt",
        "config_sentence_transformers.json",
        prompts={"query": "ducks , "},
        default_prompt_name="query",
    )
    encoder = load_encoder(folder)
    plain = load_encoder(bert)
    np.testing.assert_allclose(
        encoder.encode(["a river"]), plain.encode(["ducks , a river"]), atol=1e-6
    )
    found = encoder.encode(TEXTS)
    np.testing.assert_allclose(found, vectors_of_sentence_transformers(folder, TEXTS), atol=1e-5)
    encoder.save_pretrained(tmp_path / "again")
    np.testing.assert_allclose(load_encoder(tmp_path / "again").encode(TEXTS), found, atol=1e-6)


def test_a_plain_hugging_face_folder_is_mean_pooled(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "plain")
    (tmp_path / "plain" / "modules.json").unlink()
    vectors = load_encoder(tmp_path / "plain").encode(TEXTS)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 0.1
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, load_encoder(bert).encode(TEXTS), atol=1e-6)


def test_a_clone_without_lfs_says_so(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "cloned")
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with refused(f"{folder}/model.safetensors is a Git LFS pointer.*git lfs pull"):
        load_encoder(folder)


def test_weights_in_pickles_are_not_opened(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with refused(r"model.safetensors, but .*pytorch_model.bin.*AutoModel as M.*--encoder ./conv"):
        load_encoder(folder)


OWN = """
from flax import nnx
from ceil_jax.encoders import registry
from ceil_jax.encoders.encoder import Encoder
from ceil_jax.encoders.tokenizers import HashingTokenizer

WIDTH = 4

class First(nnx.Module):
    def __init__(self, rngs):
        self.words = nnx.Embed(32, WIDTH, rngs=rngs)

    def __call__(self, ids, mask, *, key=None):
        return self.words(ids)[:, 1]

def build():
    return Encoder(First(nnx.Rngs(0)), HashingTokenizer(32), max_length=8)

def other():
    return "not an encoder"
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "a_users_encoder.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_users_encoder"
    sys.modules.pop("a_users_encoder", None)


def test_a_users_own_encoder_by_name_and_then_by_folder(own_module, tmp_path):
    encoder = load_encoder(f"{own_module}:build")
    trained = encoder.with_params({name: value + 1 for name, value in encoder.params.items()})
    trained.save_pretrained(tmp_path / "saved")
    again = load_encoder(tmp_path / "saved")
    assert again.name == "saved"
    assert again.fingerprint == trained.fingerprint != encoder.fingerprint
    np.testing.assert_array_equal(again.encode(["duck"]), encoder.encode(["duck"]) + 1)

    sys.modules[own_module].WIDTH = 6
    with refused(r"another architecture: shape of words.embedding \(32, 4\) where \(32, 6\)"):
        load_encoder(tmp_path / "saved")


def test_a_folder_imports_nothing(own_module, tmp_path, monkeypatch):
    load_encoder(f"{own_module}:build").save_pretrained(tmp_path / "deep" / "saved")
    (tmp_path / "deep" / "saved" / "config.json").write_text("{}")
    monkeypatch.setattr(registry, "_named", {})
    monkeypatch.setattr(registry, "_download", lambda name: tmp_path / "deep")
    # nor one folder deeper, where archives are unpacked, nor what came from the hub
    for name in (tmp_path / "deep" / "saved", tmp_path / "deep", "somebody/something"):
        with refused(f"is made by '{own_module}:build', which is not registered"):
            load_encoder(name)


def test_a_registered_encoder(tmp_path):
    register_encoder("scaled tiny", lambda: load_encoder("tiny"))
    encoder = load_encoder("scaled tiny")
    assert encoder.name == "scaled tiny"
    encoder.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "ceil_jax.json").read_text()) == {"factory": "scaled tiny"}
    assert load_encoder(tmp_path).fingerprint == encoder.fingerprint


def test_a_folder_is_what_was_saved_there_last(bert, tmp_path):
    for name in ("tiny", bert, "tiny"):
        encoder = load_encoder(name)
        encoder.save_pretrained(tmp_path)
        np.testing.assert_array_equal(
            load_encoder(tmp_path).encode(["duck"]), encoder.encode(["duck"])
        )
    assert not (tmp_path / "modules.json").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("all-MiniLM-L6", "unknown encoder 'all-MiniLM-L6'; did you mean 'all-MiniLM-L6-v2'"),
        (
            "nobody/no-such-encoder",
            "unknown encoder 'nobody/no-such-encoder'.*nor a hub id that can be fetched",
        ),
        ("./no/such/folder", "./no/such/folder is not a folder"),
        ("no_such_module:build", "No module named 'no_such_module'; expected module:function"),
        (
            "a_users_encoder:bild",
            "unknown function in a_users_encoder 'bild'; did you mean 'build'",
        ),
        ("json:loads", "json:loads: missing a required argument: 's'"),
        ("a_users_encoder:other", "returned str; expected Encoder"),
        (
            "a_users_encoder:First",
            "First is <class .*; expected a function that returns the encoder",
        ),
    ],
)
def test_unknown_names(own_module, name, said):
    with refused(said):
        load_encoder(name)


def test_a_snapshot_of_the_hubs_cache_has_its_repositorys_name(bert, tmp_path):
    snapshot = tmp_path / "models--owner--name" / "snapshots" / "0123abcd"
    shutil.copytree(bert, snapshot)
    encoder = load_encoder(snapshot)
    assert encoder.name == "owner/name"
    assert encoder.fingerprint == load_encoder(bert).fingerprint


def test_a_folder_with_a_known_name_is_told_and_reached(bert, tmp_path, monkeypatch, caplog):
    shutil.copytree(bert, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    assert load_encoder("tiny").dim == 32
    assert "not the folder tiny; write ./tiny for the folder" in caplog.text
    caplog.clear()
    assert load_encoder("./tiny").dim == load_encoder(Path("tiny")).dim == 16
    assert caplog.text == ""


def test_what_cannot_be_saved(bert, tmp_path):
    tiny = load_encoder("tiny")
    nameless = Encoder(tiny.module, tiny.tokenizer, max_length=8)
    with refused("'Transformer' cannot be saved: nothing says how to build"):
        nameless.save_pretrained(tmp_path)
    (tmp_path / "file").write_text("in the way")
    with refused(r"cannot write .*file"):
        load_encoder(bert).save_pretrained(tmp_path / "file")


SUBJECTS = ["the ferry", "my neighbour's goat", "an unsigned letter", "Zoë's café", "nobody"]
VERBS = [
    "arrived late",
    "was praised by critics",
    "cost £12.50 (plus tax)",
    "collapsed without warning",
]
PLACES = ["in Lisbon", "behind the old mill", "during the third act", "at 07:45 on a Monday"]


def sentences(count):
    """Texts of 0 to about 800 words, so that the longest are cut; most are short."""
    rng = np.random.default_rng(0)
    clauses = [0, 90, 30, 12, *rng.geometric(0.6, size=count - 4)]
    words = SUBJECTS, VERBS, PLACES
    return [
        "; ".join(" ".join(map(rng.choice, words)) for _ in range(number)) for number in clauses
    ]


@pytest.mark.packages
@pytest.mark.parametrize(("name", "dim"), [("all-MiniLM-L6-v2", 384), ("all-mpnet-base-v2", 768)])
def test_packaged_encoders_equal_sentence_transformers(name, dim, tmp_path):
    # each length that texts are padded to is compiled, and mpnet's layers take their time: an empty
    # text and the longest
    texts = sentences(24)[: 24 if dim == 384 else 2]
    encoder = load_encoder(name)
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), dim)
    (modules,) = fetch(name).rglob("modules.json")
    expected = vectors_of_sentence_transformers(modules.parent, texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert (vectors * expected).sum(1).min() >= 0.99999
    if name == "all-MiniLM-L6-v2":
        encoder.save_pretrained(tmp_path)
        saved = vectors_of_sentence_transformers(tmp_path, texts[-8:])
        np.testing.assert_allclose(saved, vectors[-8:], atol=1e-6)
