"""Texts to vectors: tokenizers, transformers in Flax, and the folders that they are read from and
written to.

`retrieval/`, `training/` and `selector/` decide which texts are encoded and how their vectors are
used.

- `text_encoder`: the `TextEncoder` protocol, which is all that retrieval needs, and the check for
  vectors
- `encoder`: `Encoder`, a Flax network with its parameters and tokenizer; training needs this one
- `transformer`: the BERT, RoBERTa and MPNet networks
- `example_encoder`: `ExampleEncoder`, the protocol with two sides, and how any encoder gets them
- `side_prompts`: the prompts that a folder puts before queries and documents
- `tokenizers`: the tokenizers, and the few lengths that batches are padded to
- `registry`: `load_encoder` and `register_encoder`, from a name, a folder, the hub or a server's
  address
- `hf_folder`: Hugging Face and sentence-transformers folders, read and written
- `checkpoint`: what such a folder holds beside the parameters
- `hf_names`: the names that Hugging Face gives to settings and parameters
- `files`: JSON and safetensors files, checked when read
- `endpoint`: an encoder behind an HTTP server, which cannot be trained
"""
