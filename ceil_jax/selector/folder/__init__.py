"""A selector as a folder, and the folder on the hub; which files it has is said in `files`.

What the bank and the encoders are is not here (`selector.bank`, `encoders/`).

- `pretrained`: `Pretrained`, the selector's methods that save, load and push.
- `files`: the versions of a folder; one save replaces another in one step.
- `manifest`: `selector.json`, the settings and the checksum of every file.
- `content`: the bank's two files.
- `card`: the model card.
- `hub`: a folder from and to the Hugging Face hub.
- `pickling`: encoders as bytes, for worker processes.
"""
