"""Checks with real servers, which are started with the packaged weights, called as a user calls
them, and compared with the same models in process. `make servers-check` runs all; they are not part
of the tests.

- `__main__`: the command
- `environment`: a virtual environment for each server, made once
- `serving`: a server's process, from its start until it is ended
- `language_models`: LM servers, and log P, answers, `compare` and `tune` through them
- `vectors`: an embeddings server
- `programs`: what runs inside the environments
"""
