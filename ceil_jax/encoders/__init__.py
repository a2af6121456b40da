"""Text encoders: tokenizers, transformers in Flax, and reading and writing of their folders.

`retrieval/`, `training/` and `selector/` decide which texts are encoded and how their vectors are
used.

- `text_encoder`: the `TextEncoder` protocol, which is all that retrieval needs, and the check of
  vectors
- `encoder`: `Encoder`, a Flax network with its parameters and tokenizer; training needs this one
- `transformer`: the BERT, RoBERTa and MPNet networks
- `example_encoder`: `ExampleEncoder`, the protocol with two sides, and wrapping any encoder as one
- `side_prompts`: the prompts that a folder puts before queries and documents
- `tokenizers`: the tokenizers, and the few lengths that batches are padded to
- `registry`: `load_encoder` and `register_encoder`, from a name, a folder, the hub or a server's
  address
- `hf_folder`: reading Hugging Face and sentence-transformers folders
- `checkpoint`: the other contents of such a folder, and writing one
- `hf_names`: the names that Hugging Face gives to settings and parameters
- `endpoint`: an encoder behind an HTTP server, which cannot be trained
"""
