"""Small Hugging Face folders with random weights, as transformers and sentence-transformers write
them."""

import json
import shutil

from safetensors.numpy import load_file, save_file

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
    "ducks",
    ".",
]


def make_folder(folder, family="bert", pooling="mean", normalize=True, limit=20):
    """A random checkpoint of that family as transformers writes it, with sentence-transformers'
    files."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    vocab = {word: i for i, word in enumerate([*special, *WORDS])}
    text = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    text.normalizer = normalizers.Lowercase()
    text.pre_tokenizer = pre_tokenizers.Whitespace()
    text.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 0))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=text,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    name = {"bert": "Bert", "roberta": "Roberta", "mpnet": "MPNet"}[family]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
        pad_token_id=1,
        initializer_range=0.5,
    )
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    kinds = ["Transformer", "Pooling", "Normalize"][: 3 if normalize else 2]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
    (folder / "1_Pooling").mkdir()
    modes = {
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    config = {"word_embedding_dimension": 16, **modes}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return folder


def changed(folder, to, file="config.json", **fields):
    """A copy of the folder with fields of a JSON file set, or left out where the value is None."""
    shutil.copytree(folder, to)
    content = json.loads((to / file).read_text()) if (to / file).exists() else {}
    content |= fields
    (to / file).write_text(
        json.dumps({name: value for name, value in content.items() if value is not None})
    )
    return to


def rewritten(folder, to, change):
    """A copy of the folder with other tensors."""
    shutil.copytree(folder, to)
    save_file(change(load_file(folder / "model.safetensors")), to / "model.safetensors")
    return to
