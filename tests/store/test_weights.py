"""Weights that are no safetensors are told of before anything is fetched."""

from types import SimpleNamespace

import huggingface_hub
import pytest
from refusing import refused

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.lm.counting import counting_lm
from ceil_jax.lm.registry import load_lm
from ceil_jax.store import weights
from ceil_jax.store.weights import check_weights

SHARDED = ["config.json", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"]


@pytest.fixture
def hub(monkeypatch):
    """A hub whose repository has these files, and of which nothing may be fetched."""

    def has(names):
        weights._listed.cache_clear()
        files = [SimpleNamespace(rfilename=name) for name in names]
        known = SimpleNamespace(siblings=files)
        monkeypatch.setattr(huggingface_hub, "model_info", lambda repository, timeout: known)

    def fetched(*arguments, **options):
        raise AssertionError("something is fetched")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", fetched)
    yield has
    weights._listed.cache_clear()


@pytest.mark.parametrize("load", [load_lm, lambda name: counting_lm(name, "auto")])
def test_an_lm_in_pickles_is_refused_before_a_file_is_fetched(hub, load):
    hub(SHARDED)
    with refused(
        "owner/name has its weights as pytorch_model-00001-of-00002.bin alone.*"
        "AutoModelForCausalLM as M.*from_pretrained.'owner/name', use_safetensors=False.*"
        "then --lm ./converted"
    ):
        load("owner/name")


def test_an_encoder_in_pickles_is_refused_before_a_file_is_fetched(hub):
    hub(["pytorch_model.bin", "onnx/model.onnx", "tokenizer.json"])
    with refused("pytorch_model.bin alone.*AutoModel as M.*then --encoder ./converted"):
        load_encoder("facebook/contriever")


@pytest.mark.parametrize("name", ["tf_model.h5", "model-Q4_K_M.gguf", "flax_model.msgpack"])
def test_weights_of_other_libraries_name_another_way_out(hub, name):
    hub(["config.json", name])
    with refused(f"has its weights as {name} alone.*holds model.safetensors"):
        check_weights("owner/name", "lm")


@pytest.mark.parametrize(
    "names",
    [
        [*SHARDED, "model.safetensors"],
        ["model-00001-of-00002.safetensors", "training_args.bin"],
        ["config.json", "training_args.bin", "optimizer.pt"],
        ["onnx/model.onnx", "openvino/pytorch_model.bin"],
        [],
    ],
)
def test_what_may_be_loaded_is_not_refused(hub, tmp_path, names):
    hub(names)
    check_weights("owner/name", "lm")
    for name in names:
        if "/" not in name:
            (tmp_path / name).touch()
    check_weights(tmp_path, "encoder")


def test_a_hub_that_cannot_be_reached_refuses_nothing(monkeypatch):
    def unreachable(repository, timeout):
        raise ConnectionError

    weights._listed.cache_clear()
    monkeypatch.setattr(huggingface_hub, "model_info", unreachable)
    check_weights("owner/name", "lm")
    weights._listed.cache_clear()


def test_a_folder_of_pickles_as_lm_says_how_to_convert_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").touch()
    with refused(f"{tmp_path} has its weights as pytorch_model.bin alone.*then --lm ./converted"):
        load_lm(str(tmp_path))


@pytest.mark.parametrize("load", [load_lm, load_encoder])
def test_a_clone_without_lfs_says_so(tmp_path, load):
    (tmp_path / "config.json").write_text("{}")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 9\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    with refused(f"{tmp_path}/model.safetensors is a Git LFS pointer.*git lfs pull"):
        load(str(tmp_path))


def test_an_adapter_of_an_encoder_says_what_to_merge_it_with(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "owner/base"}')
    with refused(r"adapter \(PEFT\) of the model owner/base.*\(AutoModel.from_pretrained"):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize("load", [load_lm, load_encoder])
def test_of_several_models_in_a_folder_none_is_taken(tmp_path, load):
    for name in ("checkpoint-500", "checkpoint-1000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "modules.json").write_text("[]")
    with refused(r"folders of models \(checkpoint-1000, checkpoint-500\); name one: "):
        load(str(tmp_path))
