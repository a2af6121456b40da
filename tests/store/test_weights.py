"""A folder that is not a model with safetensors ends in one message, whatever it holds instead."""

import pytest
from refusing import refused

from ceil_jax.encoders.registry import load_encoder
from ceil_jax.lm.registry import load_lm

LOADS = [(load_lm, "lm", "AutoModelForCausalLM"), (load_encoder, "encoder", "AutoModel")]


@pytest.mark.parametrize(("load", "flag", "kind"), LOADS)
@pytest.mark.parametrize(
    "names",
    [
        ["pytorch_model.bin", "tokenizer.json"],
        ["model-Q4_K_M.gguf"],
        ["adapter_model.safetensors", "adapter_config.json"],
        ["checkpoint-1000", "checkpoint-500"],
        ["blobs", "refs", "snapshots"],
    ],
)
def test_what_is_there_and_how_to_go_on(tmp_path, load, flag, kind, names):
    for name in names:
        if "." in name:
            (tmp_path / name).write_text('{"model_type": "bert"}')
        else:
            (tmp_path / name).mkdir()
    if "checkpoint-500" in names:
        for name in names:
            (tmp_path / name / "config.json").write_text("{}")
    with refused(
        f"{tmp_path} holds no config.json and model.safetensors, but {', '.join(names)}. "
        f"Name the folder of a complete model.*{kind} as M; M.from_pretrained.*then --{flag} "
        "./converted"
    ):
        load(str(tmp_path))


def test_a_clone_without_lfs_says_so(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with refused(f"{tmp_path}/model.safetensors is a Git LFS pointer.*git lfs pull"):
        load_lm(str(tmp_path))
